"""Every kind of fault, as a plain client on a socket meets it: that fault, and nothing else."""

from __future__ import annotations

import http.client
import json
import math
import socket
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from mockengine import EngineError, RunningEngine, running
from tests.waiting import wait_for

REQUEST = {"prompt": [1, 2], "max_tokens": 40, "seed": 7, "logprobs": 1, "return_token_ids": True}


class Seen(NamedTuple):
    """What came on a connection. end: ``open`` when a whole answer came and no more within a moment."""

    data: bytes
    end: str

    @property
    def status(self) -> int:
        return int(self.data.split(b" ", 2)[1])

    @property
    def headers(self) -> dict[str, str]:
        lines = self.data.partition(b"\r\n\r\n")[0].decode().split("\r\n")[1:]
        return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}

    @property
    def body(self) -> bytes:
        return self.data.partition(b"\r\n\r\n")[2]

    @property
    def document(self) -> Any:
        return json.loads(self.body)


@pytest.fixture(scope="module")
def engine() -> Iterator[RunningEngine]:
    with running(body_profile="lean", service_time="fixed:0s") as engine:
        yield engine


@pytest.fixture(autouse=True)
def no_faults_are_left(engine: RunningEngine) -> Iterator[None]:
    yield
    engine.set_faults([])


def connect(engine: RunningEngine) -> socket.socket:
    return socket.create_connection(("127.0.0.1", engine.port), timeout=30)


def send(connection: socket.socket, **fields: object) -> None:
    body = json.dumps(REQUEST | fields).encode()
    connection.sendall(
        b"POST /v1/completions HTTP/1.1\r\nHost: engine\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )


def receive(connection: socket.socket) -> Seen:
    """Everything up to the end of the connection, or up to the end of an answer that is whole."""
    data = b""
    while True:
        try:
            more = connection.recv(65_536)
        except ConnectionResetError:
            return Seen(data, "reset")
        if not more:
            return Seen(data, "closed")
        data += more
        seen = Seen(data, "open")
        if b"\r\n\r\n" in data and len(seen.body) >= int(seen.headers["content-length"]):
            return seen


def exchange(engine: RunningEngine, **fields: object) -> Seen:
    with connect(engine) as connection:
        send(connection, **fields)
        return receive(connection)


def met(engine: RunningEngine, kind: str, **words: object) -> Seen:
    """The answer to a request that meets this fault, which is counted once, and the one after it, which is right."""
    before = engine.injected().get(kind, 0)
    engine.set_faults([{"kind": kind, "first": 1, **words}])
    seen = exchange(engine, n=2)
    assert engine.injected()[kind] == before + 1
    assert choices(exchange(engine)) == choices(exchange(engine))
    return seen


def choices(seen: Seen) -> list[dict[str, Any]]:
    assert (seen.status, seen.end) == (200, "open")
    found: list[dict[str, Any]] = seen.document["choices"]
    return found


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "BadRequestError"),
        (408, "RequestTimeoutError"),
        (429, "TooManyRequestsError"),
        (500, "InternalServerError"),
        (502, "BadGatewayError"),
        (503, "ServiceUnavailableError"),
    ],
)
def test_http_errors_are_vllms_or_a_routers(engine: RunningEngine, status: int, kind: str) -> None:
    answer = met(engine, f"http_{status}")
    assert answer.status == status
    assert answer.document["error"]["type"] == kind
    assert answer.document["error"]["code"] == status
    page = met(engine, f"http_{status}", html=True)
    assert page.status == status
    assert page.headers["content-type"].startswith("text/html")
    assert page.body.startswith(b"<html>")


@pytest.mark.parametrize("status", [429, 503])
def test_refusals_say_when_to_come_again(engine: RunningEngine, status: int) -> None:
    assert met(engine, f"http_{status}").headers["retry-after"] == "1"
    assert met(engine, f"http_{status}", retry_after="2500ms").headers["retry-after"] == "3"


def test_html_200_and_empty_200(engine: RunningEngine) -> None:
    page = met(engine, "html_200")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    empty = met(engine, "empty_200")
    assert (empty.status, empty.headers["content-type"], empty.body) == (200, "application/json", b"")


def test_truncated_json_is_whole_for_http(engine: RunningEngine) -> None:
    seen = met(engine, "truncated_json")
    assert (seen.status, seen.end) == (200, "open")
    assert len(seen.body) == int(seen.headers["content-length"])
    with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
        json.loads(seen.body)


def test_wrong_content_length_announces_what_never_comes_or_less_than_comes(engine: RunningEngine) -> None:
    seen = met(engine, "wrong_content_length")
    assert seen.end == "closed"
    assert int(seen.headers["content-length"]) == len(seen.body) + 10
    assert json.loads(seen.body)
    short = met(engine, "wrong_content_length", by=-5)
    assert len(short.body) == int(short.headers["content-length"]) + 5


