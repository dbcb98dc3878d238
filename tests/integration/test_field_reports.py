"""Troubles that people had with servers of this kind, each named by the run that meets it; see docs/troubles.md."""

from __future__ import annotations

import errno
import time
from pathlib import Path
from typing import Any

import pytest

from locustfiles.transport import ConnectionFailedError, Transport
from tests.integration.test_faulty_targets import DONE, FUTURES, Reply, as_json, soak, target


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
