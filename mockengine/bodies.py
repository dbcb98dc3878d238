"""The engine's JSON bodies, cut from streams that were rendered once: a few memory copies an answer.

A stream is one field of the body for the whole pool, each element followed by a comma, with the byte at which each
element begins; a slice of the pool is then a slice of each stream. ``text_offset`` needs no slicing: token strings all
have TOKEN_CHARACTERS characters, so the offsets of any answer are a prefix of one list.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt
import orjson

from mockengine.corpus import (
    MAX_TOKENS,
    TOKEN_CHARACTERS,
    VOCABULARY,
    Corpus,
    Slices,
    prompt_logprob,
    slices,
    token_text,
)
from mockengine.protocol import CompletionRequest

# Every fourth position samples another token than the likeliest, so top_logprobs has two entries there.
_SECOND_ENTRY_EVERY = 4
_SECOND_TOKEN_STEP = 12_345
_PROMPT_ALTERNATIVE_STEP = 7_919


Buffer = bytes | memoryview
Pieces = tuple[memoryview, memoryview]


class Stream:
    """One field, rendered for all elements. starts: int64 array, one more than elements.

    tail: bytes that follow an element and do not belong after an answer's last one, 1 for a comma.
    """

    def __init__(self, rendered: bytes, starts: npt.NDArray[np.int64], tail: int = 1) -> None:
        self._rendered = memoryview(rendered)
        self._starts = starts
        self._tail = tail

    def cut(self, where: Slices) -> Pieces:
        """The bytes of the two slices, not copied."""
        starts, rendered = self._starts, self._rendered
        (a, b), (c, d) = where
        return rendered[starts[a] : starts[b]], rendered[starts[c] : starts[d] - self._tail]


def _stream_of_numbers(numbers: npt.NDArray[np.int32] | npt.NDArray[np.float64]) -> Stream:
    rendered = orjson.dumps(numbers, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1] + b","
    ends = np.flatnonzero(np.frombuffer(rendered, np.uint8) == ord(",")) + 1
    return Stream(rendered, np.concatenate(([0], ends)))


def _stream_of_elements(elements: Sequence[bytes], separator: bytes = b",") -> Stream:
    lengths = np.fromiter(map(len, elements), np.int64, len(elements)) + len(separator)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    return Stream(separator.join(elements) + separator, starts, tail=len(separator))


class Renderer:
    """Choices of one corpus. Making one renders what its profile sends, about a second for ``full``."""

    def __init__(self, corpus: Corpus) -> None:
        self._full: _FullStreams | None = _FullStreams(corpus) if corpus.profile == "full" else None
        self._token_ids = _stream_of_numbers(corpus.pool_tokens)
        # float64 of float32: printed with the digits that a server's double has.
        self._logprobs = _stream_of_numbers(corpus.pool_logprobs.astype(np.float64))

    def choices(self, request: CompletionRequest, seed: int) -> list[Buffer]:
        """The n choices of an answer as pieces of JSON, with commas between. seed: the request's, or its stand-in."""
        k = request.prompt_logprobs
        tail = b',"prompt_token_ids":%b,"prompt_logprobs":%b}' % (
            orjson.dumps(request.prompt) if self._full and request.return_token_ids else b"null",
            b"null" if k is None else prompt_logprobs_json(request.prompt, k),
        )
        pieces: list[Buffer] = []
        for index in range(request.n):
            where = slices(seed, index, request.max_tokens)
            pieces += [
                b'%b{"index":%d,"text":"' % (b"," if index else b"", index),
                *(self._full.text.cut(where) if self._full else ()),
                b'","logprobs":',
                *(self._logprobs_pieces(where, request.max_tokens) if request.logprobs is not None else (b"null",)),
                b',"finish_reason":"length","stop_reason":null,"token_ids":',
                *((b"[", *self._token_ids.cut(where), b"]") if request.return_token_ids else (b"null",)),
                tail,
            ]
        return pieces

    def _logprobs_pieces(self, where: Slices, max_tokens: int) -> list[Buffer]:
        full = self._full
        return [
            b'{"text_offset":[',
            *(full.offsets.cut(Slices((0, 0), (0, max_tokens))) if full else ()),
            b'],"token_logprobs":[',
            *self._logprobs.cut(where),
            b'],"tokens":[',
            *(full.strings.cut(where) if full else ()),
            b'],"top_logprobs":[',
            *(full.top_logprobs.cut(where) if full else ()),
            b"]}",
        ]


class _FullStreams:
    """What only the full profile sends."""

    def __init__(self, corpus: Corpus) -> None:
        quoted = [orjson.dumps(token_text(token)) for token in range(VOCABULARY)]
        ids = corpus.pool_tokens.tolist()
        strings = [quoted[token] for token in ids]
        self.strings = _stream_of_elements(strings)
        self.text = _stream_of_elements([string[1:-1] for string in strings], separator=b"")
        self.top_logprobs = _stream_of_elements(list(_top_logprobs(ids, corpus.pool_logprobs, quoted)))
        self.offsets = _stream_of_numbers(np.arange(0, MAX_TOKENS * TOKEN_CHARACTERS, TOKEN_CHARACTERS, dtype=np.int32))


def _top_logprobs(ids: list[int], logprobs: npt.NDArray[np.float32], quoted: list[bytes]) -> Iterable[bytes]:
    """For each position the sampled token, and the likeliest one where that is another, as vLLM orders them."""
    rendered = orjson.dumps(logprobs.astype(np.float64), option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].split(b",")
    likelier = orjson.dumps(logprobs.astype(np.float64) / 2, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].split(b",")
    for position, token in enumerate(ids):
        entry = b"{%b:%b" % (quoted[token], rendered[position])
        if position % _SECOND_ENTRY_EVERY:
            yield entry + b"}"
        else:
            other = quoted[(token + _SECOND_TOKEN_STEP) % VOCABULARY]
            yield entry + b",%b:%b}" % (other, likelier[position])


def prompt_logprobs_json(prompt: Sequence[int], k: int) -> bytes:
    """``prompt_logprobs: k``: null for the first position, then the prompt's token and the k likeliest of each."""
    return b"[null" + b"".join([b"," + _prompt_position(token, k) for token in prompt[1:]]) + b"]"


@functools.lru_cache(maxsize=VOCABULARY)
def _prompt_position(token: int, k: int) -> bytes:
    """The prompt's own token has a rank of its own; when it is not among the k likeliest it is one entry more."""
    own_rank = 1 + token % 3
    entries = {token: (prompt_logprob(token), own_rank)}
    for rank in range(1, k + 1):
        if rank != own_rank:
            alternative = (token + rank * _PROMPT_ALTERNATIVE_STEP) % VOCABULARY
            entries[alternative] = (prompt_logprob(token) * rank / own_rank, rank)
    return orjson.dumps(
        {
            str(entry): {"logprob": logprob, "rank": rank, "decoded_token": token_text(entry)}
            for entry, (logprob, rank) in entries.items()
        }
    )
