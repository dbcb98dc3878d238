"""Bodies, read by parsers that know nothing of how they were made."""

from __future__ import annotations

import functools
import itertools
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types import Completion

from mockengine.bodies import Rendered, Renderer, prompt_logprobs_json
from mockengine.corpus import PROFILES, BodyProfile, Corpus, prompt_logprob, token_text
from mockengine.protocol import CompletionRequest

PROMPT = [5, 99_999, 0]


@functools.cache
def renderer(profile: BodyProfile) -> tuple[Corpus, Renderer]:
    corpus = Corpus(profile)
    return corpus, Renderer(corpus)


def rendered(profile: BodyProfile, request: CompletionRequest, seed: int) -> Rendered:
    _, made = renderer(profile)
    made.get_ready_for(request)
    return made.choices(request, seed)


def choices(profile: BodyProfile, seed: int, n: int, max_tokens: int, **fields: Any) -> list[dict[str, Any]]:
    fields = {"logprobs": 1, "return_token_ids": True, **fields}
    request = CompletionRequest(prompt=PROMPT, n=n, max_tokens=max_tokens, **fields)
    parsed: list[dict[str, Any]] = json.loads(b"[%b]" % b"".join(rendered(profile, request, seed).pieces))
    return parsed


def expected(profile: BodyProfile, seed: int, index: int, max_tokens: int) -> tuple[list[int], list[float]]:
    corpus, _ = renderer(profile)
    tokens = np.frombuffer(corpus.tokens(seed, index, max_tokens), "<i4").tolist()
    logprobs = np.frombuffer(corpus.logprobs(seed, index, max_tokens), "<f4").astype(float).tolist()
    return tokens, logprobs


seeds = st.integers(0, 2**28 - 1)
lengths = st.integers(1, 400)


@pytest.mark.parametrize("profile", PROFILES)
@settings(deadline=None)  # the first example renders the streams
@given(seed=seeds, n=st.integers(1, 5), max_tokens=lengths)
def test_every_choice_of_every_profile_is_the_corpus(profile: BodyProfile, seed: int, n: int, max_tokens: int) -> None:
    found = choices(profile, seed, n, max_tokens)
    assert [choice["index"] for choice in found] == list(range(n))
    for index, choice in enumerate(found):
        tokens, logprobs = expected(profile, seed, index, max_tokens)
        assert choice["token_ids"] == tokens
        assert choice["logprobs"]["token_logprobs"] == logprobs
        assert (choice["finish_reason"], choice["stop_reason"]) == ("length", None)


@settings(deadline=None)
@given(seeds, lengths)
def test_a_full_body_agrees_with_itself(seed: int, max_tokens: int) -> None:
    found = choices("full", seed, 2, max_tokens)[1]
    tokens, _ = expected("full", seed, 1, max_tokens)
    fields = found["logprobs"]
    assert fields["tokens"] == [token_text(token) for token in tokens]
    assert found["text"] == "".join(fields["tokens"])
    starts = [*fields["text_offset"], len(found["text"])]
    assert [found["text"][a:b] for a, b in itertools.pairwise(starts)] == fields["tokens"]
    assert found["prompt_token_ids"] == PROMPT
    assert len(fields["top_logprobs"]) == len(tokens)


@pytest.mark.parametrize("k", [0, 1, 2, 20])
def test_top_logprobs_have_the_sampled_token_first_and_then_the_k_likeliest(k: int) -> None:
    sizes = set()
    (found,) = choices("full", 3, 1, 400, logprobs=k)
    fields = found["logprobs"]
    for text, logprob, top in zip(fields["tokens"], fields["token_logprobs"], fields["top_logprobs"], strict=True):
        first, *others = top.items()
        assert first == (text, logprob)
        likelier = [value for _, value in others if value > logprob]
        assert len(top) == (max(k, 1) if len(likelier) < max(k, 1) else k + 1)  # one more when it is not among the k
        assert [value for _, value in others] == sorted((value for _, value in others), reverse=True)
        sizes.add(len(top))
    assert sizes == {max(k, 1), k + 1} if k else {1}


