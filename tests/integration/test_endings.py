"""The ends of a run that come from outside: each is given its drain, and leaves a whole run folder."""

from __future__ import annotations

import contextlib
import json
import signal
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.stack import stack
from tests.integration.test_soak import Ports, command, small, soak, two_processes, under_way
from tests.integration.test_workers import ENDS, started
from tests.waiting import wait_for

MANY = 100_000  # more than can be done before the end


def whole(run_dir: Path) -> dict[str, Any]:
    """The totals of futures, after a look at the folder."""
    names = ("report.html", "junit.xml", "summary.md", "histograms.json", "timeline.csv", "run.json")
    assert all((run_dir / name).stat().st_size > 0 for name in names)
    run: dict[str, Any] = json.loads((run_dir / "run.json").read_text())
    futures = run["futures"]
    assert futures["submitted"] == sum(futures[end] for end in ENDS) > 0
    return run


@pytest.mark.parametrize("processes", [1, 2])
def test_when_the_time_is_over_what_is_outstanding_still_ends(tmp_path: Path, free_port: Ports, processes: int) -> None:
    args = [*small(free_port, MANY), "--run-time", "3s"] + (two_processes(free_port) if processes == 2 else [])
    code, _, printed = soak(tmp_path / "run", *args)
    assert code == 0, printed
    run = whole(tmp_path / "run")
    assert run["run"]["verdict"] == "pass"
    assert run["facts"]["ended"] == "complete"
    assert run["futures"]["delivered"] == run["futures"]["verified"] == run["futures"]["submitted"] < MANY


def test_what_has_not_ended_when_the_drain_is_over_is_abandoned(tmp_path: Path, free_port: Ports) -> None:
    args = [*small(free_port, MANY), "--service-time", "fixed:3600s", "--run-time", "2s", "--drain", "0s"]
    code, _, printed = soak(tmp_path / "run", *args)
    assert code == 3, printed
    futures = whole(tmp_path / "run")["futures"]
    assert futures["abandoned"] == futures["submitted"] == 100


@pytest.mark.parametrize("processes", [1, 2])
def test_a_run_that_is_stopped_waits_for_what_is_outstanding(tmp_path: Path, free_port: Ports, processes: int) -> None:
    run_dir = tmp_path / "run"
    args = [*small(free_port, MANY), "--service-time", "fixed:1s"]
    args += two_processes(free_port) if processes == 2 else []
    with started(command(run_dir, *args), tmp_path / "log") as locust:
        wait_for(lambda: under_way(run_dir), within_s=60)
        locust.send_signal(signal.SIGTERM)
        assert locust.wait(60) == 3, (tmp_path / "log").read_text()
    run = whole(run_dir)
    assert "was stopped" in run["run"]["reasons"][0]
    assert run["futures"]["delivered"] == run["futures"]["submitted"]


@pytest.mark.parametrize("signal_number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_stopped_before_it_has_begun_is_invalid(
    tmp_path: Path, free_port: Ports, signal_number: int
) -> None:
    run_dir = tmp_path / "run"
    with started(command(run_dir, *small(free_port)), tmp_path / "log") as locust:
        wait_for((run_dir / "run.json").exists, within_s=60)  # the engine is being started
        locust.send_signal(signal_number)
        assert locust.wait(60) == 3, (tmp_path / "log").read_text()
    assert "invalid: " in (tmp_path / "log").read_text()


def test_a_run_whose_server_is_gone_can_be_stopped(tmp_path: Path, free_port: Ports) -> None:
    run_dir, port = tmp_path / "run", free_port()
    with contextlib.ExitStack() as processes:
        url = processes.enter_context(stack(free_port(), port, "lean", "fixed:50ms"))
        args = ["--host", url, "--requests", str(MANY), "--outstanding", "50", "--max-tokens", "32", "--drain", "1s"]
        locust = processes.enter_context(started(command(run_dir, *args), tmp_path / "log"))
        wait_for(lambda: under_way(run_dir), within_s=60)
        server = next(child for child in psutil.Process().children() if "server_under_test" in child.cmdline())
        server.kill()
        locust.send_signal(signal.SIGTERM)
        assert locust.wait(60) == 3, (tmp_path / "log").read_text()
    run = whole(run_dir)
    assert run["futures"]["abandoned"] > 0
