"""Is a delivered result the one that was asked for? Byte for byte when the engine is ours, by its shape otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

from google.protobuf.message import DecodeError

from mockengine.corpus import Corpus
from server_under_test.proto import SampledSequence, SampleResponse, StopReason

TOKEN_BYTES = 4  # an int32 token id and a float32 logprob each


class Flaw(NamedTuple):
    """What is wrong with a result. foreign: it is the right answer to another future's request."""

    kind: Literal["corrupted", "foreign"]
    text: str


Read = Callable[[bytes], SampleResponse]  # raises ValueError for what holds no sample


def sample_response(body: bytes) -> SampleResponse:
    try:
        return SampleResponse.FromString(body)
    except DecodeError as error:
        raise ValueError(f"not a SampleResponse: {error}") from error


class Verifier(Protocol):
    def flaw(self, seed: int, max_tokens: int, body: bytes) -> Flaw | None:
        """What is wrong with ``body`` as the answer to (seed, max_tokens); None when nothing is."""


class CorpusVerifier:
    """Compares with what the corpus says. A right result costs two slices and one comparison."""

    def __init__(self, corpus: Corpus, read: Read = sample_response) -> None:
        self._corpus = corpus
        self._read = read

    def flaw(self, seed: int, max_tokens: int, body: bytes) -> Flaw | None:
        tokens = self._corpus.tokens(seed, 0, max_tokens)
        logprobs = self._corpus.logprobs(seed, 0, max_tokens)
        sequence = SampledSequence(stop_reason=StopReason.LENGTH, tokens=tokens, logprobs=logprobs)
        if SampleResponse(sequences=[sequence]).SerializeToString() == body:
            return None
        return self._explain(sequence, body)

    def _explain(self, expected: SampledSequence, body: bytes) -> Flaw | None:
        found = _only_sequence(self._read, body)
        if isinstance(found, Flaw):
            return found
        if found == expected:
            return None  # the same message in another field order, which protobuf allows
        if found.tokens != expected.tokens:
            owner = self._corpus.identify(found.tokens)
            if owner is not None:
                return Flaw("foreign", f"the tokens are the answer to seed {owner[0]}")
            return Flaw("corrupted", _first_difference("token", expected.tokens, found.tokens))
        if found.logprobs != expected.logprobs:
            return Flaw("corrupted", _first_difference("logprob", expected.logprobs, found.logprobs))
        return Flaw("corrupted", f"expected stop reason {expected.stop_reason}, found {found.stop_reason}")


class ShapeVerifier:
    """For an engine that is not ours: one sequence, a token at least and max_tokens at most, as many logprobs."""

    def __init__(self, read: Read = sample_response) -> None:
        self._read = read

    def flaw(self, seed: int, max_tokens: int, body: bytes) -> Flaw | None:
        sequence = _only_sequence(self._read, body)
        if isinstance(sequence, Flaw):
            return sequence
        count, rest = divmod(len(sequence.tokens), TOKEN_BYTES)
        if rest or not 1 <= count <= max_tokens:
            return Flaw("corrupted", f"expected 1 to {max_tokens} tokens, found {len(sequence.tokens)} bytes of them")
        if sequence.HasField("logprobs") and len(sequence.logprobs) != len(sequence.tokens):
            return Flaw("corrupted", f"{count} tokens, but {len(sequence.logprobs)} bytes of logprobs")
        return None


def _only_sequence(read: Read, body: bytes) -> SampledSequence | Flaw:
    try:
        sequences = read(body).sequences
    except ValueError as error:
        return Flaw("corrupted", str(error))
    if len(sequences) != 1:
        return Flaw("corrupted", f"expected 1 sequence, found {len(sequences)}")
    return sequences[0]


def _first_difference(what: str, expected: bytes, found: bytes) -> str:
    if len(expected) != len(found):
        return f"expected {len(expected) // TOKEN_BYTES} {what}s, found {len(found) // TOKEN_BYTES}"
    at = next(i for i in range(0, len(expected), TOKEN_BYTES) if expected[i : i + 4] != found[i : i + 4])
    return f"{what} {at // TOKEN_BYTES}: expected bytes {expected[at : at + 4].hex()}, found {found[at : at + 4].hex()}"
