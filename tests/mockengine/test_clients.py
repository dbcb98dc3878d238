"""The engine as a published client sees it, and the fields that vLLM's own response models declare."""

from __future__ import annotations

import itertools
import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy as np
import openai
import pytest

from mockengine import RunningEngine, running
from mockengine.corpus import Corpus

# In their order: CompletionResponse, CompletionResponseChoice, CompletionLogProbs, UsageInfo and Logprob of vLLM 0.11
# (vllm/entrypoints/openai/protocol.py, vllm/logprobs.py).
RESPONSE = [
    *("id", "object", "created", "model", "choices", "service_tier", "system_fingerprint", "usage"),
    "kv_transfer_params",
]
CHOICE = [
    *("index", "text", "logprobs", "finish_reason", "stop_reason", "token_ids", "prompt_logprobs"),
    "prompt_token_ids",
]
LOGPROBS = ["text_offset", "token_logprobs", "tokens", "top_logprobs"]
USAGE = ["prompt_tokens", "total_tokens", "completion_tokens", "prompt_tokens_details"]
LOGPROB = ["logprob", "rank", "decoded_token"]


@pytest.fixture(scope="module")
def engine() -> Iterator[RunningEngine]:
    with running(service_time="fixed:0s", model=["base", "adapter"]) as engine:
        yield engine


def post(engine: RunningEngine, **fields: object) -> Any:
    body = json.dumps({"prompt": [5, 6, 7], "max_tokens": 30, "seed": 1, **fields}).encode()
    with urllib.request.urlopen(f"{engine.url}/v1/completions", body, timeout=30) as answer:
        return json.load(answer)


def test_every_field_that_vllm_declares_is_sent_in_its_order(engine: RunningEngine) -> None:
    body = post(engine, n=2, logprobs=3, prompt_logprobs=2, return_token_ids=True)
    assert list(body) == RESPONSE
    assert list(body["usage"]) == USAGE
    assert body["usage"]["total_tokens"] == body["usage"]["prompt_tokens"] + body["usage"]["completion_tokens"] == 63
    for choice in body["choices"]:
        assert list(choice) == CHOICE
        assert list(choice["logprobs"]) == LOGPROBS
        assert choice["prompt_token_ids"] == [5, 6, 7]
        assert choice["prompt_logprobs"] == body["choices"][0]["prompt_logprobs"]
        first, *others = choice["prompt_logprobs"]
        assert first is None
        assert all(list(entry) == LOGPROB for position in others for entry in position.values())


def test_the_openai_client_reads_everything_it_knows(engine: RunningEngine) -> None:
    with openai.OpenAI(base_url=f"{engine.url}/v1", api_key="none", max_retries=0) as client:
        assert [model.id for model in client.models.list()] == ["base", "adapter"]
        extra = {"return_token_ids": True, "prompt_logprobs": 1}
        found = client.completions.create(
            model="adapter", prompt=[5, 6, 7], max_tokens=30, n=2, logprobs=4, seed=1, extra_body=extra
        )
        again = type(found).model_validate(found.model_dump(), strict=True)
        assert again == found
        assert (found.model, found.object) == ("adapter", "text_completion")
        assert found.usage is not None
        assert found.usage.completion_tokens == 60
        for index, choice in enumerate(found.choices):
            logprobs = choice.logprobs
            assert logprobs is not None
            assert logprobs.tokens is not None
            assert logprobs.token_logprobs is not None
            assert logprobs.top_logprobs is not None
            assert logprobs.text_offset is not None
            assert choice.text == "".join(logprobs.tokens)
            ends = itertools.accumulate(map(len, logprobs.tokens))
            assert logprobs.text_offset == [0, *ends][:-1]
            for token, logprob, top in zip(
                logprobs.tokens, logprobs.token_logprobs, logprobs.top_logprobs, strict=True
            ):
                assert top[token] == logprob
                assert len(top) in (4, 5)
            assert choice.model_extra is not None
            ids = np.array(choice.model_extra["token_ids"], "<i4")
            assert ids.tobytes() == Corpus("full").tokens(1, index, 30)


def test_the_openai_client_meets_errors_as_those_of_vllm(engine: RunningEngine) -> None:
    with openai.OpenAI(base_url=f"{engine.url}/v1", api_key="none", max_retries=0) as client:
        with pytest.raises(openai.NotFoundError, match="does not exist"):
            client.completions.create(model="other", prompt="x")
        with pytest.raises(openai.BadRequestError, match="does not stream"):
            client.completions.create(model="base", prompt="x", stream=True)
        engine.set_faults([{"kind": "http_429", "first": 1, "model": "adapter"}])
        assert client.completions.create(model="base", prompt="x").choices
        with pytest.raises(openai.RateLimitError) as caught:
            client.completions.create(model="adapter", prompt="x")
        assert caught.value.response.headers["retry-after"] == "1"
        with client.with_options(max_retries=2) as patient:
            engine.set_faults([{"kind": "http_503", "first": 1, "retry_after": "0s"}])
            assert patient.completions.create(model="base", prompt="x").choices
    assert engine.injected() == {"http_429": 1, "http_503": 1}


def test_stops_are_told_to_the_client(engine: RunningEngine) -> None:
    whole = post(engine, return_token_ids=True)["choices"][0]
    body = post(engine, stop=[whole["text"][50:55]], return_token_ids=True)
    (choice,) = body["choices"]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("stop", whole["text"][50:55])
    assert choice["text"] == whole["text"][: whole["text"].index(whole["text"][50:55])]
    assert body["usage"]["completion_tokens"] == len(choice["token_ids"]) == 14
    assert engine.metrics()["vllm:request_success_total"] > 0
