"""The server as a process of its own, between a stub engine and clients of the standard library."""

from __future__ import annotations

import http.client
import json
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from typing import Any

import pytest

from server_under_test.proto import SampleResponse
from tests.server_under_test.client import JSON, Client, sample_request, server
from tests.server_under_test.stub_engine import StubEngine, drop_connection, held_engine, right, send, stub_engine
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def engine() -> Iterator[StubEngine]:
    with stub_engine() as engine:
        yield engine


@pytest.fixture(scope="module")
def client(engine: StubEngine) -> Iterator[Client]:
    with server(engine.url) as client:
        yield client


def float32s(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)


def test_a_sample_from_submit_to_result(client: Client) -> None:
    status, promise = client.post("asample", sample_request(num_samples=2, prompt_logprobs=True))
    assert status == 200
    assert len(promise["sample_sequence_ids"]) == len(set(promise["sample_sequence_ids"])) == 2
    status, result = client.retrieve(promise["request_id"])
    assert status == 200
    assert [sequence.tokens for sequence in result.sequences] == [struct.pack("<3i", *[9 + i] * 3) for i in range(2)]
    assert result.sequences[1].logprobs == float32s(-0.5, -0.5, -0.5)
    assert result.prompt_logprobs[4:] == float32s(-6)
    assert struct.unpack("<f", result.prompt_logprobs[:4])[0] != struct.unpack("<f", result.prompt_logprobs[:4])[0]


def test_a_result_can_be_fetched_again_and_as_json(client: Client) -> None:
    request_id = client.submit()
    first = client.retrieve(request_id)
    assert client.retrieve(request_id) == first
    for _ in range(2):
        status, document = client.retrieve(request_id, accept=JSON)
        assert status == 200
        assert document["sequences"] == [{"stop_reason": "length", "tokens": [9, 9, 9], "logprobs": [-0.25] * 3}]


def test_a_submit_sent_again_is_the_same_future_and_one_request_to_the_engine(
    client: Client, engine: StubEngine
) -> None:
    _, session = client.post("create_session", {"tags": [], "sdk_version": "0.38.0", "type": "create_session"})
    _, sampling = client.post(
        "create_sampling_session",
        {"session_id": session["session_id"], "sampling_session_seq_id": 0, "base_model": "m"},
    )
    before = len(engine.requests)
    request = {"sampling_session_id": sampling["sampling_session_id"], "seq_id": 4, "base_model": None}
    first, again = client.submit(**request), client.submit(**request)
    client.retrieve(first)
    assert client.submit(**request) == first == again
    assert client.submit(**{**request, "seq_id": 5}) != first
    assert [sent["model"] for sent in engine.requests[before : before + 1]] == ["m"]
    client.retrieve(client.submit(**{**request, "seq_id": 5}))
    assert len(engine.requests) - before == 2


@pytest.mark.parametrize(
    ("path", "document", "field"),
    [
        ("asample", sample_request(num_samples="two"), "$.num_samples"),
        ("asample", sample_request(prompt={"chunks": [{"tokens": ["a"]}]}), "prompt.chunks[0].tokens"),
        ("asample", sample_request(base_model=None), "base_model"),
        ("asample", b"{", "not JSON"),
        ("retrieve_future", {"id": "x"}, "request_id"),
        ("cancel_future", {}, "request_id"),
        ("session_heartbeat", {}, "session_id"),
        ("create_sampling_session", {"base_model": "m"}, "session_id"),
    ],
)
def test_malformed_requests_get_422_with_the_fields_name(
    client: Client, path: str, document: object, field: str
) -> None:
    status, answer = client.post(path, document)
    assert status == 422
    assert field in answer["detail"]


@pytest.mark.parametrize("request_id", ["", "nonsense", "0123456789abcdef-x"])
def test_an_unknown_id_gets_404(client: Client, request_id: str) -> None:
    status, answer = client.retrieve(request_id)
    assert (status, answer["detail"]) == (404, f"There is no future '{request_id}'.")


def test_an_id_of_an_earlier_boot_gets_410_so_that_clients_submit_again(client: Client) -> None:
    assert client.retrieve("0123456789abcdef-0")[0] == 410


def test_unknown_sessions(client: Client) -> None:
    assert client.post("session_heartbeat", {"session_id": "x"})[0] == 410
    assert client.post("create_sampling_session", {"session_id": "x", "base_model": "m"})[0] == 404
    assert client.post("asample", sample_request(sampling_session_id="x", seq_id=0))[0] == 404


