"""Both result paths serve the same bytes for the same body, and refuse the same bodies."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server_under_test.decode import BadBodyError, Wanted
from server_under_test.http_answer import Body
from server_under_test.json_reencode import JsonReencode
from server_under_test.result_path import ProtoOnce, ResultPath

PROMPT = [5, 6, 7]
logprobs = st.one_of(
    st.none(),
    st.integers(-50, 0),
    st.floats(-1e30, 0),
    st.sampled_from([-1e-45, -1e300, math.nan, -math.inf, math.inf]),
)
finite = st.floats(-1e30, 0)
tops = st.none() | st.dictionaries(st.integers(0, 99_999).map("token_id:{}".format), finite, max_size=4)


@st.composite
def bodies(draw: st.DrawFn) -> tuple[dict[str, Any], Wanted]:
    samples = draw(st.integers(1, 3))
    wanted = Wanted(
        samples=samples,
        prompt=draw(st.sampled_from([None, PROMPT])),
        prompt_logprobs=draw(st.booleans()),
        topk=draw(st.integers(0, 3)),
        prompt_topk=draw(st.integers(0, 2)),
    )
    choices = []
    for index in draw(st.permutations(range(samples))):
        size = draw(st.integers(0, 8))
        others = draw(st.lists(st.dictionaries(st.integers(10, 99), finite, max_size=3), min_size=2, max_size=2))
        positions = [None] + [
            {str(token): {"logprob": value, "rank": rank} for rank, (token, value) in enumerate(entries.items(), 1)}
            for entries in ({6: -1.5} | others[0], {7: -2.5} | others[1])
        ]
        choices.append(
            {
                "index": index,
                "text": "",
                "logprobs": {
                    "text_offset": [],
                    "token_logprobs": draw(st.lists(logprobs, min_size=size, max_size=size)),
                    "tokens": [],
                    "top_logprobs": draw(st.lists(tops, min_size=size, max_size=size)),
                },
                "finish_reason": draw(st.sampled_from(["stop", "length"])),
                "stop_reason": None,
                "token_ids": draw(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=size, max_size=size)),
                "prompt_logprobs": positions,
                "prompt_token_ids": None,
            }
        )
    return {"id": "x", "choices": choices}, wanted


def served(path: ResultPath, document: object, wanted: Wanted) -> tuple[bytes, bytes] | None:
    """What a client gets as protobuf and as JSON; None for a body that is refused."""
    text = document if isinstance(document, bytes) else json.dumps(document, separators=(",", ":")).encode()
    try:
        kept = path.keep(Body(bytearray(text), 0, len(text)), wanted)
    except BadBodyError:
        return None

    async def both() -> tuple[bytes, bytes]:
        return await path.protobuf(kept), await path.json(kept)

    return asyncio.run(both())


@given(bodies())
def test_the_same_bytes_are_served(body: tuple[dict[str, Any], Wanted]) -> None:
    document, wanted = body
    once = served(ProtoOnce(), document, wanted)
    assert once is not None
    assert served(JsonReencode(), document, wanted) == once


def right() -> dict[str, Any]:
    logprobs = {"token_logprobs": [-1.0, -2.0], "top_logprobs": [{"token_id:3": -1.0}, {"token_id:4": -2.0}]}
    positions = [None, {"6": {"logprob": -1.0, "rank": 1}}, {"7": {"logprob": -1.0, "rank": 1}}]
    choice = {"index": 0, "finish_reason": "length", "token_ids": [3, 4], "logprobs": logprobs}
    return {"choices": [{**choice, "prompt_logprobs": positions}]}


WANTED = Wanted(samples=1, max_tokens=2, prompt=PROMPT, prompt_logprobs=True, topk=1, prompt_topk=1)


def changed(**fields: object) -> dict[str, Any]:
    document = right()
    document["choices"][0].update(fields)
    return document


@pytest.mark.parametrize(
    "document",
    [
        b"",
        b"{",
        b"[]",
        {"choices": []},
        {"choices": right()["choices"] * 2},
        changed(index=1),
        changed(index="0"),
        changed(finish_reason="abort"),
        changed(finish_reason=None),
        changed(token_ids=[3]),
        changed(token_ids=[3, 4, 5]),
        changed(token_ids=[3, 2**31]),
        changed(token_ids=[3, 4.5]),
        changed(token_ids=None),
        changed(logprobs=None),
        changed(logprobs={"token_logprobs": [-1.0], "top_logprobs": [{}]}),
        changed(logprobs={"token_logprobs": [-1.0, "-2.0"], "top_logprobs": [{}, {}]}),
        changed(logprobs={"token_logprobs": [-1.0, -2.0]}),
        changed(logprobs={"token_logprobs": [-1.0, -2.0], "top_logprobs": [{}]}),
        changed(logprobs={"token_logprobs": [-1.0, -2.0], "top_logprobs": [{"a": -1.0}, {}]}),
        changed(prompt_logprobs=None),
        changed(prompt_logprobs=[None, {}]),
        changed(prompt_logprobs=[None, {"5": {"logprob": -1.0, "rank": 1}}, None]),
    ],
)
def test_the_same_bodies_are_refused(document: object) -> None:
    assert served(ProtoOnce(), right(), WANTED) == served(JsonReencode(), right(), WANTED) is not None
    assert served(ProtoOnce(), document, WANTED) is None
    assert served(JsonReencode(), document, WANTED) is None
