"""Who may ask how much of a running server, and what it says to whoever asks for more."""

from __future__ import annotations

import asyncio
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator

import pytest
import zstandard
from aiohttp import web
from aiohttp.test_utils import TestServer

from server_under_test import access
from server_under_test.access import MAX_BODY_BYTES, read_body, say_what_is_refused
from tests.server_under_test.client import Client, sample_request, server
from tests.server_under_test.stub_engine import StubEngine, held_engine, stub_engine
from tests.waiting import wait_for

ASAMPLE = "/api/v1/asample"


@pytest.fixture(scope="module")
def engine() -> Iterator[StubEngine]:
    with stub_engine() as engine:
        yield engine


@pytest.fixture(scope="module")
def client(engine: StubEngine) -> Iterator[Client]:
    with server(engine.url) as client:
        yield client


def detail(client: Client, body: bytes, **headers: str) -> tuple[int, str]:
    status, _, answer = client.call(ASAMPLE, body, **headers)
    return status, json.loads(answer).get("detail", "")


def test_a_compressed_body_is_the_body(client: Client) -> None:
    body = json.dumps(sample_request()).encode()
    for compressed in (zstandard.compress(body), zstandard.compress(body[:10]) + zstandard.compress(body[10:])):
        status, _, answer = client.call(ASAMPLE, compressed, Content_Encoding="zstd")
        assert status == 200
        assert client.retrieve(json.loads(answer)["request_id"])[1].sequences


@pytest.mark.parametrize(
    ("body", "headers", "status", "sentence"),
    [
        (b"{}", {"Content_Encoding": "gzip"}, 415, "as it is or as zstd, found Content-Encoding 'gzip'"),
        (b"{}", {"Content_Encoding": "zstd"}, 422, "The body is not zstd"),
        (
            zstandard.compress(b"0" * (MAX_BODY_BYTES + 1)),
            {"Content_Encoding": "zstd"},
            413,
            "more than 67108864 bytes",
        ),
        (b"0" * (MAX_BODY_BYTES + 1), {}, 413, "more than 67108864 bytes"),
        (b"[" * 1_000_000, {}, 422, ""),
        (b'{"x":' + b"[" * 1_000_000, {}, 422, "levels"),
        (b'{"prompt":{"chunks":[{"tokens":' + b"[" * 100_000 + b"]" * 100_000 + b"}]}}", {}, 422, "levels"),
    ],
    ids=["gzip", "no zstd", "zstd bomb", "large", "deep list", "deep field", "deep tokens"],
)
def test_bodies_that_are_not_taken_get_a_sentence(
    client: Client, body: bytes, headers: dict[str, str], status: int, sentence: str
) -> None:
    found, text = detail(client, body, **headers)
    assert found == status
    assert sentence in text
    assert client.call("/api/v1/healthz", method="GET")[0] == 200


def test_nothing_of_a_request_is_in_the_log(engine: StubEngine) -> None:
    with server(engine.url) as client:
        for request in (b"GET /secret", b"GET / HTTP/1.1\r\nX: secret" + b"y" * 9_000, b"POST / HTTP/1.1\r\nsecret"):
            with socket.create_connection(("127.0.0.1", client.port), timeout=30) as connection:
                connection.sendall(request + b"\r\n\r\n")
                while connection.recv(1000):
                    pass
        client.call(ASAMPLE, b'{"prompt": "secret"}')
        client.post("asample", sample_request(prompt={"chunks": [{"type": "secret", "tokens": [1]}]}))
        client.process.terminate()
        assert client.process.stdout is not None
        assert client.process.stdout.read() == "server_under_test: 0 futures got ready, 0 failed, 0 had not ended.\n"


@pytest.mark.parametrize("headers", [b"X: " + b"y" * 10_000, b"\r\n".join(b"X%d: y" % n for n in range(200))])
def test_headers_have_limits(client: Client, headers: bytes) -> None:
    with socket.create_connection(("127.0.0.1", client.port), timeout=30) as connection:
        connection.sendall(b"GET /api/v1/healthz HTTP/1.1\r\nHost: x\r\n" + headers + b"\r\n\r\n")
        assert connection.recv(100).split()[1] == b"400"


def test_what_is_held_has_a_limit(engine: StubEngine) -> None:
    with server(engine.url, "--max-held", "20") as client:
        first = client.submit()
        assert client.retrieve(first)[0] == 200
        status, _, answer = client.call(ASAMPLE, sample_request())
        assert status == 429
        assert json.loads(answer)["detail"].endswith("bytes of results are held, which is all this server takes.")
        assert client.retrieve(first)[0] == 200  # nothing that was accepted is dropped


