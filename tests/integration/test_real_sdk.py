"""``--client sdk``: the real SDK follows some of a soak's futures, in the same ledger, verified in the same way."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.integration.stack import stack
from tests.integration.test_soak import Ports, command, small, soak, two_processes, under_way
from tests.integration.test_workers import check, started
from tests.waiting import wait_for


@pytest.mark.parametrize("processes", [1, 2])
def test_its_futures_are_counted_and_verified_with_the_others(tmp_path: Path, free_port: Ports, processes: int) -> None:
    args = [*small(free_port, requests=120), "--client", "sdk:25"]
    if processes > 1:
        args += two_processes(free_port)
    code, run, printed = soak(tmp_path / "run", *args)
    assert code == 0, printed
    assert run["futures"]["submitted"] == run["futures"]["delivered"] == run["futures"]["verified"] == 120
    assert run["engine"]["finished"] == 120
    assert (run["latency_s"]["future"]["count"], run["latency_s"]["future_sdk"]["count"]) == (90, 30)
    assert any("followed 30 of the futures, 25 percent: 30 delivered." in note for note in run["facts"]["notes"])
    assert run["facts"]["workload"]["real_sdk_percent"] == 25


def test_what_it_got_is_compared_with_what_was_asked_for(tmp_path: Path, free_port: Ports) -> None:
    """An engine whose answers are of another corpus: the SDK takes them, and they are wrong all the same."""
    with stack(free_port(), free_port(), "lean", "fixed:10ms") as url:
        args = ["--host", url, "--verify", "corpus", "--body-profile", "lean", "--corpus-seed", "5"]
        args += ["--client", "sdk:100", "--requests", "20", "--outstanding", "20", "--max-tokens", "32"]
        code, run, printed = soak(tmp_path / "run", *args)
    assert code == 1, printed
    assert run["futures"]["failed"] == 20
    assert run["futures"]["verified"] == 0
    assert {error["name"]: error["count"] for error in run["facts"]["errors"]} == {"result: corrupted": 20}


def test_when_its_process_dies_the_run_is_invalid(tmp_path: Path, free_port: Ports) -> None:
    run_dir = tmp_path / "run"
    args = [*small(free_port, requests=100_000), "--client", "sdk:50"]
    with started(command(run_dir, *args), tmp_path / "log") as locust:
        wait_for(lambda: under_way(run_dir), within_s=60)
        (sdk,) = [
            child
            for child in psutil.Process(locust.pid).children(recursive=True)
            if "locustfiles.real_sdk" in child.cmdline()
        ]
        sdk.kill()
        assert locust.wait(90) == 3, (tmp_path / "log").read_text()
    check(run_dir, "The real SDK's process ended")


def test_a_session_that_it_does_not_get_is_the_runs_end(tmp_path: Path, free_port: Ports) -> None:
    """The server wants a key that the load has and the SDK refuses to send, as it has not the form of one."""
    run_dir = tmp_path / "run"
    code, run, printed = soak(run_dir, *small(free_port, requests=20), "--client", "sdk", TINKER_API_KEY="no")
    assert code == 3, printed
    assert "The real SDK's process ended" in run["run"]["reasons"][0]
    assert (run_dir / "logs/real-sdk-0.log").stat().st_size > 0
