"""Requests: what is understood, and which field is named when one is not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server_under_test.messages import MalformedError, completion_body, parse_sample_request, prompt_tokens


def request(**changes: Any) -> dict[str, Any]:
    plain = {
        "prompt": {"chunks": [{"type": "encoded_text", "tokens": [1, 2]}]},
        "sampling_params": {"max_tokens": 7},
        "base_model": "m",
    }
    return {**plain, **changes}


def forwarded(document: dict[str, Any]) -> dict[str, Any]:
    parsed = parse_sample_request(json.dumps(document).encode())
    body: dict[str, Any] = json.loads(completion_body("m", parsed, prompt_tokens(parsed.prompt)))
    return body


def test_the_engine_is_asked_for_what_the_client_asked_for() -> None:
    params = {"max_tokens": 7, "seed": 3, "temperature": 0.5, "top_k": -1, "top_p": 0.9, "stop": ["a", "b"]}
    found = forwarded(request(sampling_params=params, num_samples=4, prompt_logprobs=True))
    assert found == {
        "model": "m",
        "prompt": [1, 2],
        "n": 4,
        "logprobs": 1,
        "stream": False,
        "return_token_ids": True,
        **params,
        "prompt_logprobs": 1,
    }


def test_absent_and_null_mean_the_same() -> None:
    nothing = request(sampling_params={}, prompt={"chunks": [{"tokens": [1, 2]}]})
    nulls = request(
        sampling_params=dict.fromkeys(("max_tokens", "seed", "temperature", "top_k", "top_p", "stop")),
        prompt={"chunks": [{"tokens": [1, 2], "type": None}]},
        num_samples=None,
        prompt_logprobs=None,
        topk_sample_logprobs=None,
        seq_id=None,
    )
    assert forwarded(nothing) == forwarded(nulls)
    assert forwarded(nothing)["n"] == 1


def test_stop_token_ids_have_a_field_of_their_own() -> None:
    found = forwarded(request(sampling_params={"stop": [13, 50]}))
    assert found["stop_token_ids"] == [13, 50]
    assert "stop" not in found


@given(st.lists(st.lists(st.integers(0, 10**6), max_size=20), min_size=1, max_size=5), st.sampled_from([None, 1]))
def test_prompts_are_forwarded_whole_however_they_are_written(chunks: list[list[int]], indent: int | None) -> None:
    document = request(prompt={"chunks": [{"tokens": tokens} for tokens in chunks]})
    parsed = parse_sample_request(json.dumps(document, indent=indent).encode())
    everything = [token for tokens in chunks for token in tokens]
    if everything:
        assert json.loads(prompt_tokens(parsed.prompt)) == everything
    else:
        with pytest.raises(MalformedError, match="no tokens"):
            prompt_tokens(parsed.prompt)


@pytest.mark.parametrize(
    ("document", "field"),
    [
        (request(num_samples="x"), r"\$\.num_samples"),
        (request(num_samples=0), r"\$\.num_samples"),
        (request(sampling_params={"max_tokens": 1.5}), r"\$\.sampling_params\.max_tokens"),
        (request(sampling_params={"max_tokens": 0}), r"\$\.sampling_params\.max_tokens"),
        (request(sampling_params=None), r"\$\.sampling_params"),
        (request(prompt={"chunks": 5}), r"\$\.prompt\.chunks"),
        (request(prompt={"chunks": [{}]}), r"tokens.*\$\.prompt\.chunks\[0\]"),
        ({"sampling_params": {}}, "prompt"),
        (request(topk_sample_logprobs=21), r"\$\.topk_sample_logprobs"),
        (request(seq_id="1"), r"\$\.seq_id"),
        ([], "object"),
    ],
)
def test_a_malformed_request_names_the_field(document: object, field: str) -> None:
    with pytest.raises(MalformedError, match=field):
        parse_sample_request(json.dumps(document).encode())


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"nonsense"])
def test_what_is_no_json_is_said_to_be_none(body: bytes) -> None:
    with pytest.raises(MalformedError, match="not JSON"):
        parse_sample_request(body)


@pytest.mark.parametrize(
    "tokens", [-1, "1", [[1]], ["1"], [1.5], [-1], [True], [None], {}, None, [1, [2]], 5, [{}], [1e3]]
)
def test_tokens_must_be_whole_numbers(tokens: object) -> None:
    parsed = parse_sample_request(json.dumps(request(prompt={"chunks": [{"tokens": tokens}]})).encode())
    with pytest.raises(MalformedError, match=r"prompt\.chunks\[0\]\.tokens should be a list of token ids"):
        prompt_tokens(parsed.prompt)


def test_other_kinds_of_chunks_are_refused_by_name() -> None:
    document = request(prompt={"chunks": [{"tokens": [1]}, {"tokens": [], "type": "image"}]})
    parsed = parse_sample_request(json.dumps(document).encode())
    with pytest.raises(MalformedError, match=r"chunks\[1\]\.type should be encoded_text, found 'image'"):
        prompt_tokens(parsed.prompt)
