"""Requests, read as vLLM reads them, and what is said of those that are none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mockengine.protocol import BadRequestError, CompletionRequest, parse_completion_request

MAX_MODEL_LEN = 1000


def parse(document: object) -> CompletionRequest:
    return parse_completion_request(json.dumps(document).encode(), MAX_MODEL_LEN)


@pytest.mark.parametrize(
    ("prompt", "tokens"),
    [
        ([5, 0, 2**31 - 1], [5, 0, 2**31 - 1]),
        ([[5, 6]], [5, 6]),  # a batch of one
        ("aé", [0x61, 0xC3, 0xA9]),  # a text is a token for each byte
    ],
)
def test_the_forms_of_a_prompt(prompt: object, tokens: list[int]) -> None:
    assert parse({"prompt": prompt, "max_tokens": 3}) == CompletionRequest(prompt=tokens, max_tokens=3)


def test_what_vllm_takes_as_absent_is_absent_and_unknown_fields_are_ignored() -> None:
    nulls = ("model", "seed", "logprobs", "prompt_logprobs")
    found = parse({"prompt": [1], **dict.fromkeys(nulls), "top_k": -1, "temperature": 0.5})
    assert found == CompletionRequest(prompt=[1])


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"prompt": None}, r"`\$\.prompt`"),
        ({"prompt": []}, "prompt: there are no tokens"),
        ({"prompt": ""}, "prompt: there are no tokens"),
        ({"prompt": [[]]}, "prompt: there are no tokens"),
        ({"prompt": [[1], [2]]}, r"`\$\.prompt\[0\]`"),
        ({"prompt": [1, -1]}, r"`\$\.prompt\[1\]`"),
        ({"prompt": [[1, -1]]}, r"`\$\.prompt\[1\]`"),
        ({"prompt": [2**31]}, r"`\$\.prompt\[0\]`"),
        ({"prompt": [10**30]}, r"`\$\.prompt\[0\]`"),
        ({"max_tokens": 0}, r"`\$\.max_tokens`"),
        ({"max_tokens": "5"}, r"`\$\.max_tokens`"),
        ({"max_tokens": MAX_MODEL_LEN}, "max_tokens: .* 1000 tokens, but 1 in the prompt and 1000 to be made"),
        ({"n": 0}, r"`\$\.n`"),
        ({"n": 257}, r"`\$\.n`"),
        ({"seed": 0.5}, r"`\$\.seed`"),
        ({"logprobs": 21}, r"`\$\.logprobs`"),
        ({"prompt_logprobs": True}, r"`\$\.prompt_logprobs`"),
        ({"return_token_ids": 1}, r"`\$\.return_token_ids`"),
        ({"stream": True}, "stream: .* does not stream"),
    ],
)
def test_mistakes_are_sentences_that_name_the_field(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(BadRequestError, match=sentence):
        parse({"prompt": [1], **fields})


def test_the_longest_answer_that_fits_is_taken() -> None:
    assert parse({"prompt": [1], "max_tokens": MAX_MODEL_LEN - 1}).max_tokens == MAX_MODEL_LEN - 1


@given(st.binary() | st.recursive(st.none() | st.integers(), st.lists).map(json.dumps).map(str.encode))
def test_nonsense_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(BadRequestError, match="not a completion request"):
        parse_completion_request(body, MAX_MODEL_LEN)


def test_endless_nesting_is_a_bad_request() -> None:
    with pytest.raises(BadRequestError, match="not a completion request"):
        parse_completion_request(b'{"prompt": [1], "x": ' + b"[" * 100_000, MAX_MODEL_LEN)
