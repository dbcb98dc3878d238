"""From the engine's JSON body straight to the bytes that clients are served: decoded once, encoded once.

Token ids and logprobs are read as buffers (pysimdjson), so that no Python object is made per token. Most of a vLLM
body is text, strings and dictionaries that no result needs, so the two arrays are first cut out, see ``_skim``; a body
that is not laid out as vLLM does it, or whose prompt logprobs are wanted, is parsed whole.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import simdjson

from server_under_test.http_answer import Body
from server_under_test.proto import SampledSequence, SampleResponse, StopReason, TopkLogprobs

TOKEN_ID = "token_id:"  # before the number, when vLLM is asked for return_tokens_as_token_ids
NO_LOGPROB = -99999.0  # of an empty cell, with token 0

_STOP_REASONS = {"stop": StopReason.STOP, "length": StopReason.LENGTH}

_parser = simdjson.Parser()
_NO_JSON = (ValueError, RuntimeError)  # what the parser raises, the second for integers of more than 64 bits


class BadBodyError(Exception):
    """The engine's body is no usable answer; the text is a sentence."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a result needs of one choice. token_ids and logprobs: int64 and float64 arrays of shape (n,)."""

    index: int
    finish_reason: object  # as it was sent
    token_ids: npt.NDArray[np.int64]
    logprobs: npt.NDArray[np.float64]
    topk: TopkLogprobs | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a result must hold. samples: choices asked for. max_tokens: of each at most, if that was said.

    prompt: the prompt's token ids when its logprobs were asked for, else None. topk, prompt_topk: likeliest tokens at
    each position of the samples and of the prompt, 0 for none.
    """

    samples: int
    max_tokens: int | None = None
    prompt: Sequence[int] | None = None
    prompt_logprobs: bool = False
    topk: int = 0
    prompt_topk: int = 0


def sample_response(body: Body, wanted: Wanted) -> bytes:
    """A serialized SampleResponse from the body of POST /v1/completions, of which nothing is kept.

    Raises BadBodyError.
    """
    prompt_logprobs: bytes | None = None
    prompt_topk: TopkLogprobs | None = None
    prompt, samples, max_tokens = wanted.prompt, wanted.samples, wanted.max_tokens
    choices = _skim(body, samples) if prompt is None and not wanted.topk else None
    if choices is None:
        documents = _choices(body)
        choices = [_choice(document, wanted.topk) for document in documents]
        if prompt is not None and documents:
            positions = _prompt_positions(documents[0], prompt)
            if wanted.prompt_logprobs:
                prompt_logprobs = _prompt_logprobs(positions, prompt)
            if wanted.prompt_topk:
                prompt_topk = _topk_prompt_logprobs(positions, wanted.prompt_topk)
    if sorted(choice.index for choice in choices) != list(range(samples)):
        found = ", ".join(str(choice.index) for choice in choices) or "none"
        raise BadBodyError(f"The engine should have sent {samples} choices with an index each, found: {found}.")
    sequences = [_sequence(choice, max_tokens) for choice in sorted(choices, key=lambda choice: choice.index)]
    return SampleResponse(
        sequences=sequences, prompt_logprobs=prompt_logprobs, topk_prompt_logprobs=prompt_topk
    ).SerializeToString()


def _sequence(choice: Choice, max_tokens: int | None) -> SampledSequence:
    count = len(choice.token_ids)
    if max_tokens is not None and count > max_tokens:
        raise BadBodyError(f"The engine sent {count} tokens where {max_tokens} were asked for.")
    if max_tokens is not None and count < max_tokens and choice.finish_reason == "length":
        raise BadBodyError(
            f"The engine sent {count} tokens and says that {max_tokens}, the length asked for, are full."
        )
    if len(choice.logprobs) != count:
        raise BadBodyError(f"The engine sent {count} tokens but {len(choice.logprobs)} logprobs.")
    if choice.topk is not None and choice.topk.length != count:
        raise BadBodyError(f"The engine sent {count} tokens but {choice.topk.length} top_logprobs.")
    if not isinstance(choice.finish_reason, str) or choice.finish_reason not in _STOP_REASONS:
        raise BadBodyError(f"The engine ended the generation with the reason {choice.finish_reason!r}.")
    tokens = choice.token_ids.astype("<i4")
    if (changed := tokens != choice.token_ids).any():
        raise BadBodyError(f"The engine sent the token id {choice.token_ids[changed][0]}, which is no int32.")
    with np.errstate(over="ignore"):  # what float32 can't hold is infinite
        logprobs = choice.logprobs.astype("<f4")
    return SampledSequence(
        stop_reason=_STOP_REASONS[choice.finish_reason],
        tokens=tokens.tobytes(),
        logprobs=logprobs.tobytes(),
        topk_sampled_logprobs=choice.topk,
    )


# The quick way


def _skim(body: Body, samples: int) -> list[Choice] | None:
    """The choices of a body that is laid out as vLLM does it, without parsing the rest of it; None for any other.

    A key is looked for by its bytes, quotes and colon included. That is safe in JSON: within a string, a quote is
    escaped, so that these bytes can be nothing but a key; and the arrays hold numbers and nulls only, so that the next
    bracket ends them. For a body of 2.7 MB and 32,768 tokens this takes half the time of parsing all of it.
    """
    try:
        choices, at = [], body.buffer.index(b'"choices":[', body.start, body.stop)
        for _ in range(samples):
            choice, at = _skim_choice(body, at)
            choices.append(choice)
        if body.buffer.find(b'"token_ids":[', at, body.stop) >= 0 or bytes(body.part(body.stop - 1, body.stop)) != b"}":
            return None
    except _NO_JSON:  # or a key is not where it should be
        return None
    return choices


def _skim_choice(body: Body, start: int) -> tuple[Choice, int]:
    """The choice after ``start``, and where it ends. Raises ValueError."""
    buffer, stop = body.buffer, body.stop
    at = buffer.index(b'"index":', start, stop) + len(b'"index":')
    index = int(buffer[at : buffer.index(b",", at, stop)])
    logprobs_start = buffer.index(b'"token_logprobs":[', at, stop) + len(b'"token_logprobs":')
    logprobs_stop = buffer.index(b"]", logprobs_start, stop) + 1
    ids_start = buffer.index(b'"token_ids":[', logprobs_stop, stop) + len(b'"token_ids":')
    ids_stop = buffer.index(b"]", ids_start, stop) + 1
    at = buffer.rindex(b'"finish_reason":', logprobs_stop, ids_start) + len(b'"finish_reason":')
    finish_reason = json.loads(buffer[at : buffer.index(b",", at, ids_start)])
    token_ids = _numbers(_parser.parse(body.part(ids_start, ids_stop)), np.int64, "token_ids")
    logprobs = _numbers(_parser.parse(body.part(logprobs_start, logprobs_stop)), np.float64, "token_logprobs")
    return Choice(index, finish_reason, token_ids, logprobs), ids_stop


# The thorough way


def _choices(body: Body) -> Sequence[Any]:
    try:
        document: Any = _parser.parse(body.whole())
    except _NO_JSON as error:
        document = _lenient(bytes(body.whole()), error)
    try:
        return document["choices"][:]  # type: ignore[no-any-return]  # objects, or simdjson's proxies for them
    except (KeyError, TypeError) as error:
        raise BadBodyError("The engine's answer has no choices.") from error


def _lenient(body: bytes, error: Exception) -> Any:
    """What Python's own parser makes of a body that is no JSON: it knows the NaN and Infinity that Python writes."""
    try:
        return json.loads(body)
    except ValueError:
        start = body[:80].decode("utf-8", "replace")
        raise BadBodyError(f"The engine's answer is not JSON ({error}): it begins with {start!r}.") from error


