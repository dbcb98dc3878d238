"""Requests that a fuzzer found to be answered 5xx, to be answered without a sentence, or to leave something behind."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from tests.server_under_test.client import Client, sample_request, server
from tests.server_under_test.stub_engine import stub_engine
from tests.waiting import wait_for


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with stub_engine() as engine, server(engine.url) as client:
        yield client


def exchange(client: Client, request: bytes) -> tuple[int, str]:
    """The status and the sentence that bytes are answered with, before the server closes the connection."""
    with socket.create_connection(("127.0.0.1", client.port), timeout=30) as connection:
        connection.sendall(request)
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["detail"]


def sampling_session(client: Client) -> str:
    _, session = client.post("create_session", {})
    _, sampling = client.post("create_sampling_session", {**session, "base_model": "m"})
    found: str = sampling["sampling_session_id"]
    return found


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sampling_params": {"seed": 2**63}}, "$.sampling_params.seed"),
        ({"sampling_params": {"seed": -(2**63) - 1}}, "$.sampling_params.seed"),
        ({"sampling_params": {"max_tokens": 2**64}}, "$.sampling_params.max_tokens"),
        ({"sampling_params": {"top_k": 10**30}}, "$.sampling_params.top_k"),
        ({"sampling_params": {"stop": [2**64]}}, "$.sampling_params.stop"),
        ({"seq_id": 2**64}, "$.seq_id"),
        ({"prompt": {"chunks": [{"tokens": [10**400]}]}, "prompt_logprobs": True}, "no token id"),
    ],
)
def test_numbers_that_are_too_large_are_refused_and_leave_no_future(
    client: Client, changes: dict[str, Any], sentence: str
) -> None:
    status, answer = client.post("asample", sample_request(**changes))
    assert status == 422
    assert sentence in answer["detail"]
    assert client.metrics()["server_outstanding_futures"] == 0


@pytest.mark.parametrize("field", ["prev_cursor", "cloned_sampler_id"])
def test_cursors_and_clones_that_are_too_large_are_refused(client: Client, field: str) -> None:
    target = {"sampling_session_id": sampling_session(client), "cloned_sampler_id": 0}
    request = {"target": target, "timeout": 0, "prev_cursor": 0}
    (target if field in target else request)[field] = 2**64
    status, answer = client.post("retrieve_futures", request)
    assert status == 422
    assert field in answer["detail"]


def test_a_header_that_is_no_text_is_quoted_as_far_as_it_is(client: Client) -> None:
    head = b"POST /api/v1/asample HTTP/1.1\r\nHost: x\r\nContent-Encoding: a\xed\xa0\x80b\r\nConnection: close\r\n"
    status, sentence = exchange(client, head + b"Content-Length: 2\r\n\r\n{}")
    assert status == 415
    assert "found Content-Encoding 'a" in sentence


def test_a_sentence_quotes_only_so_much(client: Client) -> None:
    status, answer = client.post("retrieve_future", {"request_id": "beginning" + "x" * 1_000_000 + "end"})
    assert status == 404
    assert len(answer["detail"]) < 1_000
    assert answer["detail"].startswith("There is no future 'beginningx")
    assert answer["detail"].endswith("xend'.")


@pytest.mark.parametrize(
    ("request_line", "headers", "status", "sentence"),
    [
        (b"POST /api/v1/nothing HTTP/1.1", b"", 404, "There is no endpoint /api/v1/nothing."),
        (b"PUT /api/v1/asample HTTP/1.1", b"", 405, "/api/v1/asample takes POST, found PUT."),
        (b"POST /metrics HTTP/1.1", b"", 405, "/metrics takes GET, HEAD, found POST."),
        (b"POST /api/v1/asample HTTP/1.1", b"Expect: more\r\n", 417, "Expect should be 100-continue, found 'more'."),
        (b"POST /api/v1/asample HTTP/1.1", b"no header\r\n", 400, "The request could not be handled: "),
        (b"nonsense", b"", 400, "The request could not be handled: "),
    ],
)
def test_what_no_endpoint_takes_gets_a_sentence(
    client: Client, request_line: bytes, headers: bytes, status: int, sentence: str
) -> None:
    found = exchange(client, request_line + b"\r\nHost: x\r\nConnection: close\r\n" + headers + b"\r\n")
    assert found[0] == status
    assert found[1].startswith(sentence)


def test_a_client_that_waits_with_its_body_is_told_to_send_it(client: Client) -> None:
    body = json.dumps(sample_request()).encode()
    head = b"POST /api/v1/asample HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)
    with socket.create_connection(("127.0.0.1", client.port), timeout=30) as connection:
        connection.sendall(head)
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(body)
        assert connection.recv(100).startswith(b"HTTP/1.1 200 ")


def test_a_client_that_breaks_off_as_it_is_answered_is_not_in_the_log() -> None:
    reset_on_close = struct.pack("ii", 1, 0)
    with server("http://127.0.0.1:1", "--engine-connect-deadline", "0s") as client:
        request_id = client.submit()
        body = json.dumps({"request_id": request_id}).encode()
        request = b"POST /api/v1/retrieve_future HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        for _ in range(300):
            connection = socket.create_connection(("127.0.0.1", client.port), timeout=30)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset_on_close)
            connection.sendall(request * 3)
            connection.close()
        wait_for(lambda: client.metrics()["server_waiting_polls"] == 0)
        client.process.terminate()
        assert client.process.stdout is not None
        assert client.process.stdout.read().count("\n") == 1
