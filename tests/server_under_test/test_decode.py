"""The bytes that are served against a slow and obvious decoder, for bodies of every kind an engine may send."""

from __future__ import annotations

import json
import math
import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from server_under_test.decode import BadBodyError, Wanted, _skim, sample_response
from server_under_test.http_answer import Body
from server_under_test.proto import SampleResponse, TopkLogprobs
from server_under_test.results_json import sample_response_json


def decode(
    document: object, samples: int = 1, max_tokens: int | None = None, prompt: list[int] | None = None
) -> SampleResponse:
    text = document if isinstance(document, bytes) else json.dumps(document, separators=(",", ":")).encode()
    wanted = Wanted(samples=samples, max_tokens=max_tokens, prompt=prompt, prompt_logprobs=prompt is not None)
    buffer = bytearray(b"head" + text + b"tail of an earlier body}")
    return SampleResponse.FromString(sample_response(Body(buffer, 4, 4 + len(text)), wanted))


def float32(number: float | None) -> bytes:
    return struct.pack("<f", math.nan if number is None else number)


def obvious(document: Any) -> SampleResponse:
    """What the result must be, from a loop over tokens."""
    response = SampleResponse()
    for choice in sorted(document["choices"], key=lambda choice: int(choice["index"])):
        response.sequences.add(
            stop_reason={"stop": 0, "length": 1}[choice["finish_reason"]],
            tokens=b"".join(struct.pack("<i", token) for token in choice["token_ids"]),
            logprobs=b"".join(float32(number) for number in choice["logprobs"]["token_logprobs"]),
        )
    return response


# Text that could be taken for keys if it were not escaped.
texts = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ['"token_ids":[1]', '\\"token_logprobs\\":[', '"finish_reason":"stop",', "]", '"choices":[{', '"index":9,']
    ),
)
numbers = st.one_of(st.none(), st.integers(-50, 0), st.floats(-1e30, 0), st.sampled_from([-1e-38, math.nan, -math.inf]))


@st.composite
def choices(draw: st.DrawFn) -> list[dict[str, Any]]:
    count = draw(st.integers(1, 4))
    made = []
    for index in draw(st.permutations(range(count))):
        size = draw(st.integers(0, 12))
        token_texts = draw(st.lists(texts, min_size=size, max_size=size))
        choice = {
            "index": index,
            "text": draw(texts),
            "logprobs": {
                "text_offset": list(range(size)),
                "token_logprobs": draw(st.lists(numbers, min_size=size, max_size=size)),
                "tokens": token_texts,
                "top_logprobs": [{text: -1.0} for text in token_texts],
            },
            "finish_reason": draw(st.sampled_from(["stop", "length"])),
            "stop_reason": draw(st.one_of(st.none(), st.integers(0, 200_000), texts)),
            "token_ids": draw(st.lists(st.integers(0, 2**31 - 1), min_size=size, max_size=size)),
            "prompt_token_ids": draw(st.one_of(st.none(), st.just([1, 2]))),
            "prompt_logprobs": None,
        }
        if draw(st.booleans()):  # another server's order of fields
            choice = {key: choice[key] for key in draw(st.permutations(list(choice)))}
        made.append(choice)
    return made


@given(choices(), st.booleans())
def test_bodies_of_every_kind(made: list[dict[str, Any]], compact: bool) -> None:
    document = {"id": "x", "model": "m", "choices": made, "usage": {"prompt_tokens": 1}}
    text = json.dumps(document, separators=(",", ":") if compact else None, ensure_ascii=False).encode(
        "utf-8", "ignore"
    )
    if '"\\ud' in json.dumps(document):
        return  # a lone surrogate can't be written in UTF-8
    found = decode(text, samples=len(made))
    assert found.SerializeToString() == obvious(document).SerializeToString()


# The order of newer versions of vLLM, which put the prompt after the token ids.
NEWER_ORDER = [
    "index",
    "text",
    "logprobs",
    "finish_reason",
    "stop_reason",
    "token_ids",
    "prompt_logprobs",
    "prompt_token_ids",
]


@given(choices())
def test_the_order_of_newer_versions_is_skimmed_and_says_the_same(made: list[dict[str, Any]]) -> None:
    document = {"choices": [{key: choice[key] for key in NEWER_ORDER} for choice in made], "usage": None}
    text = json.dumps(document, separators=(",", ":")).encode()
    skimmed = _skim(Body(bytearray(text), 0, len(text)), len(made))
    if not any(bad in text for bad in (b"NaN", b"Infinity")):  # no JSON, so that it is left to the thorough way
        assert skimmed is not None
    assert decode(text, samples=len(made)).SerializeToString() == obvious(document).SerializeToString()


