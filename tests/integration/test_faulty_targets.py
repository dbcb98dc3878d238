"""What the load makes of servers that misbehave: each future still ends once, and its end is the right one."""

from __future__ import annotations

import itertools
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from server_under_test.proto import SampledSequence, SampleResponse
from tests.integration.test_soak import command

FUTURES = 8
RESULT = SampleResponse(sequences=[SampledSequence(tokens=bytes(8), logprobs=bytes(8))]).SerializeToString()

Reply = tuple[int, str, bytes]
DONE: Reply = (200, "application/x-protobuf", RESULT)


def as_json(code: int, **document: Any) -> Reply:
    return code, "application/json", json.dumps(document).encode()


class Target(ThreadingHTTPServer):
    """A target whose answers to polls are decided by ``poll(future, iteration)`` and to submits by ``submit(number)``.

    future numbers the accepted submits, iteration the polls of one of them, both from 0. session_poll(iteration), of
    the polls for all futures together, whose requests are kept in session_polls.
    """

    request_queue_size = 128

    def __init__(
        self,
        poll: Callable[[int, int], Reply],
        submit: Callable[[int], Reply],
        session_poll: Callable[[int], Reply],
    ) -> None:
        self.poll = poll
        self.submit = submit
        self.session_poll = session_poll
        self.session_polls: list[dict[str, Any]] = []
        self.submits = itertools.count()
        self.polls: dict[str, int] = {}
        self.lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)

    def reply(self, name: str, document: dict[str, Any]) -> Reply:
        with self.lock:
            match name:
                case "create_session":
                    return as_json(200, session_id="s")
                case "create_sampling_session":
                    return as_json(200, sampling_session_id="t")
                case "asample":
                    return self.submit(next(self.submits))
                case "retrieve_future":
                    request_id = document["request_id"]
                    iteration = self.polls.get(request_id, 0)
                    self.polls[request_id] = iteration + 1
                    return self.poll(int(request_id), iteration)
                case "retrieve_futures":
                    self.session_polls.append(document)
                    return self.session_poll(len(self.session_polls) - 1)
                case _:
                    return as_json(200)

    def handle_error(self, *_: Any) -> None:
        """A client that goes away is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Target

    def do_POST(self) -> None:
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status, content_type, body = self.server.reply(self.path.rpartition("/")[2], document)
        if status == 0:
            self.close_connection = True
            return
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


def accept(number: int) -> Reply:
    return as_json(200, request_id=str(number), sample_sequence_ids=["x"])


def done(future: int, iteration: int) -> Reply:
    return DONE


def nothing_ended(iteration: int) -> Reply:
    return as_json(200, completions=[], cursor=0)


@contextmanager
def target(
    poll: Callable[[int, int], Reply] = done,
    submit: Callable[[int], Reply] = accept,
    session_poll: Callable[[int], Reply] = nothing_ended,
) -> Iterator[Target]:
    server = Target(poll, submit, session_poll)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def soak(run_dir: Path, server: Target, *more: str) -> tuple[int, dict[str, Any]]:
    args = ["--host", f"http://127.0.0.1:{server.server_port}", "--observe", "none", "--requests", str(FUTURES)]
    result = subprocess.run(
        command(run_dir, *args, "--outstanding", "4", "--max-tokens", "2", *more),
        capture_output=True,
        text=True,
        timeout=100,
    )
    document: dict[str, Any] = json.loads((run_dir / "run.json").read_text())
    assert "Traceback" not in result.stderr, result.stderr
    return result.returncode, document


def second_poll(first: Reply) -> Callable[[int, int], Reply]:
    return lambda future, iteration: first if iteration == 0 else DONE


@pytest.mark.parametrize(
    ("first", "re_polls"),
    [
        (as_json(408, queue_state="active"), {"try_again": FUTURES, "timeouts": 0}),
        (as_json(200, type="try_again", queue_state="paused_capacity"), {"try_again": FUTURES, "timeouts": 0}),
        (as_json(200, status="complete_metadata", response_payload_size=5), {"try_again": FUTURES, "timeouts": 0}),
        ((503, "text/html", b"<b>busy</b>"), {"try_again": 0, "errors_by_class": {"poll 503": FUTURES}}),
        ((400, "text/plain", b""), {"try_again": 0, "errors_by_class": {"poll 400": FUTURES}}),
        ((0, "", b""), {"errors_by_class": {"poll: closed without an answer": FUTURES}}),
    ],
    ids=["408", "try_again", "metadata", "503", "400", "closed"],
)
def test_polls_that_are_not_final_are_followed_by_another(
    tmp_path: Path, first: Reply, re_polls: dict[str, Any]
) -> None:
    with target(second_poll(first)) as server:
        code, run = soak(tmp_path / "run", server)
    assert code == 0, run["run"]
    assert run["futures"]["delivered"] == FUTURES
    assert run["polls"]["total"] == 2 * FUTURES
    assert {key: run["polls"][key] for key in re_polls} == re_polls


@pytest.mark.parametrize(
    ("reply", "end", "error"),
    [
        (as_json(404, detail="who?"), "lost", "poll 404"),
        (as_json(401, detail="no"), "failed", "poll 401"),
        (as_json(200, error="the engine broke", category="server"), "failed", "future failed: the engine broke"),
        (as_json(200, sequences=[]), "failed", "poll: not a result"),
        ((200, "text/html", b"<html>"), "failed", "poll: not a result"),
        ((200, "application/x-protobuf", b"\xff"), "failed", "result: corrupted"),
        ((200, "application/x-protobuf", b""), "failed", "result: corrupted"),
    ],
    ids=["404", "401", "failure", "JSON result", "HTML", "garbage", "empty"],
)
def test_polls_that_are_final_end_the_future(tmp_path: Path, reply: Reply, end: str, error: str) -> None:
    with target(lambda future, iteration: reply if future == 3 else DONE) as server:
        code, run = soak(tmp_path / "run", server)
    assert code == 1
    assert run["run"]["verdict"] == "fail"
    assert (run["futures"]["delivered"], run["futures"][end]) == (FUTURES - 1, 1)
    assert run["polls"]["errors_by_class"] == {error: 1}


def test_a_future_that_is_gone_is_submitted_again_and_counts_once(tmp_path: Path) -> None:
    with target(lambda future, iteration: as_json(410, detail="gone") if future == 0 else DONE) as server:
        code, run = soak(tmp_path / "run", server)
        assert next(server.submits) == FUTURES + 1
    assert code == 0, run["run"]
    assert run["futures"]["submitted"] == run["futures"]["delivered"] == FUTURES
    assert run["polls"]["errors_by_class"] == {"poll 410": 1}


def test_an_id_that_stands_for_two_futures_is_found(tmp_path: Path) -> None:
    with target(submit=lambda number: accept(0 if number == 5 else number)) as server:
        code, run = soak(tmp_path / "run", server)
    assert code == 1
    assert run["futures"]["doubled"] == 1


@pytest.mark.parametrize(
    ("first", "error"),
    [
        ((503, "text/plain", b"busy"), "submit 503"),
        ((429, "text/plain", b"slow down"), "submit 429"),
        ((0, "", b""), "submit: no answer"),
    ],
)
def test_submits_that_can_be_repeated_are(tmp_path: Path, first: Reply, error: str) -> None:
    with target(submit=lambda number: first if number == 2 else accept(number)) as server:
        code, run = soak(tmp_path / "run", server)
    assert code == 0, run["run"]
    assert run["futures"]["delivered"] == FUTURES
    assert {one["name"]: one["count"] for one in run["facts"]["errors"]} == {error: 1}


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (as_json(422, detail="max_tokens"), "submit 422"),
        (as_json(200, promise="x"), "submit: not a promise"),
        ((200, "text/html", b"<html>"), "submit: not a promise"),
    ],
)
def test_submits_that_can_not_be_repeated_fail_their_future(tmp_path: Path, reply: Reply, error: str) -> None:
    with target(submit=lambda number: reply if number == 2 else accept(number)) as server:
        code, run = soak(tmp_path / "run", server)
    assert code == 1
    assert (run["futures"]["delivered"], run["futures"]["failed"]) == (FUTURES - 1, 1)
    assert {one["name"]: one["count"] for one in run["facts"]["errors"]} == {error: 1}


class Session:
    """The part of session polling in a target: what was accepted has ended; ``troubles`` are answers instead."""

    def __init__(self, troubles: dict[int, Reply]) -> None:
        self._troubles = troubles
        self._accepted = 0

    def submit(self, number: int) -> Reply:
        self._accepted += 1
        return accept(number)

    def poll(self, iteration: int) -> Reply:
        if iteration in self._troubles:
            return self._troubles[iteration]
        ended = [
            {"state": "finished", "request_id": str(number), "response_payload_uncompressed_size": len(RESULT)}
            for number in range(self._accepted)
        ]
        return as_json(200, completions=ended, cursor=len(ended))


SESSIONS = ("--protocol", "tinker-sessions")


def test_a_session_is_polled_for_all_its_futures_and_told_what_was_retrieved(tmp_path: Path) -> None:
    session = Session({0: (503, "text/plain", b"busy"), 1: (0, "", b"")})
    with target(submit=session.submit, session_poll=session.poll) as server:
        code, run = soak(tmp_path / "run", server, *SESSIONS)
    assert code == 0, run["run"]
    assert run["futures"]["delivered"] == FUTURES
    assert run["workload"]["protocol"] == "tinker-sessions"
    assert {one["name"]: one["count"] for one in run["facts"]["errors"]} == {
        "session poll 503": 1,
        "session poll: closed without an answer": 1,
    }
    # Each result is fetched by one poll, as the session has told that it is there; never announced once more.
    assert server.polls == {str(number): 1 for number in range(FUTURES)}
    cursors = [poll["prev_cursor"] for poll in server.session_polls]
    assert cursors == sorted(cursors)
    acknowledged = {request_id for poll in server.session_polls for request_id in poll["retrieved_request_ids"]}
    assert acknowledged >= {str(number) for number in range(FUTURES - 4)}  # the last may go with the run's end


def test_a_session_that_is_lost_fails_all_its_futures(tmp_path: Path) -> None:
    session = Session({0: as_json(404, detail="no such session")})
    with target(submit=session.submit, session_poll=session.poll) as server:
        code, run = soak(tmp_path / "run", server, *SESSIONS)
    assert code == 1
    assert run["futures"]["failed"] == FUTURES
    assert {one["name"]: one["count"] for one in run["facts"]["errors"]} == {
        "session poll 404": 1,
        "future failed: its session can't be polled": FUTURES,
    }
    assert len(server.session_polls) == 1
    assert not server.polls


def test_a_result_that_is_announced_to_one_who_was_told_its_size_is_not_fetched_again(tmp_path: Path) -> None:
    session = Session({})
    metadata = as_json(200, status="complete_metadata", response_payload_size=5)
    with target(second_poll(metadata), submit=session.submit, session_poll=session.poll) as server:
        code, run = soak(tmp_path / "run", server, *SESSIONS)
    assert code == 1
    assert run["polls"]["errors_by_class"] == {"poll: metadata twice": FUTURES}
