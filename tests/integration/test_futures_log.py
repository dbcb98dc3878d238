"""The log of futures agrees with run.json, however a run ends and however many processes have written it."""

from __future__ import annotations

import csv
import json
import signal
from collections import Counter
from pathlib import Path

import psutil
import pytest

from tests.integration.test_faulty_targets import FUTURES, as_json, second_poll, target
from tests.integration.test_faulty_targets import soak as soak_at
from tests.integration.test_soak import Ports, command, small, soak, two_processes, under_way
from tests.integration.test_workers import ENDS, forks, started
from tests.locustfiles.test_futures_log import rows
from tests.waiting import wait_for


def check(run_dir: Path, files: list[str]) -> list[dict[str, str]]:
    """All rows, which reconcile with the totals of the run."""
    assert sorted(path.name for path in run_dir.glob("futures*")) == files
    run = json.loads((run_dir / "run.json").read_text())
    found = [row for name in files for row in rows(run_dir / name)]
    assert len(found) == run["futures"]["submitted"] > 0
    assert len({row["future"] for row in found}) == len(found)
    assert Counter(row["end"] for row in found) == Counter({end: run["futures"][end] for end in ENDS})
    assert sum(int(row["polls"]) for row in found) == run["polls"]["total"]
    with (run_dir / "timeline.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    assert sum(int(row["bytes"]) for row in found) == int(last["delivered_bytes"])
    assert sum(row["accepted_s"] != "" for row in found) >= run["futures"]["delivered"]
    return found


def test_a_run_that_is_done(tmp_path: Path, free_port: Ports) -> None:
    code, run, printed = soak(tmp_path / "run", *small(free_port), "--futures-log")
    assert code == 0, printed
    found = check(tmp_path / "run", ["futures.csv.zst"])
    slowest_s = max(float(row["end_s"]) - float(row["intended_start_s"]) for row in found)
    # The row is written after the result has been verified, and a histogram's values have three digits.
    assert 0.99 * run["latency_s"]["future"]["max"] < slowest_s < run["run"]["duration_s"]


def test_two_processes_write_a_part_each(tmp_path: Path, free_port: Ports) -> None:
    code, _, printed = soak(tmp_path / "run", *small(free_port, 301), *two_processes(free_port), "--futures-log")
    assert code == 0, printed
    found = check(tmp_path / "run", ["futures-0.csv.zst", "futures-1.csv.zst"])
    assert sorted(int(row["future"]) for row in found) == list(range(301))


@pytest.mark.parametrize("processes", [1, 2])
def test_a_run_that_is_stopped(tmp_path: Path, free_port: Ports, processes: int) -> None:
    run_dir = tmp_path / "run"
    args = [*small(free_port, 100_000), "--drain", "0s", "--service-time", "fixed:1s", "--futures-log"]
    files = ["futures.csv.zst"]
    if processes == 2:
        args += two_processes(free_port)
        files = ["futures-0.csv.zst", "futures-1.csv.zst"]
    with started(command(run_dir, *args), tmp_path / "log") as locust:
        wait_for(lambda: under_way(run_dir), within_s=60)
        locust.send_signal(signal.SIGTERM)
        assert locust.wait(60) == 3, (tmp_path / "log").read_text()
    found = check(run_dir, files)
    assert any(row["end"] == "abandoned" for row in found)


def test_a_worker_that_is_killed_leaves_what_it_had_written(tmp_path: Path, free_port: Ports) -> None:
    run_dir = tmp_path / "run"
    args = [*small(free_port, 100_000), *two_processes(free_port), "--drain", "1s", "--futures-log"]
    with started(command(run_dir, *args), tmp_path / "log") as locust:
        wait_for(lambda: under_way(run_dir) and all(rows(path) for path in run_dir.glob("futures*")), within_s=60)
        forks(psutil.Process(locust.pid))[0].kill()
        assert locust.wait(90) == 3, (tmp_path / "log").read_text()
    assert all(rows(path)[0]["end"] == "delivered" for path in run_dir.glob("futures*"))


def test_futures_that_fail_get_lost_and_are_polled_again(tmp_path: Path) -> None:
    refused, lost = as_json(422, detail="no"), as_json(404, detail="who?")

    def poll(future: int, iteration: int) -> tuple[int, str, bytes]:
        return lost if future == 3 else second_poll(as_json(408))(future, iteration)

    def submit(number: int) -> tuple[int, str, bytes]:
        return refused if number == 5 else as_json(200, request_id=str(number), sample_sequence_ids=["x"])

    with target(poll, submit) as server:
        code, _ = soak_at(tmp_path / "run", server, "--futures-log")
    assert code == 1
    found = check(tmp_path / "run", ["futures.csv.zst"])
    assert Counter((row["end"], row["polls"], row["accepted_s"] != "") for row in found) == {
        ("delivered", "2", True): FUTURES - 2,
        ("lost", "1", True): 1,
        ("failed", "0", False): 1,
    }
