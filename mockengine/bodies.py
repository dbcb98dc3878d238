"""The engine's JSON bodies, cut from streams that were rendered once: a few memory copies an answer.

A stream is one field of the body for the whole pool, each element followed by a comma, with the byte at which each
element begins; a slice of the pool is then a slice of each stream. ``text_offset`` needs no slicing: token strings all
have TOKEN_CHARACTERS characters, so the offsets of any answer are a prefix of one list.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from typing import NamedTuple

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
from mockengine.protocol import CompletionRequest, TokenNames
from mockengine.stopping import Stop, Tokens, find_stop, text_of

# How likely the sampled token is among all, by its position in the pool: mostly the likeliest; every fourth is not, and
# every sixteenth is so unlikely that no number of logprobs that vLLM gives reaches down to it.
_SECOND_EVERY, _SECOND = 4, 2
_UNLIKELY_EVERY, _UNLIKELY = 16, 30
_ALTERNATIVE_STEP = 12_345
_PROMPT_ALTERNATIVE_STEP = 7_919
# What a server asks for that wants the sampled token's logprob; streams for other numbers are rendered when asked for.
USUAL_LOGPROBS = 1


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
        """The bytes of the two slices, which are not both empty, not copied."""
        starts, rendered = self._starts, self._rendered
        (a, b), (c, d) = where
        if c == d:
            return rendered[starts[a] : starts[b] - self._tail], rendered[:0]
        return rendered[starts[a] : starts[b]], rendered[starts[c] : starts[d] - self._tail]


def _stream_of_numbers(numbers: npt.NDArray[np.int32] | npt.NDArray[np.float64]) -> Stream:
    rendered = orjson.dumps(numbers, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1] + b","
    ends = np.flatnonzero(np.frombuffer(rendered, np.uint8) == ord(",")) + 1
    return Stream(rendered, np.concatenate(([0], ends)))


def _stream_of_elements(elements: Sequence[bytes], separator: bytes = b",") -> Stream:
    lengths = np.fromiter(map(len, elements), np.int64, len(elements)) + len(separator)
    starts = np.concatenate(([0], np.cumsum(lengths)))
    return Stream(separator.join(elements) + separator, starts, tail=len(separator))


class Rendered(NamedTuple):
    """The choices of one answer as pieces of JSON, with commas between.

    tokens: how many they have together. finish_reason: ``length`` when one of them at least has all that it may have.
    """

    pieces: list[Buffer]
    tokens: int
    finish_reason: str


class Renderer:
    """Choices of one corpus. Making one renders what its profile sends, about a second for ``full``."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self._full: _FullStreams | None = _FullStreams(corpus) if corpus.profile == "full" else None
        self._token_ids = _stream_of_numbers(corpus.pool_tokens)
        # float64 of float32: printed with the digits that a server's double has.
        self._logprobs = _stream_of_numbers(corpus.pool_logprobs.astype(np.float64))

    def is_ready_for(self, request: CompletionRequest) -> bool:
        """Whether ``get_ready_for`` has nothing to do."""
        return self._full is None or request.logprobs is None or self._full.has(request.token_names, request.logprobs)

    def get_ready_for(self, request: CompletionRequest) -> None:
        """Render the top_logprobs that it asks for, once: seconds for the larger numbers."""
        if self._full is not None and request.logprobs is not None:
            self._full.render(request.token_names, request.logprobs)

    def choices(self, request: CompletionRequest, seed: int) -> Rendered:
        """The n choices of an answer. seed: the request's, or its stand-in.

        The renderer is ready for the request. Fields come in the order in which vLLM's response model declares them
        (vllm/entrypoints/openai/completion/protocol.py).
        """
        k = request.prompt_logprobs
        tail = b',"prompt_logprobs":%b,"prompt_token_ids":%b}' % (
            b"null" if k is None else prompt_logprobs_json(request.prompt, k),
            orjson.dumps(request.prompt) if self._full and request.return_token_ids else b"null",
        )
        pieces: list[Buffer] = []
        total, finish_reason = 0, "stop"
        for index in range(request.n):
            where = slices(seed, index, request.max_tokens)
            stop = self._stop(where, request) if request.stops else None
            tokens = stop.tokens if stop else request.max_tokens
            total += tokens
            if stop is None:
                finish_reason = "length"
                text: Iterable[Buffer] = self._full.text.cut(where) if self._full else ()
                end = b'"length","stop_reason":null'
            else:
                where = _first(where, tokens)
                text = (self._text(where, stop.characters),)
                end = b'"stop","stop_reason":%b' % orjson.dumps(stop.reason)
            pieces += [
                b'%b{"index":%d,"text":"' % (b"," if index else b"", index),
                *text,
                b'","logprobs":',
                *self._logprobs_pieces(where, tokens, request),
                b',"finish_reason":%b,"token_ids":' % end,
                *((b"[", *self._token_ids.cut(where), b"]") if request.return_token_ids else (b"null",)),
                tail,
            ]
        return Rendered(pieces, total, finish_reason)

    def _stop(self, where: Slices, request: CompletionRequest) -> Stop | None:
        tokens = self._tokens(where)
        include = request.include_stop_str_in_output
        return find_stop(tokens, request.stop_strings, request.stop_token_ids or (), include or False)

    def _tokens(self, where: Slices) -> Tokens:
        return np.concatenate([self._corpus.pool_tokens[slice(*part)] for part in where])

    def _text(self, where: Slices, characters: int) -> bytes:
        """So many characters of what the slices say, as the inside of a JSON string."""
        return orjson.dumps(text_of(self._tokens(where))[:characters])[1:-1] if self._full else b""

    def _logprobs_pieces(self, where: Slices, tokens: int, request: CompletionRequest) -> list[Buffer]:
        full, k, names = self._full, request.logprobs, request.token_names
        if k is None:
            return [b"null"]
        return [
            b'{"text_offset":[',
            *(full.text_offsets(names, where, tokens) if full else ()),
            b'],"token_logprobs":[',
            *self._logprobs.cut(where),
            b'],"tokens":[',
            *(full.tokens[names].cut(where) if full else ()),
            b'],"top_logprobs":[',
            *(full.top_logprobs[names, k].cut(where) if full else ()),
            b"]}",
        ]


