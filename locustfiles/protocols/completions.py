"""Completions as vLLM takes and gives them, ids and logprobs only: the work of every protocol but Tinker's."""

from __future__ import annotations

import functools

import msgspec
import numpy as np

from server_under_test.proto import SampledSequence, SampleResponse, StopReason

PATH = "/v1/completions"

# Prompt token ids are drawn from a vocabulary of this size, as the mock engine's answers are.
VOCABULARY = 100_000

STOP_REASONS = {"length": StopReason.LENGTH, "stop": StopReason.STOP}


class _Logprobs(msgspec.Struct, frozen=True):
    token_logprobs: list[float]


class _Choice(msgspec.Struct, frozen=True):
    finish_reason: str
    token_ids: list[int]
    logprobs: _Logprobs | None = None


class _Completion(msgspec.Struct, frozen=True):
    choices: list[_Choice]


_completion = msgspec.json.Decoder(_Completion)


@functools.cache
def prompt(tokens: int) -> bytes:
    """A JSON list of ``tokens`` token ids: one pseudo-random prompt per length, since its text is of no account."""
    ids = np.random.default_rng(tokens).integers(0, VOCABULARY, size=tokens)
    return msgspec.json.encode(ids.tolist())


def request(model: str, seed: int, prompt_tokens: int, max_tokens: int) -> bytes:
    """The body of a request for one completion."""
    return (
        b'{"model":%b,"prompt":%b,"max_tokens":%d,"seed":%d,"temperature":1.0,"logprobs":1,"return_token_ids":true}'
    ) % (msgspec.json.encode(model), prompt(prompt_tokens), max_tokens, seed)


def sample(completion: bytes) -> SampleResponse:
    """A completion's choices, as the Tinker protocol has them. Raises ValueError for what is no completion."""
    try:
        choices = _completion.decode(completion).choices
    except msgspec.MsgspecError as error:
        raise ValueError(f"not a completion: {error}") from error
    return SampleResponse(sequences=[_sequence(choice) for choice in choices])


def _sequence(choice: _Choice) -> SampledSequence:
    if choice.finish_reason not in STOP_REASONS:
        raise ValueError(f"finish_reason {choice.finish_reason[:50]!r}")
    try:
        tokens = np.array(choice.token_ids, "<i4").tobytes()
    except OverflowError as error:
        raise ValueError("a token id above 32 bits") from error
    sequence = SampledSequence(stop_reason=STOP_REASONS[choice.finish_reason], tokens=tokens)
    if choice.logprobs is not None:
        sequence.logprobs = np.array(choice.logprobs.token_logprobs, "<f4").tobytes()
    return sequence
