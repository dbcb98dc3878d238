"""What protocols make of answers: tables for what servers say, properties for what they should not."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from locustfiles.lengths import JobLengths
from locustfiles.protocols import completions
from locustfiles.protocols.choice import ProtocolError, protocol_named
from locustfiles.protocols.interface import (
    LONGEST_RETRY_AFTER_S,
    BadAnswerError,
    Call,
    Cancelled,
    Failed,
    FetchAt,
    Job,
    Lost,
    Pending,
    Protocol,
    Ready,
    Reply,
    Ticket,
    location,
    retry_after_s,
)
from locustfiles.protocols.operations import EARLY_PAUSE_S, Operations
from locustfiles.protocols.respond_async import RespondAsync
from server_under_test.proto import StopReason

NOON = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC)
DATE = {"date": format_datetime(NOON, usegmt=True)}
MONITOR = Ticket("/status/7", "/status/7")
OPERATION = Ticket("operations/7", "/v1/operations/7")


def read(protocol: Protocol, ticket: Ticket, reply: Reply) -> Any:
    """The outcome, or the class of what can't be read."""
    try:
        return protocol.observed(ticket, reply)
    except BadAnswerError as error:
        return error.error_class


def as_json(**document: Any) -> bytes:
    return json.dumps(document).encode()


@pytest.mark.parametrize(
    ("text", "pause_s"),
    [
        ("0", 0.0),
        ("120", 120.0),
        ("3600", 3600.0),
        (format_datetime(NOON + timedelta(seconds=90), usegmt=True), 90.0),
        (format_datetime(NOON - timedelta(days=3), usegmt=True), 0.0),
        ("Monday, 04-May-26 12:00:05 GMT", 5.0),  # the older form of RFC 850
        ("3601", None),
        ("99999999999999999999999", None),
        ("-1", None),
        ("1.5", None),
        ("", None),
        ("soon", None),
        ("²", None),
        (format_datetime(NOON + timedelta(days=365), usegmt=True), None),
        ("Mon, 04 May 2026 12:00:05", None),
    ],
)
def test_pauses_that_servers_ask_for(text: str, pause_s: float | None) -> None:
    reply = Reply(202, {**DATE, "retry-after": text})
    if pause_s is None:
        with pytest.raises(BadAnswerError):
            retry_after_s(reply)
    else:
        assert retry_after_s(reply) == pause_s


@given(st.text())
def test_any_text_is_a_pause_in_bounds_or_makes_no_sense(text: str) -> None:
    try:
        pause_s = retry_after_s(Reply(202, {**DATE, "retry-after": text}))
    except BadAnswerError:
        return
    assert pause_s is not None
    assert 0 <= pause_s <= LONGEST_RETRY_AFTER_S


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/results/7", "/results/7"),
        ("results/7?part=2#top", "/status/results/7?part=2"),
        ("../results/7", "/results/7"),
        ("?page=2", "/status/7?page=2"),
        ("https://api.example.com:8443/results/7", "/results/7"),
        ("//other.example.com", "/"),
        ("/a b", None),
        ("http://[::1/", None),
        ("/é", None),
        ("mailto:someone", None),
    ],
)
def test_locations(text: str, path: str | None) -> None:
    reply = Reply(303, {"location": text})
    if path is None:
        with pytest.raises(BadAnswerError):
            location(reply, "/status/7")
    else:
        assert location(reply, "/status/7") == path


@given(st.text())
def test_any_location_can_stand_in_a_request_line_or_is_refused(text: str) -> None:
    try:
        path = location(Reply(303, {"location": text}), "/status/7")
    except BadAnswerError:
        return
    if text:
        assert path is not None
        line = f"GET {path} HTTP/1.1".encode("ascii")
        assert len(line.split()) == len(line.splitlines()[0].split()) == 3
        assert urlsplit(path).path.startswith("/") or path.startswith("//")


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (Reply(202), Pending(None, None)),
        (Reply(202, {"retry-after": "3"}), Pending(3.0, None)),
        (Reply(202, {"location": "/elsewhere"}), Pending(None, "/elsewhere")),
        (Reply(202, {"retry-after": "never"}), "Retry-After that makes no sense"),
        (Reply(200, body=b"result"), Ready(b"result")),
        (Reply(204), Ready(b"")),
        (Reply(303, {"location": "/results/7"}), FetchAt(Call("GET", "/results/7"))),
        (Reply(303), "poll 303 without a Location"),
        (Reply(404, body=b"who?"), Lost("poll 404", "who?")),
        (Reply(410), Lost("poll 410")),
        (Reply(503, {"retry-after": "9"}), Failed("poll 503", retryable=True, delay_s=9.0)),
        (Reply(500), Failed("poll 500", retryable=True)),
        (Reply(403, {"retry-after": "9"}), Failed("poll 403")),
    ],
)
def test_answers_of_a_status_monitor(reply: Reply, outcome: object) -> None:
    assert read(RespondAsync(), MONITOR, reply) == outcome


