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

from mockengine.bodies import Renderer, prompt_logprobs_json
from mockengine.corpus import PROFILES, BodyProfile, Corpus, prompt_logprob, token_text

PROMPT = [5, 99_999, 0]


@functools.cache
def renderer(profile: BodyProfile) -> tuple[Corpus, Renderer]:
    corpus = Corpus(profile)
    return corpus, Renderer(corpus)


def choice(profile: BodyProfile, seed: int, index: int, max_tokens: int) -> dict[str, Any]:
    pieces = renderer(profile)[1].choice(seed, index, max_tokens, json.dumps(PROMPT).encode(), b"null")
    parsed: dict[str, Any] = json.loads(b"".join(pieces))
    return parsed


def expected(profile: BodyProfile, seed: int, index: int, max_tokens: int) -> tuple[list[int], list[float]]:
    corpus, _ = renderer(profile)
    tokens = np.frombuffer(corpus.tokens(seed, index, max_tokens), "<i4").tolist()
    logprobs = np.frombuffer(corpus.logprobs(seed, index, max_tokens), "<f4").astype(float).tolist()
    return tokens, logprobs


identities = st.tuples(st.integers(0, 2**28 - 1), st.integers(0, 255), st.integers(1, 400))


@pytest.mark.parametrize("profile", PROFILES)
@settings(deadline=None)  # the first example renders the streams
@given(identity=identities)
def test_every_profile_sends_the_corpus(profile: BodyProfile, identity: tuple[int, int, int]) -> None:
    found = choice(profile, *identity)
    tokens, logprobs = expected(profile, *identity)
    assert found["index"] == identity[1]
    assert found["token_ids"] == tokens
    assert found["logprobs"]["token_logprobs"] == logprobs
    assert (found["finish_reason"], found["stop_reason"]) == ("length", None)


@settings(deadline=None)
@given(identities)
def test_a_full_body_agrees_with_itself(identity: tuple[int, int, int]) -> None:
    found = choice("full", *identity)
    tokens, logprobs = expected("full", *identity)
    fields = found["logprobs"]
    assert fields["tokens"] == [token_text(token) for token in tokens]
    assert found["text"] == "".join(fields["tokens"])
    starts = [*fields["text_offset"], len(found["text"])]
    assert [found["text"][a:b] for a, b in itertools.pairwise(starts)] == fields["tokens"]
    assert found["prompt_token_ids"] == PROMPT
    assert len(fields["top_logprobs"]) == len(tokens)
    for text, logprob, top in zip(fields["tokens"], logprobs, fields["top_logprobs"], strict=True):
        assert top[text] == logprob
        assert len(top) in (1, 2)
        assert max(top.values()) == top[list(top)[-1]]


def test_bytes_a_token_are_those_of_the_profiles_description() -> None:
    sizes = {}
    for profile in PROFILES:
        pieces = renderer(profile)[1].choice(7, 0, 32_768, b"[]", b"null")
        sizes[profile] = sum(map(len, pieces)) / 32_768
    assert sizes["seed-equivalent"] == pytest.approx(10.9, abs=0.1)
    assert sizes["lean"] == pytest.approx(26, abs=0.5)
    assert 75 <= sizes["full"] <= 93


@pytest.mark.parametrize("profile", PROFILES)
def test_a_published_client_reads_the_choice(profile: BodyProfile) -> None:
    body = {"id": "x", "object": "text_completion", "created": 1, "model": "mock"}
    parsed = Completion.model_validate({**body, "choices": [choice(profile, 1, 0, 50)]}, strict=True)
    logprobs = parsed.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.token_logprobs == expected(profile, 1, 0, 50)[1]


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
