"""retrieve_futures against a running server: cursors, holding, acknowledgement, clones."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server_under_test.client import Client, server
from tests.server_under_test.stub_engine import StubEngine, held_engine, stub_engine
from tests.waiting import wait_for

CLONE = 1_000_000_000


@pytest.fixture(scope="module")
def engine() -> Iterator[StubEngine]:
    with stub_engine() as engine:
        yield engine


@pytest.fixture(scope="module")
def client(engine: StubEngine) -> Iterator[Client]:
    with server(engine.url) as client:
        yield client


def sampling_session(client: Client) -> str:
    _, session = client.post("create_session", {})
    _, sampling = client.post("create_sampling_session", {"session_id": session["session_id"], "base_model": "m"})
    session_id: str = sampling["sampling_session_id"]
    return session_id


def poll(client: Client, session: str, cursor: int = 0, clone: int = 0, **fields: Any) -> tuple[list[Any], int]:
    target = {"type": "sampling_session", "sampling_session_id": session, "cloned_sampler_id": clone}
    status, answer = client.post("retrieve_futures", {"target": target, "prev_cursor": cursor, **fields})
    assert status == 200, answer
    return answer["completions"], answer["cursor"]


def ids(completions: list[Any]) -> list[str]:
    return [completion["request_id"] for completion in completions]


def test_ends_are_told_in_order_until_they_are_seen(client: Client) -> None:
    session = sampling_session(client)
    submitted = [client.submit(sampling_session_id=session, seq_id=number) for number in range(3)]
    for request_id in submitted:
        client.retrieve(request_id)
    completions, cursor = poll(client, session)
    assert sorted(ids(completions)) == sorted(submitted)
    result = client.call("/api/v1/retrieve_future", {"request_id": submitted[0]}, Accept="application/x-protobuf")[2]
    assert completions[0] == {
        "state": "finished",
        "request_id": ids(completions)[0],
        "response_payload_uncompressed_size": len(result),
    }
    assert poll(client, session) == (completions, cursor)  # as if the first answer had been lost
    assert poll(client, session, cursor, timeout=0) == ([], cursor)
    assert poll(client, session, timeout=0) == ([], 0)  # what was seen is forgotten
    late = client.submit(sampling_session_id=session, seq_id=3)
    completions, later = poll(client, session, cursor)
    assert ids(completions) == [late]
    assert later > cursor


def test_a_poll_is_held_until_something_ends(client: Client) -> None:
    with held_engine() as (engine, release), server(engine.url, "--session-poll-hold", "10s") as client:
        session = sampling_session(client)
        assert poll(client, session, timeout=0) == ([], 0)
        assert poll(client, session, timeout=0.01) == ([], 0)
        request_id = client.submit(sampling_session_id=session, seq_id=1)
        answers: list[Any] = []
        waiting = threading.Thread(target=lambda: answers.append(poll(client, session)))
        waiting.start()
        wait_for(lambda: client.metrics()["server_waiting_polls"] == 1)
        release.set()
        waiting.join()
        assert ids(answers[0][0]) == [request_id]


def test_failures_are_told_too(client: Client) -> None:
    with held_engine() as (engine, _), server(engine.url) as client:
        session = sampling_session(client)
        request_id = client.submit(sampling_session_id=session, seq_id=1)
        client.call("/api/v1/cancel_future", {"request_id": request_id})
        assert poll(client, session)[0] == [{"state": "failed", "request_id": request_id}]


def test_an_acknowledged_result_is_freed_at_once_by_its_own_sampler_alone(client: Client) -> None:
    session, other = sampling_session(client), sampling_session(client)
    before = client.metrics()
    mine, clones = (client.submit(sampling_session_id=session, seq_id=number) for number in (1, CLONE + 1))
    for request_id in (mine, clones):
        client.retrieve(request_id)
    for strangers in ((other, 0), (session, 1)):
        poll(client, strangers[0], clone=strangers[1], timeout=0, retrieved_request_ids=[mine, "nonsense", ""])
    assert client.retrieve(mine)[0] == 200
    for _ in range(2):  # ids are repeated until a poll that carried them succeeds
        assert ids(poll(client, session, timeout=0, retrieved_request_ids=[mine])[0]) == []
    assert client.retrieve(mine)[0] == 410
    after = client.metrics()
    assert after["server_results_acknowledged_total"] == before["server_results_acknowledged_total"] + 1
    assert client.retrieve(clones)[0] == 200
    assert ids(poll(client, session, clone=1, timeout=0)[0]) == [clones]


def test_nobody_acknowledges_what_has_not_ended(client: Client) -> None:
    with held_engine() as (engine, release), server(engine.url) as client:
        session = sampling_session(client)
        request_id = client.submit(sampling_session_id=session, seq_id=1)
        poll(client, session, timeout=0, retrieved_request_ids=[request_id])
        release.set()
        assert client.retrieve(request_id)[1].sequences


def test_a_session_of_an_earlier_boot_is_gone_so_that_its_clients_do_not_wait_for_ever(engine: StubEngine) -> None:
    with server(engine.url) as earlier:
        session = sampling_session(earlier)
    with server(engine.url) as client:
        status, answer = client.post("retrieve_futures", {"target": {"sampling_session_id": session}})
        assert (status, answer["detail"]) == (
            410,
            f"The server was started again, and what it had of '{session}' is gone.",
        )


def test_unknown_sessions_get_404(client: Client) -> None:
    for nonsense in ("", "x", "sampling-00-0-%", "sampling-00-0-"):
        target = {"sampling_session_id": nonsense}
        status, answer = client.post("retrieve_futures", {"target": target})
        assert (status, answer["detail"]) == (404, f"There is no sampling session '{nonsense}'.")
