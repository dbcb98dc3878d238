"""A small vocabulary, so that token ids can become text without a model's tokenizer.

Id 0 is a special token, 1 to 999 are words, and 1000 to 1255 are single bytes, of which several can make a character.
From FIRST_OF_CORPUS on come the tokens of the mock engine's answers.
"""

from __future__ import annotations

from collections.abc import Iterable

from mockengine.corpus import token_text

SPECIAL = 0
FIRST_BYTE = 1_000
FIRST_OF_CORPUS = 2_000
_SPECIAL_TEXT = "<|end|>"
_PIECES = [
    _SPECIAL_TEXT.encode(),
    *(f" w{number}".encode() for number in range(1, FIRST_BYTE)),
    *(bytes([b]) for b in range(256)),
]
REPLACEMENT = "\ufffd"


def text_of(ids: Iterable[int], *, skips_special: bool = True, spaces_special: bool = True) -> str:
    """The text of token ids; bytes that are no UTF-8, or not yet, become U+FFFD.

    skips_special: leave special tokens out. spaces_special: a space before and after those that stay. Raises IndexError
    for an id that the vocabulary does not have.
    """
    pieces: list[bytes] = []
    for token in ids:
        if token >= FIRST_OF_CORPUS:
            pieces.append(token_text(token - FIRST_OF_CORPUS).encode())
        elif token != SPECIAL:
            pieces.append(_PIECES[token])
        elif not skips_special:
            pieces.append(b" %s " % _PIECES[SPECIAL] if spaces_special else _PIECES[SPECIAL])
    return b"".join(pieces).decode("utf-8", "replace")


def ids_of(text: str) -> list[int]:
    """Token ids, a byte each, whose text this is."""
    return [FIRST_BYTE + byte for byte in text.encode()]
