"""A run folder of 24 hours, written by the product's own writers, and how long its report takes: run it by

python -m tests.reports.bench_long_run [HOURS]
"""

from __future__ import annotations

import math
import random
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from reports.conclude import render
from reports.rows import RowWriter
from reports.run_folder import RunFolder
from reports.schema import FutureCounts, ResourceRow, TimelineRow
from tests.reports.conftest import FACTS, STARTED_S, UNIX_S, histogram

RATE, RESULT_BYTES, TTL_S = 400, 90_000, 300
PEAK_BYTES = 20_000_000_000  # of one second


def write_long_run(path: Path, seconds: int) -> RunFolder:
    """A steady load that breathes over the day, with noise, and a single second in which memory peaks."""
    chance = random.Random(4)
    folder = RunFolder.create(path)
    delivered, cpu_s = 0, 0.0
    history: list[int] = []
    with folder.timeline_writer() as timeline, RowWriter(folder.resources_csv, ResourceRow) as resources:
        resources.write(
            ResourceRow(monotonic_s=STARTED_S - 1, unix_s=UNIX_S - 1, target_rss_bytes=100_000_000, engine_finished=0)
        )
        for second in range(seconds):
            delivered += round(RATE * (1 + 0.2 * math.sin(second / 7000)) + chance.gauss(0, 15))
            cpu_s += 0.6 + chance.gauss(0, 0.03)
            history.append(delivered)
            held = (delivered - (history[second - TTL_S - 1] if second > TTL_S else 0)) * RESULT_BYTES
            moment = {"monotonic_s": STARTED_S + second + 1, "unix_s": UNIX_S + second + 1}
            row = {
                "submitted": delivered,
                "delivered": delivered,
                "outstanding": 17_000,
                "polls": 2 * delivered,
            }
            row |= {"re_polls": delivered, "re_polls_timeout": delivered, "delivered_bytes": delivered * RESULT_BYTES}
            cells = dict.fromkeys(TimelineRow.__struct_fields__, 0) | moment | row
            timeline.write(
                TimelineRow(**cells | {"load_cpu_s": 0.5 * cpu_s, "load_lag_max_s": chance.expovariate(200)})
            )
            peak = PEAK_BYTES if second == seconds // 2 else 0
            resources.write(
                ResourceRow(
                    **moment,
                    target_rss_bytes=max(peak, 100_000_000 + int(1.1 * held) + chance.randrange(5_000_000)),
                    target_cpu_s=cpu_s,
                    target_fds=17_000,
                    target_outstanding=17_000,
                    target_held_bytes=held,
                    target_loop_lag_max_s=chance.expovariate(80),
                    canary_s=chance.expovariate(150),
                    engine_running=2048,
                    engine_waiting=14_000,
                    engine_finished=delivered,
                    engine_slot_seconds=2048.0 * second,
                    engine_cpu_s=0.3 * cpu_s,
                    machine_cpu_utilisation=0.7,
                )
            )
    latencies = {name: histogram([chance.expovariate(1) for _ in range(5000)]) for name in ("future", "poll", "submit")}
    folder.checkpoint(
        msgspec.structs.replace(
            FACTS,
            name="long",
            duration_s=float(seconds),
            workload=msgspec.structs.replace(FACTS.workload, requests=delivered, outstanding=17_000),
            engine=msgspec.structs.replace(FACTS.engine, slots=2048),
            futures=FutureCounts(submitted=delivered, delivered=delivered, verified=delivered),
            histograms=latencies,
            ended="complete",
        )
    )
    return folder


def main() -> None:
    hours = float(sys.argv[1]) if len(sys.argv) > 1 else 24.0
    with tempfile.TemporaryDirectory() as directory:
        folder = write_long_run(Path(directory) / "long", int(3600 * hours))
        began = time.monotonic()
        document = render(folder)
        took_s = time.monotonic() - began
        size = folder.report_html.stat().st_size
        memory = document.memory.conclusion if document.memory else None
    print(f"{hours:g} h, {3600 * hours:,.0f} rows of each series: rendered in {took_s:.1f} s, {size / 1e6:.2f} MB")
    print(f"{document.run.verdict}: {document.run.reasons}")
    print(f"memory: {memory}, peak {document.target.rss_peak_bytes or 0:,} bytes")


if __name__ == "__main__":
    main()
