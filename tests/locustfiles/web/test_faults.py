"""Faults in words."""

from __future__ import annotations

from typing import Any

import pytest

from locustfiles.web.faults import _WORDS, described, in_words
from mockengine.faults import _LIMITS, KINDS, describe, parse_rule, parse_rule_words


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        ("http_500", "http_500"),
        ("http_500:probability=0.07,html=true", "http_500 (7 % of requests, as an HTML page)"),
        ("http_503:first=10,every=2", "http_503 (10 times at most, one request in 2, Retry-After 1 s)"),
        ("slow_drip:after=5s,before=1.5m", "slow_drip (from 5 s on, until 90 s, 10,000 bytes/s)"),
        ("token_count:by=3,model=b", "token_count (model b, by +3)"),
        ("finish_reason", "finish_reason (abort)"),
        ("restart", "restart (1 s)"),
    ],
)
def test_a_rule_in_words(rule: str, words: str) -> None:
    assert in_words(describe(parse_rule_words(rule))) == words


@pytest.mark.parametrize("kind", KINDS)
def test_there_are_words_for_all_that_a_rule_may_have(kind: str) -> None:
    assert {"kind", *_LIMITS, *KINDS[kind].defaults} <= set(_WORDS)


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        ([], "The engine's faults were switched off."),
        ([{"kind": "html_200"}, {"kind": "restart"}], "The engine's faults were set: html_200, restart (1 s)."),
    ],
)
def test_all_rules_in_a_sentence(rules: list[dict[str, Any]], sentence: str) -> None:
    assert described([describe(parse_rule(rule)) for rule in rules]) == sentence


@pytest.mark.parametrize(("kind", "effect"), [(name, kind.effect) for name, kind in KINDS.items()])
def test_an_effect_can_be_read_by_itself(kind: str, effect: str) -> None:
    assert effect.endswith(".")
    assert len(effect.split()) > 3, kind
    assert "same" not in effect, kind
