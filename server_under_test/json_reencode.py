"""The result path that proto-once replaced, kept to be compared with: JSON is stored, and encoded at every retrieval.

It is written as such code is: the body is decoded by the standard library, validated by a model, and stored as JSON
text. A retrieval decodes that text again and builds the protobuf message from lists of Python objects, in a thread,
under one lock for the whole process.
"""

from __future__ import annotations

import asyncio
import json
import math
import threading
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from server_under_test.decode import NO_LOGPROB, TOKEN_ID, BadBodyError, Wanted
from server_under_test.http_answer import Body
from server_under_test.proto import SampledSequence, SampleResponse, TopkLogprobs
from server_under_test.results_json import sample_response_json

TokenId = Annotated[int, Field(strict=True, ge=-(2**31), lt=2**31)]
Number = Annotated[float, Field(strict=True)]


class _Logprob(BaseModel):
    logprob: Number
    rank: int


class _Logprobs(BaseModel):
    token_logprobs: list[Number | None]
    top_logprobs: list[dict[str, Number] | None] | None = None


class _Choice(BaseModel):
    index: Annotated[int, Field(strict=True)] = 0
    finish_reason: Literal["stop", "length"]
    token_ids: list[TokenId]
    logprobs: _Logprobs
    prompt_logprobs: list[dict[str, _Logprob] | None] | None = None


class _Completion(BaseModel):
    choices: list[_Choice]


class _Stored(BaseModel):
    model_config = ConfigDict(ser_json_inf_nan="constants")


class _Topk(_Stored):
    k: int
    token_ids: list[list[int]]
    logprobs: list[list[float]]


class _Sequence(_Stored):
    stop_reason: Literal["stop", "length"]
    tokens: list[int]
    logprobs: list[float]
    topk: _Topk | None = None


class _Sample(_Stored):
    sequences: list[_Sequence]
    prompt_logprobs: list[float] | None = None
    topk_prompt_logprobs: _Topk | None = None


class JsonReencode:
    def __init__(self) -> None:
        self._lock = threading.Lock()

    def keep(self, body: Body, wanted: Wanted) -> bytes:
        try:
            completion = _Completion.model_validate(json.loads(bytes(body.whole())))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))
            raise BadBodyError(f"The engine's answer is not a completion: {where}: {first['msg']}.") from error
        except ValueError as error:
            start = bytes(body.whole()[:80]).decode("utf-8", "replace")
            raise BadBodyError(f"The engine's answer is not JSON ({error}): it begins with {start!r}.") from error
        return _sample(completion, wanted).model_dump_json(exclude_none=True).encode()

    async def protobuf(self, kept: bytes) -> bytes:
        return await asyncio.to_thread(self._build, kept)

    async def json(self, kept: bytes) -> bytes:
        return sample_response_json(await self.protobuf(kept))

    def _build(self, kept: bytes) -> bytes:
        with self._lock:
            sample = json.loads(kept)
            response = SampleResponse()
            for sequence in sample["sequences"]:
                response.sequences.append(
                    SampledSequence(
                        stop_reason=sequence["stop_reason"].upper(),
                        tokens=np.array(sequence["tokens"], "<i4").tobytes(),
                        logprobs=_float32s(sequence["logprobs"]),
                        topk_sampled_logprobs=_topk_message(sequence.get("topk")),
                    )
                )
            if "prompt_logprobs" in sample:
                response.prompt_logprobs = _float32s(sample["prompt_logprobs"])
            if (topk := _topk_message(sample.get("topk_prompt_logprobs"))) is not None:
                response.topk_prompt_logprobs.CopyFrom(topk)
            return response.SerializeToString()


def _sample(completion: _Completion, wanted: Wanted) -> _Sample:
    choices = sorted(completion.choices, key=lambda choice: choice.index)
    if [choice.index for choice in choices] != list(range(wanted.samples)):
        found = ", ".join(str(choice.index) for choice in completion.choices) or "none"
        raise BadBodyError(f"The engine should have sent {wanted.samples} choices with an index each, found: {found}.")
    sample = _Sample(sequences=[_sequence(choice, wanted) for choice in choices])
    if wanted.prompt is not None:
        positions = completion.choices[0].prompt_logprobs
        if positions is None or len(positions) != len(wanted.prompt):
            found = "none" if positions is None else str(len(positions))
            raise BadBodyError(f"The engine sent {found} prompt logprobs for {len(wanted.prompt)} prompt tokens.")
        if wanted.prompt_logprobs:
            sample.prompt_logprobs = _prompt_logprobs(positions, wanted.prompt)
        if k := wanted.prompt_topk:
            entries = [(position or {}).items() for position in positions]
            rows = [[(token, entry.logprob) for token, entry in row if entry.rank <= k] for row in entries]
            sample.topk_prompt_logprobs = _topk(rows, k)
    return sample


def _sequence(choice: _Choice, wanted: Wanted) -> _Sequence:
    count, most = len(choice.token_ids), wanted.max_tokens
    if most is not None and (count > most or (count < most and choice.finish_reason == "length")):
        raise BadBodyError(f"The engine sent {count} tokens where {most} were asked for.")
    if len(choice.logprobs.token_logprobs) != count:
        raise BadBodyError(f"The engine sent {count} tokens but {len(choice.logprobs.token_logprobs)} logprobs.")
    topk = None
    if wanted.topk:
        if choice.logprobs.top_logprobs is None:
            raise BadBodyError("The engine's answer has no top_logprobs.")
        if len(choice.logprobs.top_logprobs) != count:
            raise BadBodyError(f"The engine sent {count} tokens but {len(choice.logprobs.top_logprobs)} top_logprobs.")
        rows = [
            [(name.removeprefix(TOKEN_ID), value) for name, value in (position or {}).items()]
            for position in choice.logprobs.top_logprobs
        ]
        topk = _topk(rows, wanted.topk)
    logprobs = [math.nan if logprob is None else logprob for logprob in choice.logprobs.token_logprobs]
    return _Sequence(stop_reason=choice.finish_reason, tokens=choice.token_ids, logprobs=logprobs, topk=topk)


def _prompt_logprobs(positions: list[dict[str, _Logprob] | None], prompt: Any) -> list[float]:
    try:
        return [
            math.nan if position is None else position[str(token)].logprob
            for position, token in zip(positions, prompt, strict=True)
        ]
    except KeyError as error:
        raise BadBodyError("The engine's prompt_logprobs lack a token of the prompt.") from error


def _topk(rows: list[list[tuple[str, float]]], k: int) -> _Topk:
    """Of each row the k likeliest, likelier ones first; empty cells are token 0."""
    filled = [sorted(row, key=lambda entry: -entry[1])[:k] + [("0", NO_LOGPROB)] * (k - len(row)) for row in rows]
    try:
        ids = [[int(token) for token, _ in row] for row in filled]
    except ValueError as error:
        raise BadBodyError("The engine's top_logprobs are not token ids with their logprobs.") from error
    return _Topk(k=k, token_ids=ids, logprobs=[[logprob for _, logprob in row] for row in filled])


def _topk_message(topk: dict[str, Any] | None) -> TopkLogprobs | None:
    if topk is None:
        return None
    ids = np.array(topk["token_ids"], "<i4").tobytes()
    length = len(topk["token_ids"])
    return TopkLogprobs(token_ids=ids, logprobs=_float32s(topk["logprobs"]), k=topk["k"], length=length)


def _float32s(numbers: Any) -> bytes:
    with np.errstate(over="ignore"):  # what float32 can't hold is infinite
        return np.array(numbers, float).astype("<f4").tobytes()
