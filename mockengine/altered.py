"""Answers that are well-formed HTTP and JSON and yet not what was asked for: the faults within a body."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

Document = dict[str, Any]


def altered_body(kind: str, parameters: Mapping[str, Any], body: bytes) -> bytes:
    """The answer with one of ALTERATIONS made to it. NaN and Infinity are written as Python's own encoder does."""
    document = json.loads(body)
    ALTERATIONS[kind](document, parameters)
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def _logprobs(document: Document) -> Document:
    """The first choice's logprobs; empty ones that go nowhere when none were asked for."""
    return document["choices"][0]["logprobs"] or {"token_logprobs": []}


def _put_logprobs(value: float | None) -> Callable[[Document, Mapping[str, Any]], None]:
    def put(document: Document, parameters: Mapping[str, Any]) -> None:
        numbers = _logprobs(document)["token_logprobs"]
        for position in {0, len(numbers) // 2} if numbers else ():
            numbers[position] = value

    return put


def _missing(document: Document, parameters: Mapping[str, Any]) -> None:
    document["choices"][0]["logprobs"] = None


def _empty(document: Document, parameters: Mapping[str, Any]) -> None:
    logprobs = _logprobs(document)
    for name in logprobs:
        logprobs[name] = []


def _token_count(document: Document, parameters: Mapping[str, Any]) -> None:
    """``by`` tokens more, repeats of the last, or fewer; the arrays agree with each other, usage stays."""
    by = parameters["by"]
    choice = document["choices"][0]
    for holder, name in ((choice, "token_ids"), *((_logprobs(document), name) for name in _logprobs(document))):
        array = holder[name] or []
        holder[name] = array[:by] if by < 0 else array + array[-1:] * by


def _duplicate(document: Document, parameters: Mapping[str, Any]) -> None:
    document["choices"].append(document["choices"][0])


def _reorder(document: Document, parameters: Mapping[str, Any]) -> None:
    document["choices"].reverse()


def _finish_reason(document: Document, parameters: Mapping[str, Any]) -> None:
    document["choices"][0]["finish_reason"] = parameters["value"]


ALTERATIONS: dict[str, Callable[[Document, Mapping[str, Any]], None]] = {
    "null_logprobs": _put_logprobs(None),
    "nan_logprobs": _put_logprobs(float("nan")),
    "infinite_logprobs": _put_logprobs(float("-inf")),
    "missing_logprobs": _missing,
    "empty_logprobs": _empty,
    "token_count": _token_count,
    "duplicate_choice": _duplicate,
    "reordered_choices": _reorder,
    "finish_reason": _finish_reason,
}