def test_resets_before_in_and_after_the_headers(engine: RunningEngine) -> None:
    assert met(engine, "reset_before_headers") == Seen(b"", "reset")
    in_headers = met(engine, "reset_in_headers")
    assert in_headers.end == "reset"
    assert in_headers.data.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"\r\n\r\n" not in in_headers.data
    in_body = met(engine, "reset_in_body")
    assert in_body.end == "reset"
    assert len(in_body.body) == int(in_body.headers["content-length"]) // 2


@pytest.mark.parametrize(("kind", "begins"), [("stall_before_first_byte", False), ("stall_in_body", True)])
def test_stalls(engine: RunningEngine, kind: str, begins: bool) -> None:
    engine.set_faults([{"kind": kind, "first": 1, "seconds": "2s"}])
    with connect(engine) as connection:
        send(connection)
        connection.settimeout(0.3)
        first = connection.recv(65_536) if begins else b""
        with pytest.raises(TimeoutError):
            connection.recv(65_536)
        connection.settimeout(30)
        seen = receive(connection) if not begins else Seen(first + connection.recv(65_536), "open")
        assert choices(seen) == choices(exchange(engine))
        send(connection)  # the connection is as good as before
        assert choices(receive(connection))


def test_slow_drip_comes_in_many_pieces_and_is_whole(engine: RunningEngine) -> None:
    size = len(exchange(engine).body)
    engine.set_faults([{"kind": "slow_drip", "first": 1, "bytes_per_s": 2 * size}])
    with connect(engine) as connection:
        send(connection)
        data, pieces = b"", 0
        while len(Seen(data, "").body) < size:
            data += connection.recv(65_536)
            pieces += 1
    assert pieces > 5
    assert choices(Seen(data, "open")) == choices(exchange(engine))


def test_idle_close_closes_a_connection_that_stays_idle_and_no_other(engine: RunningEngine) -> None:
    engine.set_faults([{"kind": "idle_close", "first": 1, "seconds": "100ms"}])
    before = engine.injected().get("idle_close", 0)
    with connect(engine) as connection:
        send(connection)
        assert choices(receive(connection))
        assert connection.recv(1) == b""
    assert engine.injected()["idle_close"] == before + 1
    engine.set_faults([{"kind": "idle_close", "first": 1, "seconds": "1m"}])
    with connect(engine) as connection:
        for _ in range(2):
            send(connection)
            assert choices(receive(connection))
    assert engine.injected()["idle_close"] == before + 1


def test_close_on_reuse_ends_the_next_request_without_a_byte(engine: RunningEngine) -> None:
    before = engine.injected().get("close_on_reuse", 0)
    engine.set_faults([{"kind": "close_on_reuse", "first": 1}])
    with connect(engine) as connection:
        send(connection)
        assert choices(receive(connection))
        assert engine.injected().get("close_on_reuse", 0) == before
        send(connection)
        assert receive(connection) == Seen(b"", "closed")
    assert engine.injected()["close_on_reuse"] == before + 1


def test_altered_logprobs(engine: RunningEngine) -> None:
    right = choices(exchange(engine, n=2))
    for kind, check in (("null_logprobs", lambda x: x is None), ("nan_logprobs", math.isnan)):
        changed = choices(met(engine, kind))
        assert changed[0] != right[0]
        numbers = changed[0]["logprobs"]["token_logprobs"]
        assert check(numbers[0])  # type: ignore[no-untyped-call]
        assert check(numbers[20])  # type: ignore[no-untyped-call]
        put_back = [was if check(found) else found for found, was in zip(numbers, logprobs(right), strict=True)]  # type: ignore[no-untyped-call]
        assert put_back == logprobs(right)
        assert changed[1] == right[1]
    assert b"NaN" in met(engine, "nan_logprobs").body
    assert b"-Infinity" in met(engine, "infinite_logprobs").body
    assert choices(met(engine, "missing_logprobs"))[0]["logprobs"] is None
    assert set(map(str, choices(met(engine, "empty_logprobs"))[0]["logprobs"].values())) == {"[]"}


def logprobs(found: list[dict[str, Any]]) -> list[float]:
    numbers: list[float] = found[0]["logprobs"]["token_logprobs"]
    return numbers


def test_altered_choices(engine: RunningEngine) -> None:
    right = choices(exchange(engine, n=2))
    ids = right[0]["token_ids"]
    fewer = choices(met(engine, "token_count", by=-2))[0]
    assert (fewer["token_ids"], fewer["finish_reason"]) == (ids[:-2], "length")
    assert fewer["logprobs"]["token_logprobs"] == logprobs(right)[:-2]
    more = choices(met(engine, "token_count", by=2))[0]
    assert more["token_ids"] == [*ids, ids[-1], ids[-1]]
    assert [choice["index"] for choice in choices(met(engine, "duplicate_choice"))] == [0, 1, 0]
    assert choices(met(engine, "reordered_choices")) == right[::-1]
    assert choices(met(engine, "finish_reason"))[0]["finish_reason"] == "abort"
    assert choices(met(engine, "finish_reason", value="content_filter"))[0]["finish_reason"] == "content_filter"