def test_connections_of_one_address_have_a_limit_when_asked_for(engine: StubEngine) -> None:
    with server(engine.url, "--max-connections-per-address", "2") as client:
        held = [socket.create_connection(("127.0.0.1", client.port), timeout=30) for _ in range(2)]
        with socket.create_connection(("127.0.0.1", client.port), timeout=30) as third:
            assert third.recv(1) == b""
        address = ("127.0.0.2", 0)
        with socket.create_connection(("127.0.0.1", client.port), timeout=30, source_address=address) as elsewhere:
            elsewhere.sendall(b"GET /api/v1/healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert elsewhere.recv(100).startswith(b"HTTP/1.1 200 ")
        for connection in held:
            connection.close()
        wait_for(lambda: answers(client))


def answers(client: Client) -> bool:
    try:
        return client.call("/api/v1/healthz", method="GET")[0] == 200
    except OSError:
        return False


def test_metrics_can_be_bound_apart(engine: StubEngine, free_port: Callable[[], int]) -> None:
    port = str(free_port())
    apart = ["--metrics-host", "127.0.0.2", "--metrics-port", port]
    with server(engine.url, *apart, SERVER_UNDER_TEST_API_KEY="secret") as client:
        assert client.call("/metrics", method="GET", X_API_Key="secret")[0] == 404
        with urllib.request.urlopen(f"http://127.0.0.2:{port}/metrics", timeout=30) as answer:
            assert b"server_held_bytes 0.0" in answer.read()
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.2:{port}/api/v1/healthz", timeout=30)


def test_headers_that_do_not_end_have_a_limit_in_time(engine: StubEngine) -> None:
    with (
        server(engine.url, "--keep-alive", "50ms") as client,
        socket.create_connection(("127.0.0.1", client.port), timeout=30) as connection,
    ):
        connection.sendall(b"GET /api/v1/healthz HTTP/1.1\r\nHost:")
        assert connection.recv(100) == b""


def test_a_body_that_does_not_end_has_a_limit_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "BODY_TIMEOUT_S", 0.05)

    async def send_half() -> tuple[int, object]:
        async def read(request: web.Request) -> web.Response:
            return web.Response(body=await read_body(request))

        app = web.Application(middlewares=[say_what_is_refused])
        app.router.add_post("/", read)
        async with TestServer(app) as server:
            reader, writer = await asyncio.open_connection(server.host, server.port)
            writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{")
            head = await reader.readuntil(b"\r\n\r\n")
            body = await reader.readuntil(b"}")
            writer.close()
        return int(head.split()[1]), json.loads(body)["detail"]

    assert asyncio.run(send_half()) == (408, "The body did not come within 0 s.")


def test_another_request_with_the_identity_of_one_is_a_conflict(client: Client) -> None:
    _, session = client.post("create_session", {})
    _, sampling = client.post("create_sampling_session", {"session_id": session["session_id"], "base_model": "m"})
    request = sample_request(sampling_session_id=sampling["sampling_session_id"], seq_id=7)
    first = client.submit(**request)
    status, answer = client.post("asample", {**request, "num_samples": 2})
    assert (status, answer["detail"]) == (
        409,
        "The sampling session has another request with seq_id 7: give each its own.",
    )
    client.retrieve(first)
    assert client.submit(**request) == first


def test_long_results_are_announced_once_to_those_who_allow_it(engine: StubEngine) -> None:
    with server(engine.url, "--inline-limit", "30") as client:
        short, long = (client.submit(sampling_params={"max_tokens": size}) for size in (1, 100))
        assert client.retrieve(short)[1].sequences
        plain = client.post("retrieve_future", {"request_id": long}, "application/x-protobuf")[1]
        status, announced = client.retrieve(long)
        assert (status, announced["status"]) == (200, "complete_metadata")
        assert announced["response_payload_size"] == plain.ByteSize()
        assert client.retrieve(long)[1] == plain
        assert client.metrics()["server_results_served_total"] == 3


def test_a_server_that_was_started_again_serves_old_sampling_sessions_and_says_what_is_gone(engine: StubEngine) -> None:
    with server(engine.url) as client:
        _, session = client.post("create_session", {})
        _, sampling = client.post("create_sampling_session", {"session_id": session["session_id"], "base_model": "é/1"})
        request = sample_request(sampling_session_id=sampling["sampling_session_id"], seq_id=1, base_model=None)
        old = client.submit(**request)
    with server(engine.url) as client:
        assert client.retrieve(old)[0] == 410
        assert client.post("session_heartbeat", session)[0] == 200
        new = client.submit(**request)
        assert new != old
        assert client.retrieve(new)[1].sequences
        assert engine.requests[-1]["model"] == "é/1"


def test_a_poll_that_ends_in_vain_says_what_it_waited_for() -> None:
    with held_engine() as (engine, _), server(engine.url, "--engine-connections", "1", "--poll-hold", "10ms") as client:
        running, waiting = client.submit(), client.submit()
        wait_for(lambda: len(engine.requests) == 1)
        assert client.retrieve(running)[1]["queue_state"] == "active"
        answer = client.retrieve(waiting)[1]
        assert answer["queue_state"] == "paused_capacity"
        assert answer["queue_state_reason"] == "1 requests wait for one of 1 engine connections."


def test_a_poll_says_when_the_engine_refuses() -> None:
    def refuse(handler: object, document: object) -> None:
        handler.send_response(429)  # type: ignore[attr-defined]
        handler.send_header("Retry-After", "60")  # type: ignore[attr-defined]
        handler.send_header("Content-Length", "0")  # type: ignore[attr-defined]
        handler.end_headers()  # type: ignore[attr-defined]

    with stub_engine(refuse) as engine, server(engine.url, "--poll-hold", "10ms") as client:
        request_id = client.submit()
        wait_for(lambda: client.retrieve(request_id)[1]["queue_state"] == "paused_rate_limit")
