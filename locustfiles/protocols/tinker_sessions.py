"""What the sampling path of a Tinker-style API adds for clients that poll a session: retrieve_futures."""

from __future__ import annotations

from typing import Any

import msgspec

from locustfiles.polling import Kind, Seen
from locustfiles.protocols import tinker
from locustfiles.session_polling import Answer, Completion, Request

RETRIEVE_FUTURES = tinker.PREFIX + "retrieve_futures"
HEADERS = {"Accept": "application/json"}


class _Completion(msgspec.Struct, frozen=True):
    state: str
    request_id: str
    response_payload_uncompressed_size: int | None = None


class _Answer(msgspec.Struct, frozen=True):
    completions: list[_Completion]
    cursor: int


_answer = msgspec.json.Decoder(_Answer)


def retrieve_futures_body(sampling_session_id: str, request: Request) -> bytes:
    target = {"type": "sampling_session", "sampling_session_id": sampling_session_id, "cloned_sampler_id": 0}
    body: dict[str, Any] = {
        "target": target,
        "prev_cursor": request.prev_cursor,
        "retrieved_request_ids": request.retrieved,
    }
    if not request.held:
        body["timeout"] = 0
    return msgspec.json.encode(body)


def answer_in(status: int, body: bytes) -> Answer | Seen:
    """The answer to a poll, or what came instead."""
    if status != 200:
        return Seen(Kind.STATUS, status, tinker.excerpt(body))
    try:
        answer = _answer.decode(body)
    except msgspec.MsgspecError as error:
        return Seen(Kind.NOT_A_RESULT, status, f"{error}: {tinker.excerpt(body)}")
    completions = [
        Completion(end.request_id, end.response_payload_uncompressed_size or 0) for end in answer.completions
    ]
    return Answer(completions, answer.cursor)