def test_duplicate_response(engine: RunningEngine) -> None:
    engine.set_faults([{"kind": "duplicate_response", "first": 1}])
    with connect(engine) as connection:
        send(connection)
        data = b""
        while len(data) < 2 * len(exchange(engine).data) and data.count(b"HTTP/1.1 200 OK") < 2:
            data += connection.recv(65_536)
    first, second = data.split(b"HTTP/1.1 200 OK")[1:]
    assert first == second
    assert json.loads(first.partition(b"\r\n\r\n")[2])["choices"] == choices(exchange(engine))


def test_port_closed_refuses_connections_and_keeps_those_that_exist(engine: RunningEngine) -> None:
    engine.set_faults([{"kind": "port_closed", "first": 1, "seconds": "2s"}])
    with connect(engine) as connection:
        send(connection)
        assert choices(receive(connection))
        with pytest.raises(ConnectionRefusedError):
            connect(engine)
        send(connection)
        assert choices(receive(connection))
    wait_for(lambda: can_connect(engine))
    assert choices(exchange(engine))


def can_connect(engine: RunningEngine) -> bool:
    try:
        connect(engine).close()
    except ConnectionRefusedError:
        return False
    return True


def test_restart_ends_all_requests_and_comes_back_where_its_faults_were() -> None:
    faults = ["restart:every=3,first=1,seconds=2s", "http_400:every=2"]
    with running(body_profile="lean", service_time="fixed:0s", fault=faults) as engine:
        pid = engine.pid
        assert choices(exchange(engine))
        assert exchange(engine).status == 400
        with connect(engine) as idle:
            with connect(engine) as connection:
                send(connection)
                assert receive(connection).data == b""
            assert idle.recv(1) == b""
        wait_for(lambda: not can_connect(engine))
        wait_for(lambda: can_connect(engine))
        assert engine.injected() == {"http_400": 1, "restart": 1}
        assert exchange(engine).status == 400  # the fourth request, as if nothing had been
        assert choices(exchange(engine))
        assert engine.metrics()["vllm:request_success_total"] == 2
        assert engine.pid == pid
        last = engine.stop().splitlines()[-1]
    assert last.startswith("mockengine: 2 requests finished ")
    assert last.endswith("Faults injected: 2 http_400, 1 restart.")


def test_faults_are_shown_set_and_cleared_while_it_runs(engine: RunningEngine) -> None:
    engine.set_faults([{"kind": "stall_in_body", "seconds": "1.5s", "every": 4}])
    shown = ask(engine, "GET", "/admin/faults")[1]["faults"]
    assert shown == [{"kind": "stall_in_body", "every": 4, "seconds": 1.5}]
    assert ask(engine, "POST", "/admin/faults", {"faults": shown})[1]["faults"] == shown
    assert ask(engine, "DELETE", "/admin/faults")[1]["faults"] == []
    assert choices(exchange(engine))


@pytest.mark.parametrize(
    ("method", "path", "document", "sentence"),
    [
        ("POST", "/admin/faults", {"faults": [{"kind": "http_400"}, {"kind": "nonsense"}]}, "no fault of the kind"),
        ("POST", "/admin/faults", {"fault": []}, "should hold a list of faults"),
        ("POST", "/admin/faults", [], "should hold a list of faults"),
        ("POST", "/admin/faults", None, "should hold a list of faults"),
        ("POST", "/admin/pace", {"service_time": "soon"}, "A service time is one of "),
        ("POST", "/admin/pace", {}, 'JSON like {"service_time": "fixed:1s"}'),
        ("POST", "/admin/pace", {"service_time": "barrier:300"}, "A barrier of 300 requests never fills, for only 256"),
    ],
)
def test_mistakes_at_the_admin_endpoints_are_sentences_and_change_nothing(
    engine: RunningEngine, method: str, path: str, document: object, sentence: str
) -> None:
    engine.set_faults([{"kind": "http_400", "every": 1000}])
    before = ask(engine, "GET", path)[1]
    status, answer = ask(engine, method, path, document)
    assert status == 400
    assert sentence in answer["error"]
    assert ask(engine, "GET", path)[1] == before


def test_a_mistake_in_the_library_is_an_error_with_the_sentence(engine: RunningEngine) -> None:
    with pytest.raises(EngineError, match="Did you mean 'http_400'"):
        engine.set_faults([{"kind": "htp_400"}])
    with pytest.raises(EngineError, match="--slots should be at least 1"), running(slots=0):
        pass


def ask(engine: RunningEngine, method: str, path: str, document: object = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=30)
    connection.request(method, path, None if document is None else json.dumps(document))
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found
