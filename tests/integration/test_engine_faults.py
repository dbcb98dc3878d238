"""Every kind of fault, from the engine through the server to a client: the outcome that docs/engine.md promises."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mockengine import RunningEngine, running
from mockengine.corpus import Corpus
from mockengine.faults import KINDS, Outcome
from server_under_test.proto import SampleResponse
from tests.server_under_test.client import Client, server
from tests.waiting import wait_for

TOKENS = 40
REQUEST = {"num_samples": 2, "sampling_params": {"max_tokens": TOKENS, "seed": 7}, "base_model": "mock"}

# What the sentence of a failed future says.
SENTENCES = {
    "http_400": "The engine answered 400: ",
    "http_408": "The engine answered 408: ",
    "http_500": "The engine answered 500: ",
    "http_502": "The engine answered 502: ",
    "html_200": "The engine answered 200 with text/html; charset=utf-8: <html>",
    "empty_200": "The engine's answer is not JSON",
    "truncated_json": "The engine's answer is not JSON",
    "wrong_content_length": "The engine's answer broke off in the middle.",
    "reset_before_headers": "The engine closed the connection without an answer.",
    "reset_in_headers": "The engine's answer broke off in the middle.",
    "reset_in_body": "The engine's answer broke off in the middle.",
    "missing_logprobs": "The engine's answer has no token_logprobs.",
    "empty_logprobs": "The engine sent 40 tokens but 0 logprobs.",
    "token_count": "The engine sent 39 tokens and says that 40",
    "duplicate_choice": "The engine should have sent 2 choices with an index each, found: 0, 1, 0.",
    "finish_reason": "The engine ended the generation with the reason 'abort'.",
    "restart": "The engine closed the connection without an answer.",
}
PARAMETERS: dict[str, dict[str, Any]] = {
    "stall_before_first_byte": {"seconds": "500ms"},
    "stall_in_body": {"seconds": "500ms"},
    "slow_drip": {"bytes_per_s": 10_000},
    "idle_close": {"seconds": "1ms"},
}


@pytest.fixture(scope="module")
def engine() -> Iterator[RunningEngine]:
    with running(body_profile="lean", service_time="fixed:0s") as engine:
        yield engine


@pytest.fixture
def client(engine: RunningEngine) -> Iterator[Client]:
    """Of a server of its own, so that its connections to the engine are new."""
    with server(engine.url) as client:
        yield client
    engine.set_faults([])


def is_right(answer: object) -> bool:
    """Whether a result is the corpus's, to the byte."""
    corpus = Corpus("lean")
    return isinstance(answer, SampleResponse) and [
        (sequence.tokens, sequence.logprobs) for sequence in answer.sequences
    ] == [(corpus.tokens(7, index, TOKENS), corpus.logprobs(7, index, TOKENS)) for index in range(2)]


def result(client: Client) -> Any:
    status, answer = client.retrieve(client.submit(**REQUEST))
    assert status == 200
    return answer


CASES = [(kind, PARAMETERS.get(kind, {})) for kind in KINDS]
CASES += [(kind, {"html": True}) for kind in KINDS if "html" in KINDS[kind].defaults]


@pytest.mark.parametrize(("kind", "parameters"), CASES)
def test_the_outcome_of_each_kind(engine: RunningEngine, client: Client, kind: str, parameters: dict[str, Any]) -> None:
    before = engine.injected().get(kind, 0)
    engine.set_faults([{"kind": kind, "first": 1, **parameters}])
    answer = result(client)
    after = result(client)  # which for close_on_reuse is the one that meets it
    assert engine.injected()[kind] == before + 1
    assert is_right(after)
    match KINDS[kind].outcome:
        case Outcome.FAILED:
            assert answer["category"] == "server"
            assert SENTENCES[kind] in answer["error"]
            if kind.startswith("http_"):
                assert ("<html>" if "html" in parameters else "(injected)") in answer["error"]
        case Outcome.ALTERED:
            check_altered(kind, answer)
        case Outcome.DELIVERED | Outcome.RETRIED:
            assert is_right(answer)
    retried = {"http_429": "refused", "http_503": "refused", "close_on_reuse": "keep_alive", "restart": "connect"}
    reason = retried.get(kind)
    metrics = client.metrics()
    # Whether the second request comes just as idle_close closes is chance; either way it has its answer.
    for name in {"refused", "keep_alive", "connect"} - ({"keep_alive"} if kind == "idle_close" else set()):
        assert (metrics[f"server_engine_retries_total{name}"] > 0) == (name == reason)
    assert metrics["server_futures_totalfailed"] == (KINDS[kind].outcome is Outcome.FAILED)


def check_altered(kind: str, answer: Any) -> None:
    corpus = Corpus("lean")
    found = np.frombuffer(answer.sequences[0].logprobs, "<f4")
    sent = np.frombuffer(corpus.logprobs(7, 0, TOKENS), "<f4").copy()
    sent[[0, TOKENS // 2]] = -math.inf if kind == "infinite_logprobs" else math.nan
    np.testing.assert_array_equal(found, sent)
    assert answer.sequences[0].tokens == corpus.tokens(7, 0, TOKENS)
    assert answer.sequences[1].logprobs == corpus.logprobs(7, 1, TOKENS)


def test_connections_refused_for_a_while_delay_futures_and_lose_none(engine: RunningEngine, client: Client) -> None:
    engine.set_faults([{"kind": "port_closed", "first": 1, "seconds": "1s"}])
    engine.hold()  # so that each request needs a connection of its own
    ids = [client.submit(**REQUEST) for _ in range(4)]
    wait_for(lambda: client.metrics()["server_engine_retries_totalconnect"] > 0)
    engine.release()
    assert all(is_right(client.retrieve(request_id)[1]) for request_id in ids)
    assert client.metrics()["server_futures_totalfailed"] == 0


def test_a_reset_on_a_used_connection_is_a_race_only_at_once(client: Client, engine: RunningEngine) -> None:
    assert is_right(result(client))
    engine.set_faults([{"kind": "reset_before_headers", "first": 1}])
    assert is_right(result(client))
    assert client.metrics()["server_engine_retries_totalkeep_alive"] == 1
    engine.set_service_time("fixed:1200ms")
    engine.set_faults([{"kind": "reset_before_headers", "first": 1}])
    assert SENTENCES["reset_before_headers"] in result(client)["error"]
    engine.set_service_time("fixed:0s")
    assert client.metrics()["server_engine_retries_totalkeep_alive"] == 1


def test_refusals_without_end_fail_the_future_with_what_the_engine_said(engine: RunningEngine, client: Client) -> None:
    engine.set_faults([{"kind": "http_503", "retry_after": "0s"}])
    assert "The engine answered 503: " in result(client)["error"]
    assert client.metrics()["server_engine_retries_totalrefused"] == 5


def test_a_stall_longer_than_the_time_out_fails_the_future(engine: RunningEngine) -> None:
    for kind in ("stall_before_first_byte", "stall_in_body"):
        engine.set_faults([{"kind": kind, "first": 1, "seconds": "1m"}])
        with server(engine.url, "--engine-timeout", "500ms") as client:
            assert result(client)["error"] == "The engine gave no result within 0.5 s."
            assert is_right(result(client))
    engine.set_faults([])
