"""What the engine answers, known in advance: one seeded pool of tokens, and every answer two slices of it.

The answer to (seed, index, max_tokens) is ``pool[o1 : o1 + first] + pool[o2 : o2 + rest]`` with max_tokens halved into
first and rest. The pair (o1, o2) is a bijection of (seed, index), so two identities never share both slices; and
whoever holds the corpus seed can say what an answer must be, without asking the engine, or whose answer one is.

Limits: seeds that are equal modulo 2**28, and indices that are equal modulo 2**8, get the same answer. Answers of fewer
than about eight tokens are too short to be all different.
"""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

BodyProfile = Literal["seed-equivalent", "lean", "full"]
PROFILES: tuple[BodyProfile, ...] = get_args(BodyProfile)

VOCABULARY = 100_000
MAX_TOKENS = 131_072
CONSTANT_LOGPROB = -0.5  # of seed-equivalent

_OFFSET_BITS = 18
_OFFSETS = 1 << _OFFSET_BITS
_POOL_TOKENS = _OFFSETS + MAX_TOKENS // 2  # a slice may begin at any offset
_SEED_BITS, _INDEX_BITS = 28, 8
_IDENTITIES = 1 << (2 * _OFFSET_BITS)
assert _SEED_BITS + _INDEX_BITS == 2 * _OFFSET_BITS

# An odd factor makes x -> x * factor a bijection modulo a power of two; this one is the fractional part of the golden
# ratio in 36 bits, which spreads consecutive numbers (Knuth, TAOCP vol. 3, 6.4).
_SPREAD = 0x9E3779B97 | 1
_UNSPREAD = pow(_SPREAD, -1, _IDENTITIES)


class Slices(NamedTuple):
    """Where an answer lies in the pool, as two pairs of start and stop."""

    first: tuple[int, int]
    second: tuple[int, int]


def slices(seed: int, index: int, max_tokens: int) -> Slices:
    """The slices of the pool that make up the answer to (seed, index, max_tokens).

    Raises ValueError when max_tokens is not between 1 and MAX_TOKENS.
    """
    if not 1 <= max_tokens <= MAX_TOKENS:
        raise ValueError(f"max_tokens must be between 1 and {MAX_TOKENS}, found {max_tokens}")
    first, second = _offsets(seed, index)
    half = max_tokens // 2
    return Slices((first, first + half), (second, second + max_tokens - half))


def _offsets(seed: int, index: int) -> tuple[int, int]:
    identity = (seed % (1 << _SEED_BITS)) << _INDEX_BITS | (index % (1 << _INDEX_BITS))
    spread = _mix(identity * _SPREAD % _IDENTITIES)
    return spread >> _OFFSET_BITS, spread % _OFFSETS


def _owner(first: int, second: int) -> tuple[int, int]:
    identity = _mix(first << _OFFSET_BITS | second) * _UNSPREAD % _IDENTITIES
    return identity >> _INDEX_BITS, identity % (1 << _INDEX_BITS)


def _mix(value: int) -> int:
    """An involution that brings the high half, which multiplication mixes well, into the low half."""
    return value ^ (value >> _OFFSET_BITS)


class Corpus:
    """The answers of one profile and corpus seed. Making one takes a few milliseconds.

    pool_tokens: int32 array of the pool's token ids in [0, VOCABULARY). pool_logprobs: float32 array of as many.
    """

    def __init__(self, profile: BodyProfile, corpus_seed: int = 0) -> None:
        if profile not in PROFILES:
            raise ValueError(f"the profile must be one of {', '.join(PROFILES)}, found '{profile}'")
        random = np.random.default_rng(corpus_seed)
        self.profile = profile
        self.pool_tokens = random.integers(0, VOCABULARY, _POOL_TOKENS, dtype=np.int32)
        if profile == "seed-equivalent":
            self.pool_logprobs = np.full(_POOL_TOKENS, CONSTANT_LOGPROB, np.float32)
        else:
            self.pool_logprobs = -random.standard_exponential(_POOL_TOKENS, dtype=np.float32)

    def tokens(self, seed: int, index: int, max_tokens: int) -> bytes:
        """The answer's token ids, little-endian int32."""
        return _cut(self.pool_tokens, seed, index, max_tokens)

    def logprobs(self, seed: int, index: int, max_tokens: int) -> bytes:
        """The answer's logprobs, little-endian float32."""
        return _cut(self.pool_logprobs, seed, index, max_tokens)

    def identify(self, tokens: bytes) -> tuple[int, int] | None:
        """The (seed, index) whose answer these tokens (little-endian int32) are; None when they are nobody's."""
        found = np.frombuffer(tokens, "<i4") if len(tokens) % 4 == 0 else np.empty(0, np.int32)
        if not 1 <= len(found) <= MAX_TOKENS:
            return None
        half = len(found) // 2
        for first in self._starts(found[:half]):
            for second in self._starts(found[half:]):
                owner = _owner(first, second)
                if self.tokens(*owner, len(found)) == tokens:
                    return owner
        return None

    def _starts(self, part: npt.NDArray[np.int32]) -> list[int]:
        """Offsets at which the pool goes on like ``part``."""
        starts = np.arange(_OFFSETS)
        for position in range(min(len(part), 8)):  # eight tokens tell all windows of the pool apart
            starts = starts[self.pool_tokens[starts + position] == part[position]]
        return [int(start) for start in starts]


def _cut(pool: npt.NDArray[np.generic], seed: int, index: int, max_tokens: int) -> bytes:
    first, second = slices(seed, index, max_tokens)
    return pool[slice(*first)].tobytes() + pool[slice(*second)].tobytes()


def prompt_logprob(token: int) -> float:
    """The logprob of a prompt token, as the engine gives it with ``prompt_logprobs``: a float32 value, below 0."""
    return float(np.float32(-(1 + token % 997) / 128))


def token_text(token: int) -> str:
    """A token's string, always of TOKEN_CHARACTERS characters, so that text offsets are the same for every answer.

    The first character goes with the token's remainder by 5: a space as byte-pair vocabularies have it, letters of one
    to three UTF-8 bytes, and a line break, which JSON escapes.
    """
    return _LEADS[token % len(_LEADS)] + _letters(token // len(_LEADS))


TOKEN_CHARACTERS = 4
_LEADS = (" ", "é", "\n", "x", "中")
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _letters(number: int) -> str:
    size = len(_LETTERS)
    return _LETTERS[number // size // size % size] + _LETTERS[number // size % size] + _LETTERS[number % size]
