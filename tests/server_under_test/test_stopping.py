"""How a running server ends: nothing new, what is outstanding ends, and whoever waits is told."""

from __future__ import annotations

import http.client
import json
import signal
import threading
from typing import Any

import pytest

from tests.server_under_test.client import Client, sample_request, server
from tests.server_under_test.stub_engine import held_engine, stub_engine
from tests.waiting import wait_for


class Poll:
    """A poll in a thread of its own. answer: what came of it."""

    def __init__(self, client: Client, request_id: str) -> None:
        self.answer: Any = None
        self._thread = threading.Thread(target=self._run, args=(client, request_id))
        self._thread.start()
        wait_for(lambda: client.metrics()["server_waiting_polls"] >= 1)

    def _run(self, client: Client, request_id: str) -> None:
        try:
            self.answer = client.retrieve(request_id)
        except (OSError, http.client.HTTPException) as error:
            self.answer = error

    def join(self) -> Any:
        self._thread.join()
        return self.answer


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_what_is_outstanding_end_and_takes_nothing_new(signum: signal.Signals) -> None:
    with held_engine() as (engine, release), server(engine.url) as client:
        poll = Poll(client, client.submit())
        known = http.client.HTTPConnection("127.0.0.1", client.port, timeout=30)
        known.request("GET", "/api/v1/healthz")
        known.getresponse().read()
        client.process.send_signal(signum)
        wait_for(lambda: not can_connect(client))
        known.request("POST", "/api/v1/asample", json.dumps(sample_request()))
        answer = known.getresponse()
        assert (answer.status, json.load(answer)["detail"]) == (503, "The server is about to stop.")
        known.close()
        release.set()
        status, result = poll.join()
        assert status == 200
        assert result.sequences
        assert client.process.wait(20) == 0
        assert client.process.stdout is not None
        assert client.process.stdout.read() == "server_under_test: 1 futures got ready, 0 failed, 0 had not ended.\n"


def can_connect(client: Client) -> bool:
    try:
        client.call("/api/v1/healthz", method="GET")
    except (OSError, http.client.HTTPException):
        return False
    return True


def test_past_the_deadline_futures_fail_and_whoever_waits_is_told() -> None:
    with held_engine() as (engine, _), server(engine.url, "--shutdown-deadline", "100ms") as client:
        poll = Poll(client, client.submit())
        client.process.terminate()
        assert poll.join() == (
            200,
            {"error": "The server was stopped before there was a result.", "category": "server"},
        )
        assert client.process.wait(20) == 0
        assert client.process.stdout is not None
        assert client.process.stdout.read() == "server_under_test: 0 futures got ready, 1 failed, 0 had not ended.\n"


def test_a_second_signal_ends_it_at_once() -> None:
    with held_engine() as (engine, _), server(engine.url) as client:
        poll = Poll(client, client.submit())
        client.process.terminate()
        wait_for(lambda: not can_connect(client))
        client.process.terminate()
        assert client.process.wait(20) == 1
        assert isinstance(poll.join(), OSError | http.client.HTTPException)


def test_with_nothing_outstanding_it_ends_though_sessions_are_polled() -> None:
    with stub_engine() as engine, server(engine.url) as client:
        _, session = client.post("create_session", {})
        _, sampling = client.post("create_sampling_session", {"session_id": session["session_id"], "base_model": "m"})
        polling = threading.Thread(target=poll_session, args=(client, sampling["sampling_session_id"]))
        polling.start()
        wait_for(lambda: client.metrics()["server_waiting_polls"] == 1)
        client.process.terminate()
        assert client.process.wait(20) == 0
        polling.join()


def poll_session(client: Client, sampling_session_id: str) -> None:
    try:
        client.post("retrieve_futures", {"target": {"sampling_session_id": sampling_session_id}})
    except (OSError, http.client.HTTPException):
        return
