"""From the engine's JSON body straight to the bytes that clients are served: decoded once, encoded once.

Token ids and logprobs are read as buffers, so that no Python object is made per token; only a body that a buffer can't
hold (nulls among the logprobs, or the NaN and Infinity that Python servers write though JSON has none) is read the slow
way.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import simdjson

from server_under_test.proto import SampledSequence, SampleResponse, StopReason

_STOP_REASONS = {"stop": StopReason.STOP, "length": StopReason.LENGTH}

_parser = simdjson.Parser()


class BadBodyError(Exception):
    """The engine's body is no usable answer; the text is a sentence."""


def sample_response(body: bytes, samples: int, max_tokens: int | None, prompt: Sequence[int] | None) -> bytes:
    """A serialized SampleResponse from the body of POST /v1/completions.

    samples: how many choices were asked for. max_tokens: how many tokens a choice may have, if that was said.
    prompt: the prompt's token ids when its logprobs were asked for, else None. Raises BadBodyError.
    """
    choices = _choices(body)
    if len(choices) != samples:
        raise BadBodyError(f"The engine sent {len(choices)} choices where {samples} were asked for.")
    by_index: dict[int, Any] = {}
    for choice in choices:
        by_index[_field(choice, "index", 0)] = choice
    if sorted(by_index) != list(range(samples)):
        raise BadBodyError(f"The engine's {samples} choices have the indices {sorted(by_index)}.")
    response = SampleResponse(sequences=[_sequence(by_index[index], max_tokens) for index in range(samples)])
    if prompt is not None:
        response.prompt_logprobs = _prompt_logprobs(by_index[0], prompt)
    return response.SerializeToString()


def _choices(body: bytes) -> Sequence[Any]:
    try:
        document: Any = _parser.parse(body)
    except (ValueError, UnicodeDecodeError) as error:
        document = _lenient(body, error)
    try:
        choices = document["choices"]
        len(choices)
    except (KeyError, TypeError) as error:
        raise BadBodyError("The engine's answer has no choices.") from error
    return choices  # type: ignore[no-any-return]  # a list, or simdjson's untyped array


def _lenient(body: bytes, error: Exception) -> Any:
    """What Python's own parser makes of a body that is no JSON: it knows NaN and Infinity."""
    try:
        return json.loads(body)
    except ValueError:
        start = body[:80].decode("utf-8", "replace")
        raise BadBodyError(f"The engine's answer is not JSON ({error}): it begins with {start!r}.") from error


def _field(choice: Any, name: str, default: Any) -> Any:
    try:
        return choice[name]
    except KeyError:
        return default


def _sequence(choice: Any, max_tokens: int | None) -> SampledSequence:
    tokens = _numbers(_field(choice, "token_ids", None), np.int64, "token_ids")
    if max_tokens is not None and len(tokens) > max_tokens:
        raise BadBodyError(f"The engine sent {len(tokens)} tokens where {max_tokens} were asked for.")
    logprobs_of_all_kinds = _field(choice, "logprobs", None) or {}
    logprobs = _numbers(_field(logprobs_of_all_kinds, "token_logprobs", None), np.float64, "logprobs")
    if len(logprobs) != len(tokens):
        raise BadBodyError(f"The engine sent {len(tokens)} tokens but {len(logprobs)} logprobs.")
    finish_reason = _field(choice, "finish_reason", None)
    if finish_reason not in _STOP_REASONS:
        raise BadBodyError(f"The engine ended the generation with the reason {finish_reason!r}.")
    return SampledSequence(
        stop_reason=_STOP_REASONS[finish_reason],
        tokens=tokens.astype("<i4").tobytes(),
        logprobs=logprobs.astype("<f4").tobytes(),
    )


def _numbers(array: Any, dtype: type, name: str) -> npt.NDArray[Any]:
    """A JSON array as a numpy array; a null is NaN among floats, and an error among integers."""
    if array is None:
        raise BadBodyError(f"The engine's answer has no {name}.")
    if isinstance(array, simdjson.Array):
        if len(array) == 0:
            return np.empty(0, dtype)
        try:
            return np.frombuffer(array.as_buffer(of_type="i" if dtype is np.int64 else "d"), dtype)
        except (TypeError, ValueError):
            array = array.as_list()
    try:
        return np.array(array if dtype is np.int64 else [np.nan if x is None else x for x in array], dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadBodyError(f"The engine's {name} are not all numbers.") from error


def _prompt_logprobs(choice: Any, prompt: Sequence[int]) -> bytes:
    """Each prompt token's logprob as float32, NaN where the engine gives none (the first position)."""
    positions = _field(choice, "prompt_logprobs", None)
    if positions is None or len(positions) != len(prompt):
        found = "none" if positions is None else len(positions)
        raise BadBodyError(f"The engine sent {found} prompt logprobs for {len(prompt)} prompt tokens.")
    try:
        values = [
            np.nan if entry is None else entry[str(token)]["logprob"]
            for entry, token in zip(positions, prompt, strict=True)
        ]
    except (KeyError, TypeError) as error:
        raise BadBodyError("The engine's prompt_logprobs lack a token of the prompt.") from error
    return np.array(values, "<f4").tobytes()
