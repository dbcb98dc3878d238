"""Open arrivals as users start them, and what they are for: a server that stands still cannot hide it."""

from __future__ import annotations

import csv
import itertools
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from hdrh.histogram import HdrHistogram

from tests.integration.test_soak import command, running_children, small, soak, two_processes
from tests.waiting import wait_for

Ports = Callable[[], int]

RATE_PER_S = 40


def submitted(run_dir: Path) -> int:
    timeline = run_dir / "timeline.csv"
    if not timeline.exists():
        return 0
    with timeline.open() as file:
        return max((int(row["submitted"] or 0) for row in csv.DictReader(file)), default=0)


def freeze_server_once_there_is_load(locust: psutil.Process, run_dir: Path, freeze_s: float) -> float:
    """How long the server stood still, in seconds."""
    wait_for(lambda: submitted(run_dir) > 0, within_s=60)
    server = next(child for child in running_children(locust) if "server_under_test" in child.cmdline())
    server.suspend()
    stopped_s = time.monotonic()
    time.sleep(freeze_s)
    frozen_s = time.monotonic() - stopped_s
    server.resume()
    return frozen_s


def latency_of_a_freeze(frozen_s: float, run_s: float, quantile: float) -> float:
    """Of even arrivals, those within the freeze wait for its end, from all of it down to nothing; others not at all."""
    return max(0.0, frozen_s - (1 - quantile) * run_s)


@pytest.mark.timeout(180)
@pytest.mark.parametrize(
    ("freeze_s", "run_s"), [(3.0, 8.0), pytest.param(15.0, 30.0, marks=pytest.mark.soak)], ids=["short", "long"]
)
@pytest.mark.parametrize("outstanding", [1000, 20])
def test_a_frozen_server_has_the_latencies_that_arithmetic_gives(
    tmp_path: Path, free_port: Ports, freeze_s: float, run_s: float, outstanding: int
) -> None:
    """Whether futures start in time or have to wait for a place: latency counts from the intended start."""
    run_dir = tmp_path / "run"
    futures = round(RATE_PER_S * run_s)
    args = [
        *("--requests", str(futures), "--arrivals", f"constant:{RATE_PER_S}", "--outstanding", str(outstanding)),
        *("--max-tokens", "16", "--service-time", "fixed:0s"),
        *("--engine-port", str(free_port()), "--server-port", str(free_port())),
    ]
    with (tmp_path / "printed").open("w") as printed:
        locust = subprocess.Popen(command(run_dir, *args), stderr=printed, cwd=tmp_path)
    try:
        frozen_s = freeze_server_once_there_is_load(psutil.Process(locust.pid), run_dir, freeze_s)
        locust.wait(120)
    finally:
        locust.kill()
    run: dict[str, Any] = json.loads((run_dir / "run.json").read_text())
    assert run["futures"]["delivered"] == futures, (tmp_path / "printed").read_text()
    interval_s = 1 / RATE_PER_S
    expected = {name: latency_of_a_freeze(frozen_s, run_s, q) for name, q in {"p90": 0.9, "p99": 0.99}.items()}
    expected["max"] = frozen_s
    for phase, (name, latency_s) in itertools.product(("future", "submit"), expected.items()):
        found_s = run["latency_s"][phase][name]
        assert latency_s - 2 * interval_s <= found_s <= 1.3 * latency_s, (phase, name)
    recorded = json.loads((run_dir / "histograms.json").read_text())
    mean_s = HdrHistogram.decode(recorded["histograms"]["future"]).get_mean_value() / 1e6
    assert frozen_s**2 / (2 * run_s) - interval_s <= mean_s <= 1.5 * frozen_s**2 / (2 * run_s)
    # The load itself stood still for nothing but a place.
    late = run["latency_s"]["lateness"]
    assert late["count"] == futures
    waited_s = max(0.0, frozen_s - outstanding * interval_s)
    assert late["max"] == pytest.approx(waited_s, abs=0.3 * frozen_s)
    if waited_s:
        assert late["max"] > waited_s - 2 * interval_s


