"""Stop strings and stop tokens, against a search that goes token by token as vLLM does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mockengine.corpus import token_text
from mockengine.stopping import Stop, find_stop, text_of

ids = st.lists(st.sampled_from([0, 1, 2, 3, 260, 99_999]), min_size=1, max_size=12)


def token_by_token(tokens: list[int], strings: list[str], token_ids: list[int], include: bool) -> Stop | None:
    text = ""
    for number, token in enumerate(tokens, 1):
        if token in token_ids:
            return Stop(number, len(text) + (len(token_text(token)) if include else 0), token)
        text += token_text(token)
        for string in strings:
            if (start := text.find(string)) >= 0:
                return Stop(number, start + len(string) if include else start, string)
    return None


@given(ids, st.data(), st.booleans())
def test_it_is_what_a_search_token_by_token_finds(tokens: list[int], data: st.DataObject, include: bool) -> None:
    text = "".join(map(token_text, tokens))
    start = st.integers(0, len(text) - 1)
    parts = st.builds(lambda a, size: text[a : a + size], start, st.integers(1, 6))
    strings = data.draw(st.lists(parts | st.sampled_from(["absent", "a", "aa"]), max_size=3))
    token_ids = data.draw(st.lists(st.sampled_from([0, 3, 260, 77]), max_size=2))
    found = find_stop(np.array(tokens, np.int32), strings, token_ids, include)
    assert found == token_by_token(tokens, strings, token_ids, include)


@given(ids)
def test_the_text_is_that_of_the_tokens(tokens: list[int]) -> None:
    assert text_of(np.array(tokens, np.int32)) == "".join(map(token_text, tokens))


@pytest.mark.parametrize(("include", "characters"), [(False, 4), (True, 8)])
def test_a_stop_token_goes_before_a_string_that_it_would_complete(include: bool, characters: int) -> None:
    assert find_stop(np.array([0, 1], np.int32), [token_text(1)], [1], include) == Stop(2, characters, 1)
