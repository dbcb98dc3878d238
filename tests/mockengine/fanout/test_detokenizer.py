"""Text comes out piece by piece, never broken inside a character, and adds up to the decoded whole."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mockengine.fanout.batches import TextBatch, TokenBatch
from mockengine.fanout.detokenizer import Detokenizer, StateError
from mockengine.fanout.vocabulary import SPECIAL, ids_of, text_of

STOP = {"type": "length", "length": 0}


def step(rid: str, ids: list[int], finished: dict[str, Any] | None = None, **fields: Any) -> TokenBatch:
    """A batch of one row."""
    return TokenBatch(rids=[rid], decode_ids=[array("q", ids)], finished_reasons=[finished], **fields)


def texts_of(detokenizer: Detokenizer, *batches: TokenBatch) -> list[str]:
    return [text for batch in batches for text in detokenizer.text_batch(batch).output_strs or []]


EURO = ids_of("€")
CASES: list[tuple[list[TokenBatch], list[str]]] = [
    ([step("r", [1]), step("r", [2]), step("r", [3], STOP)], [" w1", " w2", " w3"]),
    # a character in three tokens is held back until it is whole
    ([step("r", EURO[:1]), step("r", EURO[1:2]), step("r", EURO[2:]), step("r", [1], STOP)], ["", "", "€", " w1"]),
    # what stands before it is not
    ([step("r", [1, EURO[0]]), step("r", EURO[1:], STOP)], [" w1", "€"]),
    # a broken character at the end stays broken
    ([step("r", [1, EURO[0]]), step("r", [], STOP)], [" w1", "�"]),
    # the matched stop token, and the stop text, are cut
    ([step("r", [1, 2], {"type": "stop", "matched": 2})], [" w1"]),
    ([step("r", [1, 2], {"type": "stop", "matched": 2}, no_stop_trim=[True])], [" w1 w2"]),
    ([step("r", ids_of("one. END two"), {"type": "stop", "matched": "END"})], ["one. "]),
    # never less than was sent
    ([step("r", ids_of("one E")), step("r", ids_of("ND"), {"type": "stop", "matched": "END"})], ["one E", ""]),
    # each row has flags of its own
    ([step("r", [1, SPECIAL, 2], STOP)], [" w1 w2"]),
    ([step("r", [1, SPECIAL, 2], STOP, skip_special_tokens=[False])], [" w1 <|end|>  w2"]),
    (
        [step("r", [1, SPECIAL], STOP, skip_special_tokens=[False], spaces_between_special_tokens=[False])],
        [" w1<|end|>"],
    ),
    # text that the scheduler already had goes out first; the ids up to the read offset belong to it
    ([step("r", [1, 2], decoded_texts=["so far"], read_offsets=[1])], ["so far w2"]),
    # a finished request leaves no state: its rid begins anew
    ([step("r", [1], STOP), step("r", [2])], [" w1", " w2"]),
    ([step("a", [1]), step("b", [2]), step("a", [3], STOP), step("b", [4], STOP)], [" w1", " w2", " w3", " w4"]),
]


@pytest.mark.parametrize(("batches", "texts"), CASES)
def test_text_of_steps(batches: list[TokenBatch], texts: list[str]) -> None:
    assert texts_of(Detokenizer(), *batches) == texts


def test_rows_of_one_batch_have_flags_of_their_own() -> None:
    batch = TokenBatch(
        rids=["a", "b"],
        decode_ids=[array("q", [SPECIAL])] * 2,
        finished_reasons=[STOP] * 2,
        skip_special_tokens=[True, False],
    )
    assert texts_of(Detokenizer(), batch) == ["", " <|end|> "]


TOKENS = st.integers(0, 5) | st.sampled_from(ids_of("aé€😀")) | st.integers(1_000, 1_255)


@given(steps=st.lists(st.lists(TOKENS, max_size=4), min_size=1, max_size=8), skips=st.booleans(), spaces=st.booleans())
def test_pieces_add_up_to_the_whole(steps: list[list[int]], skips: bool, spaces: bool) -> None:
    """However ids are spread over steps: the pieces, in their order, are the text of all ids."""
    flags: dict[str, Any] = {"skip_special_tokens": [skips], "spaces_between_special_tokens": [spaces]}
    batches = [step("r", ids, None, **flags) for ids in steps[:-1]] + [step("r", steps[-1], STOP, **flags)]
    whole = text_of([token for ids in steps for token in ids], skips_special=skips, spaces_special=spaces)
    assert "".join(texts_of(Detokenizer(), *batches)) == whole


def test_the_request_that_came_first_loses_its_state() -> None:
    """Not the one that was used least recently."""
    detokenizer = Detokenizer(max_states=2)
    texts_of(detokenizer, step("a", [1]), step("b", [2]), step("a", [3]), step("c", [4]))
    assert texts_of(detokenizer, step("b", [], STOP), step("a", ids_of("new"), STOP)) == ["", "new"]


def test_a_batch_of_more_requests_than_states_fails() -> None:
    batch = TokenBatch(rids=["a", "b", "c"], decode_ids=[array("q", [1])] * 3)
    with pytest.raises(StateError, match=r"request a .* more than 2 requests"):
        Detokenizer(max_states=2).text_batch(batch)


def test_other_fields_pass_through() -> None:
    stats = object()
    experts = np.arange(3, dtype=np.int8)
    batch = TokenBatch(rids=["a"], prompt_tokens=[7], time_stats=stats, routed_experts=[experts])  # type: ignore[arg-type]
    text = Detokenizer().text_batch(batch)
    assert text == TextBatch(rids=["a"], prompt_tokens=[7], time_stats=stats, routed_experts=["AAEC"], output_strs=[""])  # type: ignore[arg-type]
    assert text.time_stats is stats