def broken_body(handler: BaseHTTPRequestHandler, document: dict[str, Any]) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", JSON)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices":[')
    drop_connection(handler)


def head_only(handler: BaseHTTPRequestHandler, status: int) -> None:
    handler.send_response(status)
    if status == 101:
        handler.send_header("Connection", "Upgrade")
        handler.send_header("Upgrade", "websocket")
    handler.end_headers()


def continue_first(handler: BaseHTTPRequestHandler, document: dict[str, Any]) -> None:
    handler.send_response_only(100)
    handler.end_headers()
    right(handler, document)


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (lambda h, d: send(h, 500, b"restarting"), "The engine answered 500: restarting"),
        (lambda h, d: send(h, 408, b""), "The engine answered 408: an empty body."),
        (lambda h, d: send(h, 200, b"<html>hi</html>", "text/html"), "answered 200 with text/html: <html>hi</html>"),
        (lambda h, d: send(h, 200, b""), "not JSON"),
        (lambda h, d: send(h, 200, b'{"choices": []}'), "found: none"),
        (broken_body, "broke off in the middle"),
        (lambda h, d: drop_connection(h), "closed the connection without an answer"),
        (lambda h, d: head_only(h, 204), "The engine answered 204: an empty body."),
        (lambda h, d: head_only(h, 304), "The engine answered 304: an empty body."),
        (lambda h, d: head_only(h, 101), "switches to another protocol"),
    ],
    ids=["500", "408", "HTML", "empty", "no choices", "cut off", "closed", "204", "304", "101"],
)
def test_an_engine_that_fails_makes_a_failed_future_with_a_sentence(answer: Any, sentence: str) -> None:
    with stub_engine(answer) as engine, server(engine.url) as client:
        for _ in range(2):
            status, failure = client.retrieve(client.submit())
            assert status == 200
            assert failure["category"] == "server"
            assert sentence in failure["error"]
        engine.answer = right
        assert client.retrieve(client.submit())[1].sequences
        assert client.metrics()["server_futures_totalfailed"] == 2


def test_an_answer_before_the_answer_is_skipped() -> None:
    with stub_engine(continue_first) as engine, server(engine.url) as client:
        assert all(client.retrieve(client.submit())[1].sequences for _ in range(2))


def test_an_engine_that_is_not_there_makes_a_failed_future() -> None:
    with server("http://127.0.0.1:9", "--engine-connect-deadline", "1s") as client:
        assert "can't be reached" in client.retrieve(client.submit())[1]["error"]


def test_a_poll_is_held_for_as_long_as_was_said_and_then_told_to_try_again() -> None:
    with held_engine() as (engine, release), server(engine.url, "--poll-hold", "50ms") as client:
        request_id = client.submit()
        status, answer = client.retrieve(request_id)
        assert (status, answer["type"], answer["queue_state"]) == (408, "try_again", "active")
        release.set()
        wait_for(lambda: client.retrieve(request_id)[0] == 200)


def test_all_waiters_get_the_result_and_one_that_has_gone_counts_as_no_delivery() -> None:
    with held_engine() as (engine, release), server(engine.url) as client:
        request_id = client.submit()
        body = json.dumps({"request_id": request_id}).encode()
        head = b"POST /api/v1/retrieve_future HTTP/1.1\r\nHost: x\r\nAccept: application/x-protobuf\r\n"
        waiters = [socket.create_connection(("127.0.0.1", client.port)) for _ in range(3)]
        for waiter in waiters:
            waiter.sendall(head + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))
        wait_for(lambda: client.metrics()["server_waiting_polls"] == 3)
        waiters[0].close()
        wait_for(lambda: client.metrics()["server_waiting_polls"] == 2)
        release.set()
        for waiter in waiters[1:]:
            response = http.client.HTTPResponse(waiter)
            response.begin()
            assert SampleResponse.FromString(response.read()).sequences
            waiter.close()
        wait_for(lambda: client.metrics()["server_results_served_total"] == 2)
        assert client.retrieve(request_id)[0] == 200
        metrics = client.metrics()
        assert metrics["server_results_served_total"] == 3
        assert metrics["server_outstanding_futures"] == 0
        assert metrics["server_held_bytes"] > 0


def test_a_delivered_result_is_dropped_after_its_time_and_answers_410() -> None:
    with stub_engine() as engine, server(engine.url, "--retrieved-ttl", "10ms", "--sweep-interval", "10ms") as client:
        request_id = client.submit()
        assert client.retrieve(request_id)[0] == 200
        wait_for(lambda: client.metrics()["server_held_bytes"] == 0)
        assert client.retrieve(request_id)[0] == 410
        assert client.metrics()["server_results_expired_total"] == 1