def answer(**changes: Any) -> dict[str, Any]:
    choice = {
        "index": 0,
        "logprobs": {"token_logprobs": [-0.5, -1.0]},
        "finish_reason": "length",
        "stop_reason": None,
        "token_ids": [7, 8],
    }
    return {"choices": [{**choice, **changes}]}


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (b"", "not JSON"),
        (b"<html>busy</html>", "begins with '<html>busy"),
        (b'{"choices":[{"index":0,"token_ids":[1,', "not JSON"),
        (json.dumps(answer()).encode()[:-3], "not JSON"),
        (json.dumps(answer(), separators=(",", ":")).encode()[:-1], "not JSON"),
        (b"[]", "no choices"),
        ({}, "no choices"),
        ({"choices": None}, "no choices"),
        ({"choices": []}, "found: none"),
        ({"choices": answer()["choices"] * 2}, "found: 0, 0"),
        (answer(index=1), "found: 1"),
        (answer(token_ids=[1]), "1 tokens but 2 logprobs"),
        (answer(token_ids=None), "no token_ids"),
        (answer(token_ids=["a", "b"]), "token_ids are not all numbers"),
        (answer(token_ids=[1, None]), "token_ids are not all numbers"),
        (answer(token_ids=["1", "2"]), "token_ids are not all numbers"),
        (answer(token_ids=[True, 1]), "token_ids are not all numbers"),
        (answer(token_ids=[1.5, 2]), "token_ids are not all numbers"),
        (answer(token_ids=[1, 2**31]), "2147483648, which is no int32"),
        (answer(token_ids=[1, 2**64 - 1]), "token_ids are not all numbers"),
        (answer(token_ids=[1, 10**30]), "token_ids are not all numbers"),
        (answer(token_ids=5), "no token_ids"),
        (answer(logprobs=None), "no token_logprobs"),
        (answer(logprobs={"token_logprobs": ["-0.5", "-1"]}), "token_logprobs are not all numbers"),
        (answer(logprobs={"token_logprobs": [False, -1]}), "token_logprobs are not all numbers"),
        (answer(logprobs={"token_logprobs": "x"}), "no token_logprobs"),
        (answer(finish_reason=["stop"]), "ended the generation with the reason"),
        (answer(finish_reason={}), "ended the generation with the reason"),
        (answer(index="0"), "index is no whole number"),
        (answer(index=[]), "index is no whole number"),
        (answer(logprobs={"token_logprobs": []}), "2 tokens but 0 logprobs"),
        (answer(logprobs={"token_logprobs": [-0.5, "x"]}), "token_logprobs are not all numbers"),
        (answer(finish_reason="abort"), "reason 'abort'"),
        (answer(finish_reason=None), "reason None"),
    ],
)
@pytest.mark.parametrize("compact", [True, False])
def test_a_body_that_is_no_answer_is_said_to_be_none(document: object, sentence: str, compact: bool) -> None:
    if not isinstance(document, bytes):
        document = json.dumps(document, separators=(",", ":") if compact else None).encode()
    with pytest.raises(BadBodyError, match=sentence):
        decode(document)


def test_more_tokens_than_were_asked_for_are_refused() -> None:
    assert decode(answer(), max_tokens=2).sequences[0].stop_reason == 1
    with pytest.raises(BadBodyError, match="2 tokens where 1 were asked for"):
        decode(answer(), max_tokens=1)


def test_fewer_or_more_choices_than_were_asked_for_are_refused() -> None:
    with pytest.raises(BadBodyError, match="2 choices with an index each, found: 0"):
        decode(answer(), samples=2)


def test_prompt_logprobs_are_those_of_the_prompts_own_tokens() -> None:
    positions = [None, {"9": {"logprob": -1.0}, "6": {"logprob": -2.0}}, {"7": {"logprob": -3}}]
    found = decode(answer(prompt_logprobs=positions), prompt=[5, 6, 7])
    assert found.prompt_logprobs == float32(None) + float32(-2.0) + float32(-3.0)
    with pytest.raises(BadBodyError, match="3 prompt logprobs for 2 prompt tokens"):
        decode(answer(prompt_logprobs=positions), prompt=[5, 6])
    with pytest.raises(BadBodyError, match="none prompt logprobs"):
        decode(answer(), prompt=[5, 6])
    with pytest.raises(BadBodyError, match="lack a token"):
        decode(answer(prompt_logprobs=positions), prompt=[5, 1, 7])
    for nonsense in ([5, 5], [None, {"6": {"logprob": "x"}}], [None, {"6": {"logprob": [-1.0]}}]):
        with pytest.raises(BadBodyError, match="lack a token"):
            decode(answer(prompt_logprobs=nonsense), prompt=[5, 6])
    with pytest.raises(BadBodyError, match="none prompt logprobs"):
        decode(answer(prompt_logprobs=5), prompt=[5, 6])


def test_numbers_beyond_float32_are_infinite() -> None:
    found = decode(answer(logprobs={"token_logprobs": [-1e300, -(10**30)]}))
    assert found.sequences[0].logprobs == float32(-math.inf) + float32(-1e30)


@given(choices())
def test_json_for_older_clients_says_the_same(made: list[dict[str, Any]]) -> None:
    response = obvious({"choices": made})
    found = json.loads(sample_response_json(response.SerializeToString()))
    for sequence, choice in zip(found["sequences"], sorted(made, key=lambda choice: int(choice["index"])), strict=True):
        assert sequence["tokens"] == choice["token_ids"]
        assert sequence["stop_reason"] == choice["finish_reason"]
        for number, logprob in zip(sequence["logprobs"], choice["logprobs"]["token_logprobs"], strict=True):
            finite = logprob is not None and math.isfinite(struct.unpack("<f", float32(logprob))[0])
            assert (number is None) == (not finite)
            assert number is None or float32(number) == float32(logprob)


def test_json_for_older_clients_has_the_likeliest_tokens_of_the_prompt() -> None:
    ids, logprobs = np.array([0, 0, 7, 8, 9, 0], "<i4"), np.array([-99999, -99999, -0.1, -2, -0.5, -99999], "<f4")
    topk = TopkLogprobs(token_ids=ids.tobytes(), logprobs=logprobs.tobytes(), k=2, length=3)
    found = json.loads(sample_response_json(SampleResponse(topk_prompt_logprobs=topk).SerializeToString()))
    assert found["topk_prompt_logprobs"] == [None, [[7, -0.1], [8, -2.0]], [[9, -0.5]]]