def _choice(document: Any, topk: int) -> Choice:
    index = _field(document, "index", 0)
    if not isinstance(index, int):
        raise BadBodyError("The engine sent a choice whose index is no whole number.")
    logprobs = _field(document, "logprobs")
    return Choice(
        index,
        _field(document, "finish_reason"),
        _numbers(_field(document, "token_ids"), np.int64, "token_ids"),
        _numbers(_field(logprobs, "token_logprobs"), np.float64, "token_logprobs"),
        _topk_sampled_logprobs(_field(logprobs, "top_logprobs"), topk) if topk else None,
    )


def _field(document: Any, name: str, default: Any = None) -> Any:
    try:
        return document[name]
    except (KeyError, TypeError):
        return default


def _numbers(array: Any, dtype: type, name: str) -> npt.NDArray[Any]:
    """A JSON array as a numpy array; a null is NaN among floats, and an error among integers."""
    if not isinstance(array, list | simdjson.Array):
        raise BadBodyError(f"The engine's answer has no {name}.")
    if isinstance(array, simdjson.Array):
        if len(array) == 0:
            return np.empty(0, dtype)
        try:
            return np.frombuffer(array.as_buffer(of_type="i" if dtype is np.int64 else "d"), dtype)
        except (TypeError, ValueError):
            array = array.as_list()
    allowed = {int} if dtype is np.int64 else {int, float, type(None)}  # numpy would take "5" and true for numbers
    try:
        if not allowed.issuperset(map(type, array)):
            raise TypeError("It holds something else.")
        return np.array([np.nan if number is None else number for number in array], dtype)
    except (TypeError, OverflowError) as error:
        raise BadBodyError(f"The engine's {name} are not all numbers.") from error


