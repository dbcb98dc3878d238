"""A wrong result never passes, whatever is wrong with it; and what is wrong is said."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from locustfiles.verification import CorpusVerifier, ShapeVerifier
from mockengine.corpus import Corpus
from server_under_test.proto import SampledSequence, SampleResponse, StopReason

CORPUS = Corpus("lean")
VERIFIER = CorpusVerifier(CORPUS)
SIZE = 40


def right(seed: int, size: int = SIZE) -> SampleResponse:
    sequence = SampledSequence(
        stop_reason=StopReason.LENGTH, tokens=CORPUS.tokens(seed, 0, size), logprobs=CORPUS.logprobs(seed, 0, size)
    )
    return SampleResponse(sequences=[sequence])


@given(st.integers(0, 10**6), st.integers(1, 500))
def test_the_right_result_passes(seed: int, size: int) -> None:
    assert VERIFIER.flaw(seed, size, right(seed, size).SerializeToString()) is None


@given(st.integers(0, 10**6), st.data())
def test_a_result_with_any_bit_changed_does_not(seed: int, data: st.DataObject) -> None:
    body = bytearray(right(seed).SerializeToString())
    body[data.draw(st.integers(0, len(body) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    flaw = VERIFIER.flaw(seed, SIZE, bytes(body))
    assert flaw is not None


@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_another_futures_result_is_foreign_and_its_owner_named(seed: int, other: int) -> None:
    flaw = VERIFIER.flaw(seed, SIZE, right(other).SerializeToString())
    if seed == other:
        assert flaw is None
    else:
        assert flaw is not None
        assert flaw.kind == "foreign"
        assert f"seed {other}" in flaw.text


def changed(**fields: object) -> SampleResponse:
    response = right(1)
    for name, value in fields.items():
        setattr(response.sequences[0], name, value)
    return response


@pytest.mark.parametrize(
    ("response", "text"),
    [
        (SampleResponse(), "expected 1 sequence, found 0"),
        (SampleResponse(sequences=[right(1).sequences[0]] * 2), "expected 1 sequence, found 2"),
        (right(1, SIZE - 1), f"expected {SIZE} tokens, found {SIZE - 1}"),
        (changed(stop_reason=StopReason.STOP), "expected stop reason 1, found 0"),
        (changed(logprobs=bytes(4 * SIZE)), "logprob 0: expected bytes"),
        (changed(tokens=CORPUS.tokens(1, 0, SIZE)[:-4] + b"\1\2\3\4"), f"token {SIZE - 1}: expected bytes"),
    ],
)
def test_what_is_wrong_is_said(response: SampleResponse, text: str) -> None:
    flaw = VERIFIER.flaw(1, SIZE, response.SerializeToString())
    assert flaw is not None
    assert text in flaw.text or (flaw.kind == "foreign" and "seed" in flaw.text)


@pytest.mark.parametrize("body", [b"\xff", b"<html>", b'{"error":"x"}'])
def test_what_is_no_result_is_said_to_be_none(body: bytes) -> None:
    for verifier in (VERIFIER, ShapeVerifier()):
        flaw = verifier.flaw(1, SIZE, body)
        assert flaw is not None
        assert "not a SampleResponse" in flaw.text


def test_the_same_message_in_another_order_of_fields_passes() -> None:
    tokens, logprobs = CORPUS.tokens(1, 0, SIZE), CORPUS.logprobs(1, 0, SIZE)
    fields = b"\x1a" + bytes([len(logprobs), 1]) + logprobs + b"\x12" + bytes([len(tokens), 1]) + tokens + b"\x08\x01"
    body = b"\x0a" + bytes([0x80 | len(fields) & 0x7F, len(fields) >> 7]) + fields
    # 160 bytes of each: lengths take two bytes in protobuf's variable-length form.
    assert SampleResponse.FromString(body) == right(1)
    assert body != right(1).SerializeToString()
    assert VERIFIER.flaw(1, SIZE, body) is None


@pytest.mark.parametrize(
    ("sequence", "text"),
    [
        (SampledSequence(tokens=b""), "found 0 bytes"),
        (SampledSequence(tokens=bytes(4 * (SIZE + 1))), f"found {4 * (SIZE + 1)} bytes"),
        (SampledSequence(tokens=bytes(7)), "found 7 bytes"),
        (SampledSequence(tokens=bytes(8), logprobs=bytes(4)), "2 tokens, but 4 bytes of logprobs"),
    ],
)
def test_shapes_that_no_engine_can_mean(sequence: SampledSequence, text: str) -> None:
    flaw = ShapeVerifier().flaw(1, SIZE, SampleResponse(sequences=[sequence]).SerializeToString())
    assert flaw is not None
    assert text in flaw.text


def test_any_engine_may_stop_early() -> None:
    sequence = SampledSequence(tokens=bytes(8), logprobs=bytes(8))
    assert ShapeVerifier().flaw(1, SIZE, SampleResponse(sequences=[sequence]).SerializeToString()) is None