def test_workers_share_a_schedule_and_start_every_future_of_it(tmp_path: Path, free_port: Ports) -> None:
    args = [*small(free_port, requests=151), "--arrivals", "poisson:100", *two_processes(free_port)]
    code, run, printed = soak(tmp_path / "run", *args)
    assert code == 0, printed
    assert run["futures"]["verified"] == run["engine"]["finished"] == run["latency_s"]["lateness"]["count"] == 151
    assert run["workload"]["arrivals"] == "poisson:100"
    assert run["facts"]["duration_s"] > 0.5  # all at once it would be a tenth of that


def test_a_trace_is_replayed_with_its_lengths(tmp_path: Path, free_port: Ports) -> None:
    lengths = [1, 5, 40, 300]
    rows = [f"2023-11-16 18:15:4{number},7,{tokens}\n" for number, tokens in enumerate(lengths)]
    (tmp_path / "trace.csv").write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(rows))
    args = [*small(free_port, requests=4), "--arrivals", f"trace:{tmp_path}/trace.csv,speed=10"]
    code, run, printed = soak(tmp_path / "run", *args)
    assert code == 0, printed
    assert run["futures"]["verified"] == 4
    with (tmp_path / "run/timeline.csv").open() as file:
        delivered_bytes = [int(row["delivered_bytes"]) for row in csv.DictReader(file)][-1]
    # Eight bytes a token, and a frame.
    assert 0 <= delivered_bytes - 8 * sum(lengths) < 30 * len(lengths)


def test_stages_of_rates(tmp_path: Path, free_port: Ports) -> None:
    (tmp_path / "stages.toml").write_text(
        "[[stages]]\nduration = '1s'\nrate = 80\nramp = true\n[[stages]]\nduration = '500ms'\nrate = 60\n"
    )
    code, run, printed = soak(tmp_path / "run", *small(free_port), "--stages", str(tmp_path / "stages.toml"))
    assert code == 0, printed
    assert run["workload"]["requests"] == run["futures"]["verified"] == 40 + 30
    assert run["latency_s"]["lateness"]["count"] == 70
    assert [stage["duration_s"] for stage in run["workload"]["stages"]] == [1.0, 0.5]
    assert "1 s to 80/s, 0.5 s at 60/s" in (tmp_path / "run/report.html").read_text()


def test_stages_of_numbers_outstanding_end_the_run(tmp_path: Path, free_port: Ports) -> None:
    (tmp_path / "stages.toml").write_text(
        "stages = [{duration = '2s', outstanding = 3}, {duration = '2s', outstanding = 9, ramp = true}, "
        "{duration = '500ms', outstanding = 0}]"
    )
    code, run, printed = soak(
        tmp_path / "run",
        *("--stages", str(tmp_path / "stages.toml"), "--max-tokens", "16", "--service-time", "fixed:50ms"),
        *("--engine-port", str(free_port()), "--server-port", str(free_port())),
    )
    assert code == 0, printed
    assert 0 < run["futures"]["submitted"] == run["futures"]["verified"] < run["workload"]["requests"]
    assert 3 < run["engine"]["peak_in_flight"] <= 9
    assert run["workload"]["outstanding"] == 9
    assert "lateness" not in run["latency_s"]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--arrivals", "poisson:many"], "--arrivals poisson:RATE should have a number above 0, found 'many'."),
        (["--arrivals", "trace:{tmp}/none.csv"], "The trace {tmp}/none.csv cannot be read"),
        (
            ["--arrivals", "trace:{tmp}/trace.csv", "--lengths", "trace:{tmp}/trace.csv"],
            "has lengths of its own, and so has --lengths",
        ),
        (["--stages", "{tmp}/trace.csv"], "The file of stages {tmp}/trace.csv is no TOML"),
    ],
)
def test_mistakes_are_one_sentence_and_nothing_starts(
    tmp_path: Path, free_port: Ports, args: list[str], sentence: str
) -> None:
    (tmp_path / "trace.csv").write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46,1,2\n2023-11-16 18:15:47,1,2\n"
    )
    code, _, printed = soak(tmp_path / "run", *small(free_port), *[arg.format(tmp=tmp_path) for arg in args])
    assert code == 2
    assert sentence.format(tmp=tmp_path) in printed
    assert "Traceback" not in printed