def test_more_requests_than_connections_wait_their_turn() -> None:
    with held_engine() as (engine, release), server(engine.url, "--engine-connections", "1") as client:
        ids = [client.submit(sampling_params={"max_tokens": 1, "seed": seed}) for seed in range(6)]
        wait_for(lambda: len(engine.requests) == 1)
        assert client.metrics()["server_engine_queue"] == 5
        release.set()
        for seed, request_id in enumerate(ids):
            assert client.retrieve(request_id)[1].sequences[0].tokens == struct.pack("<i", seed)
        assert [sent["seed"] for sent in engine.requests] == list(range(6))


def test_a_cancelled_future_fails_and_its_engine_request_is_broken_off() -> None:
    with held_engine() as (engine, _), server(engine.url, "--engine-connections", "1") as client:
        running, waiting = client.submit(), client.submit()
        wait_for(lambda: len(engine.requests) == 1)
        for request_id in (waiting, running):
            assert client.call("/api/v1/cancel_future", {"request_id": request_id})[0] == 204
            assert client.retrieve(request_id)[1] == {"error": "The future was cancelled.", "category": "user"}
        wait_for(lambda: client.metrics()["server_engine_requests"] == 0)
        assert len(engine.requests) == 1


def test_an_engine_that_never_answers_fails_the_future_and_is_given_up() -> None:
    """Its connection is free for the next future: a hung request must not take a place for ever."""
    with (
        held_engine() as (engine, _),
        server(engine.url, "--engine-connections", "1", "--pending-ttl", "200ms", "--sweep-interval", "10ms") as client,
    ):
        status, failure = client.retrieve(client.submit())
        assert (status, failure) == (200, {"error": "The engine gave no result in time.", "category": "server"})
        wait_for(lambda: client.metrics()["server_engine_requests"] == 0)
        engine.answer = right
        assert client.retrieve(client.submit())[1].sequences


def test_past_the_limit_of_outstanding_futures_submits_get_429() -> None:
    with held_engine() as (engine, release), server(engine.url, "--max-outstanding", "2") as client:
        _, session = client.post("create_session", {})
        _, sampling = client.post("create_sampling_session", {"session_id": session["session_id"], "base_model": "m"})
        again = {"sampling_session_id": sampling["sampling_session_id"], "seq_id": 1}
        ids = [client.submit(), client.submit(**again)]
        status, answer = client.post("asample", sample_request())
        assert status == 429
        assert client.submit(**again) == ids[1]
        assert answer["detail"].startswith("2 futures are outstanding")
        release.set()
        assert all(client.retrieve(request_id)[0] == 200 for request_id in ids)
        client.submit()


def test_with_an_api_key_others_are_refused(engine: StubEngine) -> None:
    with server(engine.url, SERVER_UNDER_TEST_API_KEY="secret") as client:
        path, config = "/api/v1/client/config", {"sdk_version": "0.38.0"}
        assert client.call(path, config)[0] == 401
        assert client.call(path, config, X_API_Key="wrong")[0] == 401
        assert client.call(path, config, X_API_Key="\xfcber")[0] == 401
        assert client.call(path, config, X_API_Key="secret")[0] == 200


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--poll-hold", "soon"], "length of time such as 300s or 250ms, found 'soon'"),
        (["--engine", "localhost:8000"], "--engine should look like http://HOST:PORT"),
        (["--engine", "http://localhost:many"], "--engine should look like http://HOST:PORT"),
        (["--port", "65536"], "--port should be between 1 and 65535, found 65536"),
        (["--metrics-port", "0"], "--metrics-port should be between 1 and 65535, found 0"),
        (["--metrics-port", "{taken}"], "127.0.0.1:{taken}: Address already in use. Choose another --metrics-host"),
        (["--keep-alive", "0s"], "--keep-alive should be longer than 0 s"),
        (["--port", "0"], "--port should be between 1 and 65535, found 0"),
        (["--sweep-interval", "0s"], "--sweep-interval should be longer than 0 s"),
        (["--host", "no.such.host.invalid"], "Cannot listen on no.such.host.invalid:8001: Name or service not known"),
        (["--max-held", "much"], "a size such as 64KB or 2GB, found 'much'"),
        (["--max-connections-per-address", "0"], "--max-connections-per-address should be at least 1, found 0"),
        (["--engine-connections", "0"], "--engine-connections should be at least 1, found 0"),
        (["--port", "{taken}"], "Cannot listen on 127.0.0.1:{taken}: Address already in use"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(client: Client, args: list[str], sentence: str) -> None:
    args = [arg.format(taken=client.port) for arg in args]
    command = [sys.executable, "-m", "server_under_test", *args]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert result.returncode == 2
    assert sentence.format(taken=client.port) in result.stderr
    assert "Traceback" not in result.stderr