@pytest.mark.parametrize(
    ("reply", "accepted"),
    [
        (Reply(202, {"location": "status/7"}), Ticket("/v1/status/7", "/v1/status/7")),
        (Reply(200, body=b"result"), Ready(b"result")),
        (Reply(429, {"retry-after": "2"}), Failed("submit 429", retryable=True, delay_s=2.0)),
        (Reply(503), Failed("submit 503", retryable=True)),
        (Reply(500), Failed("submit 500")),  # the work may have begun
    ],
)
def test_answers_to_an_asynchronous_submit(reply: Reply, accepted: object) -> None:
    assert RespondAsync().accepted(reply) == accepted


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (Reply(200, body=as_json(name="operations/7")), Pending(EARLY_PAUSE_S)),
        (Reply(200, {"retry-after": "2"}, as_json(name="operations/7", done=False)), Pending(2.0)),
        (Reply(200, body=as_json(name="operations/7", done=True, response={"a": 1})), Ready(b'{"a": 1}')),
        (
            Reply(200, body=as_json(name="operations/7", done=True, error={"code": 13, "message": "boom: x9"})),
            Failed("future failed: boom", "boom: x9"),
        ),
        (
            Reply(200, body=as_json(name="operations/7", done=True, error={"code": 1})),
            Cancelled("operation cancelled"),
        ),
        (Reply(200, body=as_json(name="operations/7", done=True)), "poll: done without one end"),
        (
            Reply(200, body=as_json(name="operations/7", done=True, error={"code": 13}, response={})),
            "poll: done without one end",
        ),
        (Reply(200, body=as_json(name="operations/8", done=True, response={})), "poll: another operation"),
        (Reply(200, body=b"<html>"), "poll: not an operation"),
        (Reply(200, body=as_json(name="a b\r\n")), "poll: not an operation"),
        (Reply(404), Lost("poll 404")),
        (Reply(504), Failed("poll 504", retryable=True)),
    ],
)
def test_answers_to_a_wait(reply: Reply, outcome: object) -> None:
    assert read(Operations(), OPERATION, reply) == outcome


JOB = Job("mock", 5, JobLengths(3, 20))


@pytest.mark.parametrize("protocol", [RespondAsync(), Operations()])
def test_the_work_is_a_completion_of_the_jobs(protocol: Protocol) -> None:
    call = protocol.submit(JOB)
    body = json.loads(call.body)
    assert call.method == "POST"
    assert (body["model"], body["seed"], body["max_tokens"], len(body["prompt"])) == ("mock", 5, 20, 3)
    assert body["return_token_ids"]
    assert body["logprobs"] == 1


def test_polls_say_how_long_they_may_be_held() -> None:
    assert RespondAsync().poll(MONITOR, 30.0) == Call("GET", "/status/7", headers={"Prefer": "wait=30"})
    wait = Operations().poll(OPERATION, 30.0)
    assert (wait.method, wait.path, json.loads(wait.body)) == ("POST", "/v1/operations/7:wait", {"timeout": "30s"})


def test_a_completion_is_read_as_a_sample() -> None:
    choice = {"finish_reason": "length", "token_ids": [1, 70_000], "logprobs": {"token_logprobs": [-0.5, -2.0]}}
    (sequence,) = completions.sample(as_json(id="x", choices=[choice])).sequences
    assert sequence.stop_reason == StopReason.LENGTH
    assert sequence.tokens == (1).to_bytes(4, "little") + (70_000).to_bytes(4, "little")
    assert sequence.logprobs.hex() == "000000bf000000c0"


@given(st.binary() | st.builds(as_json, choices=st.lists(st.dictionaries(st.text(), st.integers()))))
def test_what_is_no_completion_is_a_value_error(body: bytes) -> None:
    with suppress(ValueError):
        assert len(completions.sample(body).sequences) == 0


@pytest.mark.parametrize("token", [2**31, -(2**31) - 1, 2**70])
def test_tokens_that_are_too_large_are_a_value_error(token: int) -> None:
    choice = {"finish_reason": "length", "token_ids": [token]}
    with pytest.raises(ValueError, match=r"token|completion"):
        completions.sample(as_json(choices=[choice]))


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("grpc", "should be one of tinker, tinker-sessions, respond-async, operations, MODULE:CLASS, found 'grpc'"),
        (":", "should be one of"),
        ("no_such_module:Tasks", "can't be used: ModuleNotFoundError"),
        ("json:Tasks", "can't be used: AttributeError"),
        ("json:JSONDecoder", "is no protocol: derive the class"),
        ("locustfiles.protocols.interface:Protocol", "can't be used: TypeError"),
    ],
)
def test_what_is_no_protocol(name: str, sentence: str) -> None:
    with pytest.raises(ProtocolError) as caught:
        protocol_named(name)
    assert sentence in str(caught.value)


def test_protocols_by_name_and_by_class() -> None:
    assert isinstance(protocol_named("operations"), Operations)
    assert isinstance(protocol_named("locustfiles.protocols.respond_async:RespondAsync"), RespondAsync)
    assert protocol_named("tinker") is protocol_named("tinker-sessions") is None
