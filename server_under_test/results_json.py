"""The JSON form of a result, for clients from before the protobuf one: made from the stored bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson

from server_under_test.decode import NO_LOGPROB
from server_under_test.proto import SampledSequence, SampleResponse, StopReason, TopkLogprobs


def sample_response_json(result: bytes) -> bytes:
    """A serialized SampleResponse as the JSON object that SDKs up to 0.17 read; NaN is null."""
    response = SampleResponse.FromString(result)
    document: dict[str, Any] = {"type": "sample", "sequences": [_sequence(one) for one in response.sequences]}
    if response.HasField("prompt_logprobs"):
        document["prompt_logprobs"] = np.frombuffer(response.prompt_logprobs, "<f4")
    if response.HasField("topk_prompt_logprobs"):
        document["topk_prompt_logprobs"] = _positions(response.topk_prompt_logprobs)
    return orjson.dumps(document, option=orjson.OPT_SERIALIZE_NUMPY)


def _sequence(sequence: SampledSequence) -> dict[str, Any]:
    return {
        "stop_reason": StopReason.Name(sequence.stop_reason).lower(),
        "tokens": np.frombuffer(sequence.tokens, "<i4"),
        "logprobs": np.frombuffer(sequence.logprobs, "<f4") if sequence.HasField("logprobs") else None,
    }


def _positions(topk: TopkLogprobs) -> list[list[tuple[int, np.float32]] | None]:
    """For each position its pairs of token id and logprob without the empty cells, or None when it has no other."""
    shape = (topk.length, topk.k)
    ids = np.frombuffer(topk.token_ids, "<i4").reshape(shape).tolist()
    logprobs = np.frombuffer(topk.logprobs, "<f4").reshape(shape)
    return [
        [(token, logprob) for token, logprob in zip(*row, strict=True) if logprob != NO_LOGPROB] or None
        for row in zip(ids, logprobs, strict=True)
    ]
