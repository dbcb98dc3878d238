"""The script format: what a server answers to one client, row by row, and how a client is asked to behave.

All times in scripts and traces are seconds of the clients' clock, which runs ``speed`` times as fast as the real one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from server_under_test.proto import SampledSequence, SampleResponse

JSON, PROTOBUF = "application/json", "application/x-protobuf"
MAX_TOKENS = 4  # of every sample

# The answer is whole, or cut off in its body; the connection is reset instead; nothing comes at all.
Ending = Literal["whole", "truncated", "reset", "silent"]


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. label: its short form in tables; hold_s: how long the server takes over it."""

    label: str
    status: int = 200
    body: bytes = b""
    content_type: str | None = JSON
    headers: tuple[tuple[str, str], ...] = ()
    ending: Ending = "whole"
    hold_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Script:
    """One row. What follows the answers listed are ``accepted`` and ``result``.

    submits, polls: the answers to asample and to retrieve_future, in order.
    peeks: what answers every other poll that allows metadata only.
    starts_s: when each sample is asked for, since the first one.
    preset: the client that the load is told to be; the SDK gets its transport.
    client_config: what client/config answers.
    accept_in_s, result_in_s: how long the server takes over each submit that it accepts, and over each result.
    speed: rows with long delays play faster, and can then not tell short ones apart.
    rule: which of the SDK's rules the row is for.
    """

    name: str
    rule: str
    submits: tuple[Answer, ...] = ()
    polls: tuple[Answer, ...] = ()
    peeks: Answer | None = None
    starts_s: tuple[float, ...] = (0.0,)
    prompt_tokens: int = 3
    preset: Literal["sdk", "sdk-pyqwest"] = "sdk"
    client_config: dict[str, Any] = field(default_factory=dict)
    accept_in_s: float = 0.0
    result_in_s: float = 0.0
    speed: float = 5.0


def accepted(number: int) -> bytes:
    """The body of an accepted submit."""
    return msgspec.json.encode({"request_id": f"future-{number}", "sample_sequence_ids": [f"sequence-{number}"]})


def result() -> bytes:
    sequence = SampledSequence(stop_reason=1, tokens=bytes(4 * MAX_TOKENS), logprobs=bytes(4 * MAX_TOKENS))  # type: ignore[arg-type]
    return SampleResponse(sequences=[sequence]).SerializeToString()


def status(code: int, body: bytes = b'{"detail":"scripted"}', **headers: str) -> Answer:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Answer(str(code), code, body, headers=named)


def says(label: str, **body: Any) -> Answer:
    """An answer of JSON with status 200."""
    return Answer(label, body=msgspec.json.encode(body))


RESULT = Answer("result", body=result(), content_type=PROTOBUF)
RESET = Answer("reset", ending="reset")
SILENT = Answer("silent", ending="silent")
TRUNCATED = Answer("truncated", body=result(), content_type=PROTOBUF, ending="truncated")
EMPTY_400 = Answer("400 without a body", 400)
NOT_PROTOBUF = Answer("protobuf that is none", body=b"\xff" * 9, content_type=PROTOBUF)
HTML = Answer("HTML with 200", body=b"<html><body>It works!</body></html>", content_type="text/html")
TRY_AGAIN = says("try_again", type="try_again", request_id="future-0", queue_state="paused_capacity")
METADATA = says("complete_metadata", status="complete_metadata", response_payload_size=1000)