def _prompt_positions(document: Any, prompt: Sequence[int]) -> Sequence[Any]:
    """One entry a prompt token: None, or token id as text -> {"logprob", "rank"}."""
    positions = _field(document, "prompt_logprobs")
    found = len(positions) if isinstance(positions, list | simdjson.Array) else "none"
    if found != len(prompt):
        raise BadBodyError(f"The engine sent {found} prompt logprobs for {len(prompt)} prompt tokens.")
    return positions  # type: ignore[no-any-return]


def _prompt_logprobs(positions: Sequence[Any], prompt: Sequence[int]) -> bytes:
    """Each prompt token's logprob as float32, NaN where the engine gives none (the first position)."""
    try:
        values = [
            np.nan if entry is None else entry[str(token)]["logprob"]
            for entry, token in zip(positions, prompt, strict=True)
        ]
        return np.array(values, "<f4").tobytes()
    except (KeyError, TypeError, ValueError) as error:
        raise BadBodyError("The engine's prompt_logprobs lack a token of the prompt.") from error


def _topk_prompt_logprobs(positions: Sequence[Any], k: int) -> TopkLogprobs:
    try:
        rows = [
            []
            if entry is None
            else [(int(token), float(value["logprob"])) for token, value in entry.items() if value["rank"] <= k]
            for entry in positions
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadBodyError("The engine's prompt_logprobs are not tokens with their logprobs and ranks.") from error
    return _topk(rows, k)


def _topk_sampled_logprobs(positions: Any, k: int) -> TopkLogprobs:
    """From entries that are called by their token ids (return_tokens_as_token_ids)."""
    if not isinstance(positions, list | simdjson.Array):
        raise BadBodyError("The engine's answer has no top_logprobs.")
    entries: Sequence[Any] = positions  # objects, or simdjson's proxies for them
    try:
        rows = [
            [(int(name.removeprefix(TOKEN_ID)), float(value)) for name, value in entry.items()] if entry else []
            for entry in entries
        ]
    except (TypeError, ValueError, AttributeError) as error:
        raise BadBodyError("The engine's top_logprobs are not token ids with their logprobs.") from error
    return _topk(rows, k)


def _topk(rows: Sequence[list[tuple[int, float]]], k: int) -> TopkLogprobs:
    """Of each row the k likeliest, likelier ones first."""
    ids = np.zeros((len(rows), k), "<i4")
    logprobs = np.full((len(rows), k), NO_LOGPROB, "<f4")
    for at, row in enumerate(rows):
        row.sort(key=lambda entry: -entry[1])
        for column, (token, logprob) in enumerate(row[:k]):
            ids[at, column], logprobs[at, column] = token, logprob
    return TopkLogprobs(token_ids=ids.tobytes(), logprobs=logprobs.tobytes(), k=k, length=len(rows))
