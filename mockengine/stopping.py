"""Where stop strings and stop token ids end an answer, as vLLM's engine and detokenizer find it. Pure."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mockengine.corpus import TOKEN_CHARACTERS, VOCABULARY, token_text

Tokens = npt.NDArray[np.int32]


class Stop(NamedTuple):
    """tokens: how many the answer has, with the one that ended it. characters: of its text. reason: what was met."""

    tokens: int
    characters: int
    reason: str | int


def find_stop(tokens: Tokens, strings: Sequence[str], token_ids: Sequence[int], include: bool) -> Stop | None:
    """The first stop in an answer's tokens, None when it has none.

    A string is met at the token that completes it, and the text ends before it; a token id is met at that token, whose
    string is left out of the text. With ``include`` (include_stop_str_in_output) the text keeps either. Of several
    strings that one token completes the first in the list counts, and a stop token goes before a string, as in vLLM.
    """
    text = text_of(tokens) if strings else ""
    found = [
        (at, 0, Stop(at + 1, (at + include) * TOKEN_CHARACTERS, int(tokens[at])))
        for at in np.flatnonzero(np.isin(tokens, token_ids))[:1].tolist()
    ]
    for order, string in enumerate(strings, 1):
        if (start := text.find(string)) >= 0:
            end = start + len(string)
            at = (end - 1) // TOKEN_CHARACTERS
            found.append((at, order, Stop(at + 1, end if include else start, string)))
    return min(found, key=lambda candidate: candidate[:2])[2] if found else None


def text_of(tokens: Tokens) -> str:
    """What the tokens say, without a Python object a token."""
    return _texts()[tokens].tobytes().decode("utf-32-le")


@functools.cache
def _texts() -> npt.NDArray[np.str_]:
    return np.array([token_text(token) for token in range(VOCABULARY)], f"<U{TOKEN_CHARACTERS}")