def test_a_stop_ends_a_choice_early_and_every_array_with_it() -> None:
    (whole,) = choices("full", 5, 1, 40)
    for at in (0, 19, 20, 39):  # the seam of the two slices is at 20
        token, text = whole["token_ids"][at], whole["logprobs"]["tokens"][at]
        (by_id,) = choices("full", 5, 1, 40, stop_token_ids=[token])
        assert (by_id["finish_reason"], by_id["stop_reason"]) == ("stop", token)
        assert by_id["text"] == whole["text"][: 4 * at]
        (by_string,) = choices("full", 5, 1, 40, stop=["never", text[2:]])
        assert (by_string["finish_reason"], by_string["stop_reason"]) == ("stop", text[2:])
        assert by_string["text"] == whole["text"][: 4 * at + 2]
        (included,) = choices("full", 5, 1, 40, stop=text, include_stop_str_in_output=True)
        assert included["text"] == whole["text"][: 4 * at + 4]
        for found in (by_id, by_string, included):
            assert found["token_ids"] == whole["token_ids"][: at + 1]
            for name, array in found["logprobs"].items():
                assert array == whole["logprobs"][name][: at + 1]
    assert choices("full", 5, 1, 40, stop=["never"], stop_token_ids=[]) == [whole]


def test_choices_stop_each_for_itself_and_all_their_tokens_are_counted() -> None:
    first, second = choices("lean", 5, 2, 30)
    request = CompletionRequest(
        prompt=PROMPT, n=2, max_tokens=30, return_token_ids=True, stop_token_ids=[first["token_ids"][9]]
    )
    found = rendered("lean", request, 5)
    assert (found.tokens, found.finish_reason) == (10 + 30, "length")
    both = CompletionRequest(
        prompt=PROMPT, n=2, max_tokens=30, stop_token_ids=[first["token_ids"][9], second["token_ids"][0]]
    )
    assert rendered("lean", both, 5)[1:] == (10 + 1, "stop")


@pytest.mark.parametrize("profile", PROFILES)
def test_what_was_not_asked_for_is_null(profile: BodyProfile) -> None:
    (neither,) = choices(profile, 1, 1, 20, logprobs=None, return_token_ids=False)
    assert (neither["logprobs"], neither["token_ids"], neither["prompt_token_ids"]) == (None, None, None)
    assert neither["prompt_logprobs"] is None
    (prompt_only,) = choices(profile, 1, 1, 20, logprobs=None, return_token_ids=False, prompt_logprobs=0)
    assert prompt_only["prompt_logprobs"] == json.loads(prompt_logprobs_json(PROMPT, 0))


def test_bytes_a_token_are_those_of_the_profiles_description() -> None:
    sizes = {}
    for profile in PROFILES:
        request = CompletionRequest(prompt=PROMPT, max_tokens=32_768, logprobs=1, return_token_ids=True)
        sizes[profile] = sum(map(len, rendered(profile, request, 7).pieces)) / 32_768
    assert sizes["seed-equivalent"] == pytest.approx(10.9, abs=0.1)
    assert sizes["lean"] == pytest.approx(26, abs=0.5)
    assert 75 <= sizes["full"] <= 93


@pytest.mark.parametrize("profile", PROFILES)
def test_a_published_client_reads_the_choices(profile: BodyProfile) -> None:
    body = {"id": "x", "object": "text_completion", "created": 1, "model": "mock"}
    asked = {"logprobs": 5, "prompt_logprobs": 5}
    parsed = Completion.model_validate({**body, "choices": choices(profile, 1, 3, 50, **asked)}, strict=True)
    for index, choice in enumerate(parsed.choices):
        assert choice.logprobs is not None
        assert choice.logprobs.token_logprobs == expected(profile, 1, index, 50)[1]


@given(st.lists(st.integers(0, 99_999), min_size=1, max_size=30), st.integers(0, 5))
def test_prompt_logprobs_have_the_prompts_token_and_the_k_likeliest(prompt: list[int], k: int) -> None:
    positions = json.loads(prompt_logprobs_json(prompt, k))
    assert positions[0] is None
    assert len(positions) == len(prompt)
    for token, entries in zip(prompt[1:], positions[1:], strict=True):
        own = entries[str(token)]
        assert own["logprob"] == prompt_logprob(token)
        assert own["decoded_token"] == token_text(token)
        assert len(entries) == (k if own["rank"] <= k else k + 1)
        ranks = sorted(entry["rank"] for entry in entries.values())
        assert ranks == sorted({*range(1, k + 1), own["rank"]})
        by_rank = sorted(entries.values(), key=lambda entry: entry["rank"])
        assert all(a["logprob"] >= b["logprob"] for a, b in itertools.pairwise(by_rank))
        assert all(math.isfinite(entry["logprob"]) and entry["logprob"] < 0 for entry in entries.values())
