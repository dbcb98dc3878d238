"""Troubles that people had with servers of this kind, each named by the run that meets it; see docs/troubles.md."""

from __future__ import annotations

import errno
import json
import re
import resource
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from locustfiles.transport import ConnectionFailedError, Transport
from tests.integration.stack import stack
from tests.integration.test_faulty_targets import DONE, FUTURES, Reply, as_json, soak, target
from tests.integration.test_networks import allowed
from tests.integration.test_soak import Ports, command
from tests.integration.test_soak import soak as soak_with
from tests.waiting import wait_for

TROUBLED = "tests.integration.troubled_server"


def report(run_dir: Path) -> str:
    return (run_dir / "report.html").read_text()


def example(run: dict[str, Any], name: str) -> str:
    (text,) = [error["example"] for error in run["facts"]["errors"] if error["name"] == name]
    return str(text)


def test_a_result_that_was_swept_while_the_client_slept_is_lost_and_its_last_polls_are_told(tmp_path: Path) -> None:
    def poll(future: int, iteration: int) -> Reply:
        if future != 3:
            return DONE
        return (0, "", b"") if iteration == 0 else as_json(404, detail="no such future")

    with target(poll) as server:
        code, run = soak(tmp_path / "run", server)
    assert code == 1
    assert run["futures"]["lost"] == 1
    told = example(run, "poll 404")
    assert told.startswith("Future 3 was outstanding for 1.")  # the SDK's back-off after a broken connection
    assert "had 2 polls. The last was answered 404" in told
    assert " s after the one before." in told
    assert told[:20] in report(tmp_path / "run")


def test_a_future_that_never_completes_is_named_with_its_polls(tmp_path: Path) -> None:
    def poll(future: int, iteration: int) -> Reply:
        if future != 5:
            return DONE
        time.sleep(0.2)
        return as_json(408, queue_state="active")

    with target(poll) as server:
        code, run = soak(tmp_path / "run", server, "--run-time", "3s", "--drain", "1s")
    assert code == 1
    assert (run["futures"]["delivered"], run["futures"]["abandoned"]) == (FUTURES - 1, 1)
    named = example(run, "abandoned: outstanding when the run ended")
    assert named.startswith("Future 5 was outstanding for ")
    assert named.endswith(f"and had {run['polls']['total'] - (FUTURES - 1)} polls.")
    assert named in report(tmp_path / "run")


@pytest.mark.parametrize(
    "answer",
    [as_json(200, sequences=[{"tokens": [1], "logprobs": [0.0]}]), (200, "text/html", b"<html>please log in</html>")],
)
def test_a_contract_that_is_broken_from_the_first_future_stops_the_run(tmp_path: Path, answer: Reply) -> None:
    with target(lambda future, iteration: answer) as server:
        code, run = soak(tmp_path / "run", server, "--requests", "100000")
    assert code == 3
    (reason, *_) = run["run"]["reasons"]
    assert reason.startswith("The contract is broken: the first ")
    assert run["futures"]["submitted"] < 100_000
    assert "The contract is broken" in report(tmp_path / "run")


@pytest.mark.parametrize(
    ("number", "own_limit"),
    [
        (errno.EADDRNOTAVAIL, "client_ports"),
        (errno.EMFILE, "client_files"),
        (errno.ENFILE, "client_files"),
        (errno.ECONNREFUSED, None),
    ],
)
def test_what_the_client_runs_out_of_is_not_the_server_s_fault(
    monkeypatch: pytest.MonkeyPatch, number: int, own_limit: str | None
) -> None:
    transport = Transport("http://127.0.0.1:9", 1, {})

    def no_socket() -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(transport._pool, "get_socket", no_socket)
    with pytest.raises(ConnectionFailedError) as failed:
        transport.post("/", b"", {}, 5.0)
    assert failed.value.own_limit == own_limit