def _first(where: Slices, tokens: int) -> Slices:
    """The first so many tokens of the two slices."""
    (a, b), (c, _) = where
    return Slices((a, min(b, a + tokens)), (c, c + max(0, tokens - (b - a))))


class _FullStreams:
    """What only the full profile sends, by how tokens are called, and top_logprobs also by how many are asked for."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus
        self.tokens: dict[TokenNames, Stream] = {}
        self.top_logprobs: dict[tuple[TokenNames, int], Stream] = {}
        self.render("texts", USUAL_LOGPROBS)
        texts = [string[1:-1] for string in _named(corpus, "texts")]
        self.text = _stream_of_elements(texts, separator=b"")
        self._offsets = _stream_of_numbers(
            np.arange(0, MAX_TOKENS * TOKEN_CHARACTERS, TOKEN_CHARACTERS, dtype=np.int32)
        )

    def has(self, names: TokenNames, k: int) -> bool:
        return (names, k) in self.top_logprobs

    def render(self, names: TokenNames, k: int) -> None:
        """Make the streams that are not there yet."""
        if names not in self.tokens:
            self.tokens[names] = _stream_of_elements(_named(self._corpus, names))
        if not self.has(names, k):
            self.top_logprobs[names, k] = _top_logprobs(self._corpus, names, k)

    def text_offsets(self, names: TokenNames, where: Slices, tokens: int) -> Iterable[Buffer]:
        """vLLM counts the characters of what it calls the tokens, be it not their text."""
        if names == "texts":
            return self._offsets.cut(Slices((0, 0), (0, tokens)))
        ids = np.concatenate([self._corpus.pool_tokens[slice(*part)] for part in where])
        ends = np.cumsum([len(name) - 2 for name in _names("ids")[ids].tolist()], dtype=np.int64)
        offsets = np.concatenate(([0], ends[:-1]))
        return (orjson.dumps(offsets, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1],)


@functools.cache
def _names(names: TokenNames) -> npt.NDArray[np.object_]:
    """What each token of the vocabulary is called, as JSON."""
    if names == "ids":
        return np.array([b'"token_id:%d"' % token for token in range(VOCABULARY)], object)
    return np.array([orjson.dumps(token_text(token)) for token in range(VOCABULARY)], object)


def _named(corpus: Corpus, names: TokenNames) -> list[bytes]:
    """What the tokens of the pool are called."""
    called: list[bytes] = _names(names)[corpus.pool_tokens].tolist()
    return called


def _top_logprobs(corpus: Corpus, called: TokenNames, k: int) -> Stream:
    """For each position the sampled token and then the k likeliest, likelier ones first, as vLLM orders them.

    At rank r the sampled token has its logprob; that of rank j is j/r times as far below 0.
    """
    names = np.array([b",%b:" % name for name in _names(called)], object)
    tokens = corpus.pool_tokens
    position = np.arange(len(tokens))
    ranks = np.where(position % _SECOND_EVERY, 1, np.where(position % _UNLIKELY_EVERY, _SECOND, _UNLIKELY))
    logprobs = corpus.pool_logprobs.astype(np.float64)
    own = zip(names[tokens].tolist(), _json_numbers(logprobs), strict=True)
    columns = [[b"{" + name[1:] + value for name, value in own]]
    for rank in range(1, k + 1):
        others = names[(tokens + rank * _ALTERNATIVE_STEP) % VOCABULARY].tolist()
        entries = zip(others, _json_numbers(logprobs * rank / ranks), (ranks == rank).tolist(), strict=True)
        columns.append([b"" if is_sampled else name + value for name, value, is_sampled in entries])
    columns.append([b"}"] * len(tokens))
    return _stream_of_elements([b"".join(row) for row in zip(*columns, strict=True)])


def _json_numbers(numbers: npt.NDArray[np.float64]) -> list[bytes]:
    return orjson.dumps(numbers, option=orjson.OPT_SERIALIZE_NUMPY)[1:-1].split(b",")


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
