"""Answers are what the description says: two slices of a pool, each identity's its own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mockengine.corpus import MAX_TOKENS, PROFILES, VOCABULARY, Corpus, slices, token_text

CORPORA = {profile: Corpus(profile) for profile in PROFILES}

seeds = st.integers(0, 2**28 - 1)
indices = st.integers(0, 2**8 - 1)


@given(st.sampled_from(PROFILES), seeds, indices, st.integers(1, 3000))
def test_an_answer_is_its_two_slices_token_by_token(profile: str, seed: int, index: int, max_tokens: int) -> None:
    corpus = CORPORA[profile]
    (a, b), (c, d) = slices(seed, index, max_tokens)
    places = [*range(a, b), *range(c, d)]
    assert len(places) == max_tokens
    assert np.frombuffer(corpus.tokens(seed, index, max_tokens), "<i4").tolist() == [
        int(corpus.pool_tokens[place]) for place in places
    ]
    assert np.frombuffer(corpus.logprobs(seed, index, max_tokens), "<f4").tolist() == [
        float(corpus.pool_logprobs[place]) for place in places
    ]


@given(st.lists(st.tuples(seeds, indices), unique=True, min_size=2, max_size=50), st.integers(2, MAX_TOKENS))
def test_different_identities_have_different_slices(identities: list[tuple[int, int]], max_tokens: int) -> None:
    assert len({slices(seed, index, max_tokens) for seed, index in identities}) == len(identities)


def test_the_answers_of_a_whole_run_are_all_different() -> None:
    corpus = CORPORA["seed-equivalent"]
    assert len({corpus.tokens(seed, 0, 16) for seed in range(131_072)}) == 131_072


@given(st.sampled_from(PROFILES), seeds, indices, st.integers(16, 5000))
def test_whose_answer_it_is_can_be_told_from_the_tokens(profile: str, seed: int, index: int, max_tokens: int) -> None:
    assert CORPORA[profile].identify(CORPORA[profile].tokens(seed, index, max_tokens)) == (seed, index)


@given(seeds, st.integers(16, 300), st.data())
def test_tokens_with_an_error_are_nobodys(seed: int, max_tokens: int, data: st.DataObject) -> None:
    corpus = CORPORA["lean"]
    tokens = bytearray(corpus.tokens(seed, 0, max_tokens))
    place = data.draw(st.integers(0, len(tokens) - 1))
    tokens[place] ^= data.draw(st.integers(1, 255))
    assert corpus.identify(bytes(tokens)) is None
    assert corpus.identify(bytes(tokens[:-1])) is None
    assert corpus.identify(b"") is None


def test_the_corpus_seed_decides_the_content() -> None:
    assert Corpus("lean", 1).tokens(0, 0, 100) == Corpus("lean", 1).tokens(0, 0, 100)
    assert Corpus("lean", 1).tokens(0, 0, 100) != Corpus("lean", 2).tokens(0, 0, 100)
    # The load need not know how much of the bodies the engine sends to know the tokens.
    assert Corpus("lean", 1).tokens(0, 0, 100) == Corpus("full", 1).tokens(0, 0, 100)


@pytest.mark.parametrize("max_tokens", [0, -1, MAX_TOKENS + 1])
def test_impossible_lengths_are_refused(max_tokens: int) -> None:
    with pytest.raises(ValueError, match=f"between 1 and {MAX_TOKENS}, found {max_tokens}"):
        slices(0, 0, max_tokens)


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(ValueError, match="one of seed-equivalent, lean, full, found 'fat'"):
        Corpus("fat")  # type: ignore[arg-type]


def test_token_texts_are_all_different_and_have_four_characters() -> None:
    texts = [token_text(token) for token in range(VOCABULARY)]
    assert len(set(texts)) == VOCABULARY
    assert {len(text) for text in texts} == {4}
    assert {len(text.encode()) for text in texts} == {4, 5, 6}