def leave_few_files(load: psutil.Process) -> None:
    """No more than it has open, and two."""
    _, hard = resource.prlimit(load.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(load.pid, resource.RLIMIT_NOFILE, (load.num_fds() + 2, hard))


def leave_few_ports(load: psutil.Process) -> None:
    """Enough for the server's connections to the engine, and not for those that the load will want."""
    few = "echo 20000 20019 > /proc/sys/net/ipv4/ip_local_port_range"
    subprocess.run(["nsenter", "--net", "--target", str(load.pid), "sh", "-c", few], check=True, timeout=30)


@pytest.mark.parametrize(
    ("take_away", "name", "reason"),
    [
        (leave_few_files, "client_files", "own open files: lower --outstanding"),
        (leave_few_ports, "client_ports", "own local ports: lower --outstanding"),
    ],
)
def test_a_run_in_which_the_client_runs_out_of_something_is_invalid_and_says_of_what(
    tmp_path: Path, free_port: Ports, take_away: Callable[[psutil.Process], None], name: str, reason: str
) -> None:
    """What the preflight has found enough is taken away when a few futures run; then many are wanted."""
    if why := allowed("unshare", "--net", "true"):
        pytest.skip(f"no network namespace can be made here: {why}")
    run_dir, stages = tmp_path / "run", tmp_path / "stages.toml"
    stages.write_text("".join(f'[[stages]]\nduration = "5s"\noutstanding = {number}\n' for number in (5, 150)))
    ports = ["--engine-port", str(free_port()), "--server-port", str(free_port())]
    args = [*ports, "--stages", str(stages), "--slots", "5", "--max-tokens", "64", "--service-time", "fixed:50ms"]
    args += ["--run-time", "12s", "--drain", "3s"]  # with no port left, the rest backs off for a minute
    network = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    with subprocess.Popen(
        [*network, *command(run_dir, *args)], stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as process:
        try:
            wait_for(lambda: (run_dir / "timeline.csv").exists() and len((run_dir / "timeline.csv").read_text()) > 500)
            take_away(psutil.Process(process.pid))
            _, printed = process.communicate(timeout=100)
        finally:
            process.kill()
    assert process.returncode == 3, printed
    assert "Traceback" not in printed, printed
    run = json.loads((run_dir / "run.json").read_text())
    assert run["run"]["verdict"] == "invalid"
    assert any(reason in one for one in run["run"]["reasons"]), run["run"]["reasons"]
    assert any(error["name"] == name and error["count"] > 0 for error in run["facts"]["errors"])
    assert reason in report(run_dir)


def test_a_server_that_looks_through_all_that_wait_shows_points_that_rise(
    tmp_path: Path, free_port: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCANNED_S", "150e-6")
    stages = tmp_path / "stages.toml"
    stages.write_text("".join(f'[[stages]]\nduration = "24s"\noutstanding = {number}\n' for number in (20, 200)))
    with stack(free_port(), free_port(), "lean", "fixed:4s", server=TROUBLED) as url:
        load = ["--host", url, "--stages", str(stages), "--max-tokens", "8"]
        code, _, printed = soak_with(tmp_path / "run", *load)
    assert code == 0, printed
    told = re.search(
        r"Typically ([\d.]+) ms with \d+ outstanding, and ([\d.]+) ms with \d+\.", report(tmp_path / "run")
    )
    assert told is not None
    few_ms, many_ms = map(float, told.groups())
    assert many_ms > few_ms + 5  # of CPU: 150 us for each of the 100 that wait beside a result, when 200 end together


@pytest.mark.parametrize("late_s", ["0", "3"])
def test_submits_that_run_twice_are_found_by_the_engine_s_count(
    tmp_path: Path, free_port: Ports, monkeypatch: pytest.MonkeyPatch, late_s: str
) -> None:
    monkeypatch.setenv("LATE_SUBMIT_S", late_s)
    engine_port, server_port = free_port(), free_port()
    with stack(engine_port, server_port, "lean", "fixed:50ms", server=TROUBLED) as url:
        engine = ["--engine-metrics", f"http://127.0.0.1:{engine_port}/metrics"]
        client = ["--poll-preset", "custom", "--client-submit-timeout", "1s"]
        load = ["--requests", "100", "--outstanding", "20", "--max-tokens", "8"]
        code, run, printed = soak_with(tmp_path / "run", "--host", url, *engine, *client, *load)
    assert run["futures"]["delivered"] == 100, printed
    if late_s == "0":
        assert code == 0, run["run"]
        assert run["engine"]["finished"] == 100
        return
    assert code == 3, run["run"]
    twice = run["engine"]["finished"] - 100
    assert twice >= 10
    assert run["run"]["reasons"] == [
        f"The engine finished {100 + twice} requests for 100 futures: submits ran twice, or something else used the "
        "engine."
    ]
    assert f"{twice} more: run twice, or asked for by somebody else" in report(tmp_path / "run")
