"""The likeliest tokens at each position, from the engine's own answer to what a client of the server gets."""

from __future__ import annotations

import json
import urllib.request
from typing import Any

import numpy as np

from mockengine import running
from tests.server_under_test.client import sample_request, server

PROMPT, TOKENS, SAMPLES, K, PROMPT_K = [5, 6, 7, 8], 60, 2, 3, 2


def test_topk_logprobs_of_samples_and_prompt_are_the_engines() -> None:
    with running(service_time="fixed:0s") as engine, server(engine.url) as client:
        asked = {"n": SAMPLES, "max_tokens": TOKENS, "seed": 3, "logprobs": K, "prompt_logprobs": PROMPT_K}
        body = json.dumps({"prompt": PROMPT, "return_tokens_as_token_ids": True, **asked}).encode()
        with urllib.request.urlopen(f"{engine.url}/v1/completions", body) as answer:
            choices = json.load(answer)["choices"]
        request_id = client.submit(
            **sample_request(
                prompt={"chunks": [{"type": "encoded_text", "tokens": PROMPT}]},
                sampling_params={"max_tokens": TOKENS, "seed": 3},
                base_model="mock",
                num_samples=SAMPLES,
                topk_sample_logprobs=K,
                topk_prompt_logprobs=PROMPT_K,
            )
        )
        result = client.retrieve(request_id)[1]
    for choice, sequence in zip(choices, result.sequences, strict=True):
        found = cells(sequence.topk_sampled_logprobs)
        for tops, row in zip(choice["logprobs"]["top_logprobs"], found, strict=True):
            best = sorted(tops.items(), key=lambda item: -item[1])[:K]
            assert row == [(int(name.removeprefix("token_id:")), np.float32(value)) for name, value in best]
    assert not result.HasField("prompt_logprobs")
    first, *others = cells(result.topk_prompt_logprobs)
    assert first == [(0, np.float32(-99999.0))] * PROMPT_K
    for position, row in zip(choices[0]["prompt_logprobs"][1:], others, strict=True):
        by_rank = sorted(position.items(), key=lambda item: item[1]["rank"])[:PROMPT_K]
        assert row == [(int(token), np.float32(entry["logprob"])) for token, entry in by_rank]


def cells(topk: Any) -> list[list[tuple[int, np.float32]]]:
    shape = (topk.length, topk.k)
    ids = np.frombuffer(topk.token_ids, "<i4").reshape(shape)
    logprobs = np.frombuffer(topk.logprobs, "<f4").reshape(shape)
    return [list(zip(row.tolist(), values, strict=True)) for row, values in zip(ids, logprobs, strict=True)]
