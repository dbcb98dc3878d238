"""A load process that is lost in mid-run: the run ends, says so, and accounts for what is known of its futures."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.test_soak import Ports, command, running_children, small, two_processes, under_way
from tests.waiting import wait_for

REQUESTS = 100_000  # more than can be done before the worker is lost
SOON = ("--worker-timeout", "6s")
ENDS = ("delivered", "failed", "lost", "cancelled", "abandoned")


@contextlib.contextmanager
def started(args: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("w") as printed:
        process = subprocess.Popen(args, stdout=printed, stderr=printed, cwd=log.parent)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def forks(process: psutil.Process) -> list[psutil.Process]:
    return [child for child in process.children() if child.cmdline() == process.cmdline()]


def check(run_dir: Path, reason: str) -> dict[str, Any]:
    """A whole run folder, whose verdict is invalid for that reason, and every future that is known has ended."""
    run: dict[str, Any] = json.loads((run_dir / "run.json").read_text())
    assert run["run"]["verdict"] == "invalid"
    assert run["run"]["reasons"][0].startswith(reason)
    futures = run["futures"]
    assert futures["submitted"] == sum(futures[end] for end in ENDS)
    assert futures["delivered"] == futures["verified"] > 0
    assert futures["abandoned"] > 0
    assert futures["failed"] == futures["lost"] == futures["doubled"] == futures["foreign"] == 0
    assert not any("submits ran twice" in sentence for sentence in run["run"]["reasons"])
    for name in ("report.html", "junit.xml", "summary.md", "histograms.json", "timeline.csv", "resources.csv"):
        assert (run_dir / name).stat().st_size > 0, name
    return run


@pytest.mark.parametrize(
    ("signum", "reason"),
    [
        (signal.SIGKILL, "Load worker"),
        (signal.SIGSTOP, "Load worker"),
        (signal.SIGTERM, "Load worker"),
    ],
)
def test_a_forked_worker_that_is_lost_ends_the_run(
    tmp_path: Path, free_port: Ports, signum: signal.Signals, reason: str
) -> None:
    run_dir = tmp_path / "run"
    args = [*small(free_port, REQUESTS), *two_processes(free_port), *SOON, "--drain", "2s"]
    with started(command(run_dir, *args), tmp_path / "log") as locust:
        wait_for(lambda: under_way(run_dir), within_s=60)
        children = running_children(psutil.Process(locust.pid))
        first, _ = forks(psutil.Process(locust.pid))
        first.send_signal(signum)
        assert locust.wait(90) == 3, (tmp_path / "log").read_text()
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    run = check(run_dir, reason)
    assert len(run["facts"]["workers"]) == 2
    if signum != signal.SIGTERM:  # which lets it report
        assert any("count as abandoned" in note for note in run["facts"]["notes"])


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGSTOP])
def test_a_worker_of_its_own_that_is_lost_ends_the_run(
    tmp_path: Path, free_port: Ports, signum: signal.Signals
) -> None:
    run_dir = tmp_path / "run"
    port = str(free_port())
    joining = [*command(run_dir)[:3], "--worker", "--master-port", port]
    leading = [*small(free_port, REQUESTS), "--master", "--expect-workers", "2", "--master-bind-port", port]
    with contextlib.ExitStack() as processes:
        master = processes.enter_context(started(command(run_dir, *leading, *SOON, "--drain", "2s"), tmp_path / "log"))
        one, other = (processes.enter_context(started(joining, tmp_path / f"log-{n}")) for n in range(2))
        wait_for(lambda: under_way(run_dir), within_s=60)
        one.send_signal(signum)
        assert master.wait(90) == 3, (tmp_path / "log").read_text()
        assert other.wait(30) == 0
    check(run_dir, "Load worker")


def test_the_last_worker_that_is_lost_ends_the_run(tmp_path: Path, free_port: Ports) -> None:
    run_dir = tmp_path / "run"
    args = [*small(free_port, REQUESTS), *two_processes(free_port), *SOON]
    with started(command(run_dir, *args), tmp_path / "log") as locust:
        wait_for(lambda: under_way(run_dir), within_s=60)
        for worker in forks(psutil.Process(locust.pid)):
            worker.kill()
        assert locust.wait(90) == 3, (tmp_path / "log").read_text()
    run = check(run_dir, "Load worker 0 has said nothing")
    assert sum("count as abandoned" in note for note in run["facts"]["notes"]) == 2
