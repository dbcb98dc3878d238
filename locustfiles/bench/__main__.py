"""``python -m locustfiles.bench``: CPU of a future and memory of an outstanding one, of the load and of a plain client.

In each round both run once for each number outstanding, one after the other in random order. A client is first left
waiting for its session; then all its futures are made outstanding, which gives the memory; and then the oldest polls
are answered as new ones come, so that as many stay outstanding, which gives the CPU.
"""

from __future__ import annotations

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import psutil

from locustfiles.bench import MAX_TOKENS, PROFILE, PROMPT_TOKENS
from locustfiles.bench.target import RunningTarget, running
from locustfiles.preflight import raise_open_files_limit
from locustfiles.processes import die_with_parent
from mockengine.corpus import Corpus
from reports.paired import compare

ROOT = Path(__file__).parents[2]
ENDLESS = 1_000_000  # futures, more than any measurement takes
UNDER_WAY = 64  # of the outstanding futures, those that are not held by the target
WARM_UP = 1_000  # futures, before CPU is counted
PATIENCE_S = 120.0
LOOK_EVERY_S = 0.005
GOAL_CPU_MS, GOAL_KB = 0.6, 30.0


class BenchError(Exception):
    """A measurement did not come about; the text is a sentence."""


class Trial(NamedTuple):
    cpu_ms: float
    outstanding_kb: float


def load_command(url: str, outstanding: int, folder: Path) -> list[str]:
    locust = Path(sys.executable).with_name("locust")
    return [
        *(str(locust), "-f", str(ROOT / "locustfiles/soak.py"), "--headless", "--run-dir", str(folder / "run")),
        *("--host", url, "--observe", "none", "--verify", "corpus", "--body-profile", PROFILE),
        *("--poll-preset", "sdk-pyqwest", "--requests", str(ENDLESS), "--outstanding", str(outstanding)),
        *("--max-tokens", str(MAX_TOKENS), "--prompt-tokens", str(PROMPT_TOKENS)),
    ]


def plain_command(url: str, outstanding: int, _: Path) -> list[str]:
    return [sys.executable, "-m", "locustfiles.bench.plain_client", url, str(outstanding)]


ARMS: dict[str, Callable[[str, int, Path], list[str]]] = {"plain": plain_command, "load": load_command}


@contextmanager
def _client(command: list[str], log: Path) -> Iterator[psutil.Process]:
    with log.open("wb") as output:
        popen = subprocess.Popen(command, stdout=output, stderr=output, cwd=ROOT, preexec_fn=die_with_parent)
    try:
        yield psutil.Process(popen.pid)
    finally:
        popen.kill()
        popen.wait()


def measure(arm: str, outstanding: int, futures: int, corpus: Corpus) -> Trial:
    """Raises BenchError."""
    with (
        tempfile.TemporaryDirectory() as folder,
        running(corpus, held_at_most=outstanding) as server,
        _client(ARMS[arm](server.url, outstanding, Path(folder)), log := Path(folder) / "log") as client,
    ):
        try:
            return _measure(server, client, outstanding, futures)
        except (BenchError, psutil.Error) as error:
            words = log.read_text("utf-8", "replace").strip().splitlines() or ["it printed nothing"]
            raise BenchError(f"{arm}, {outstanding} outstanding: {error}: {words[-1]}") from error


def _measure(server: RunningTarget, client: psutil.Process, outstanding: int, futures: int) -> Trial:
    target = server.target
    _wait(client, lambda: target.clients_waiting > 0)
    before_bytes = client.memory_info().rss
    server.let_in()
    _wait(client, lambda: target.held == outstanding)
    memory_bytes = client.memory_info().rss - before_bytes
    server.hold(max(0, outstanding - UNDER_WAY))
    _wait(client, lambda: target.submits >= outstanding + WARM_UP)
    began, began_s = target.submits, _cpu_s(client)
    _wait(client, lambda: target.submits >= began + futures)
    return Trial(
        cpu_ms=1e3 * (_cpu_s(client) - began_s) / (target.submits - began),
        outstanding_kb=memory_bytes / outstanding / 1e3,
    )


def _cpu_s(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def _wait(client: psutil.Process, condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        if client.status() == psutil.STATUS_ZOMBIE:
            raise BenchError("the client has ended")
        if time.monotonic() > deadline_s:
            raise BenchError(f"the client did not get there within {PATIENCE_S:.0f} s")
        time.sleep(LOOK_EVERY_S)


def table(trials: dict[tuple[int, str], list[Trial]]) -> str:
    """A row for each number outstanding and figure: medians, and from two rounds on the ratio with its interval."""
    lines = [f"{'outstanding':>11}  {'':30}{'plain':>9}{'load':>9}{'ratio':>8}{'95 % interval':>18}  goal of the load"]
    for outstanding in sorted({outstanding for outstanding, _ in trials}):
        for field, what, goal in (
            ("cpu_ms", "CPU of a future, ms", GOAL_CPU_MS),
            ("outstanding_kb", "memory of an outstanding, kB", GOAL_KB),
        ):
            plain, load = ([getattr(trial, field) for trial in trials[outstanding, arm]] for arm in ("plain", "load"))
            median = statistics.median(load)
            ratio, interval = f"{median / statistics.median(plain):.2f}", ""
            if len(load) > 1:
                paired = compare(plain, load, floor=None)
                ratio, interval = f"{paired.ratio:.2f}", f"{paired.interval.low:.2f} to {paired.interval.high:.2f}"
            reached = "reached" if median < goal else "missed"
            lines.append(
                f"{outstanding:>11,}  {what:30}{statistics.median(plain):>9.3g}{median:>9.3g}{ratio:>8}{interval:>18}"
                f"  < {goal:g}: {reached}"
            )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m locustfiles.bench", description="What the load itself costs.")
    parser.add_argument("--rounds", type=int, default=6, help="paired rounds (default 6)")
    parser.add_argument("--futures", type=int, default=4_000, help="futures over which CPU is counted (default 4000)")
    parser.add_argument(
        "--outstanding", type=int, nargs="+", default=[1_000, 4_000, 16_000], help="default 1000 4000 16000"
    )
    parser.add_argument("--raw", type=Path, help="a file for one trial a line")
    options = parser.parse_args(arguments)
    if min(options.rounds, options.futures, *options.outstanding) < 1:
        parser.error("--rounds, --futures and --outstanding should be at least 1.")
    raise_open_files_limit()
    corpus = Corpus(PROFILE)
    trials: dict[tuple[int, str], list[Trial]] = {}
    lines = []
    try:
        for number in range(options.rounds):
            for outstanding in options.outstanding:
                for arm in random.sample(sorted(ARMS), len(ARMS)):
                    trial = measure(arm, outstanding, options.futures, corpus)
                    trials.setdefault((outstanding, arm), []).append(trial)
                    lines.append({"cell": f"{outstanding} outstanding", "arm": arm, "round": number} | trial._asdict())
                    print(
                        f"round {number + 1}, {outstanding:,} outstanding, {arm}: {trial.cpu_ms:.3f} ms of CPU a "
                        f"future, {trial.outstanding_kb:.1f} kB an outstanding future",
                        file=sys.stderr,
                    )
        if options.raw:
            options.raw.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    except (BenchError, OSError) as error:
        print(f"python -m locustfiles.bench: {error}", file=sys.stderr)
        return 1
    print(table(trials))
    return 0


if __name__ == "__main__":
    sys.exit(main())
