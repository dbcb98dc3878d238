"""Faults as they are written, and which request gets which."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mockengine.faults import KINDS, FaultError, Plan, Rule, describe, parse_rule, parse_rule_words, read_rules


def drawn(plan: Plan, requests: int, model: str = "m", choices: int = 1, now: float = 0.0) -> list[str | None]:
    hits = [plan.draw(model, choices, now) for _ in range(requests)]
    return [hit.kind if hit else None for hit in hits]


def plan(*rules: Rule, seed: int = 0) -> Plan:
    return Plan(rules, seed, now=0.0)


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ("http_500", Rule(kind="http_500", parameters={"html": False})),
        (
            "http_503:probability=0.01,retry_after=2s,html=true",
            Rule(kind="http_503", probability=0.01, parameters={"html": True, "retry_after": 2.0}),
        ),
        (
            "stall_in_body:every=100,first=3,after=1m,before=90s,model=other,seconds=250ms",
            Rule(
                kind="stall_in_body",
                every=100,
                first=3,
                after_s=60.0,
                before_s=90.0,
                model="other",
                parameters={"seconds": 0.25},
            ),
        ),
        ("token_count:by=-3", Rule(kind="token_count", parameters={"by": -3})),
        ("finish_reason:value=content_filter", Rule(kind="finish_reason", parameters={"value": "content_filter"})),
    ],
)
def test_the_words_of_the_command_line(words: str, rule: Rule) -> None:
    assert parse_rule_words(words) == rule


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("", "no fault of the kind ''. There are: http_400, "),
        ("http_501", "no fault of the kind 'http_501'. Did you mean 'http_50"),
        ("http_500:", ""),
        ("http_500:0.5", "KIND:name=value,name=value, found 'http_500:0.5'"),
        ("http_500:probabilty=0.5", "http_500 has no 'probabilty'. Did you mean 'probability'?"),
        ("http_500:seconds=5s", "http_500 has no 'seconds'"),
        ("http_500:probability=2", "probability should be a number of at least 0 and at most 1, found '2'"),
        ("http_500:probability=nan", "probability should be a number"),
        ("http_500:first=0", "first should be a number of at least 1, found '0'"),
        ("http_500:every=1.5", "every should be a whole number, found '1.5'"),
        ("http_500:html=perhaps", "html should be true or false, found 'perhaps'"),
        ("stall_in_body:seconds=5", "seconds: A time is written like 5s, 250ms, 600us or 1.5m, found '5'"),
        ("stall_in_body:seconds=-5s", "seconds: A time is written like"),
        ("slow_drip:bytes_per_s=0", "bytes_per_s should be a number of at least 1, found '0'"),
        ("slow_drip:bytes_per_s=inf", "bytes_per_s should be a whole number, found 'inf'"),
        ("token_count:by=0", "by should be another number than 0"),
    ],
)
def test_mistakes_are_sentences(words: str, sentence: str) -> None:
    if not sentence:
        assert parse_rule_words(words) == parse_rule_words(words.rstrip(":"))
        return
    with pytest.raises(FaultError) as caught:
        parse_rule_words(words)
    assert sentence in str(caught.value)


def test_a_file_of_faults(tmp_path: Path) -> None:
    path = tmp_path / "faults.toml"
    path.write_text(
        '[[fault]]\nkind = "http_400"\nfirst = 2\n\n[[fault]]\nkind = "slow_drip"\nbytes_per_s = 500\nafter = "5s"\n'
    )
    assert read_rules(path) == [
        Rule(kind="http_400", first=2, parameters={"html": False}),
        Rule(kind="slow_drip", after_s=5.0, parameters={"bytes_per_s": 500}),
    ]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "can't be read from .*: No such file"),
        ("kind = ", "is not TOML: "),
        ("", "should hold a list of faults"),
        ("fault = 5", "should hold a list of faults"),
        ("[[faults]]\nkind = 'http_400'", "should hold a list of faults"),
        ("[[fault]]\nkind = 'http_400'\nfirst = true", "first should be a number of at least 1, found True"),
        ("[[fault]]\nfirst = 1", "no fault of the kind 'None'"),
    ],
)
def test_mistakes_in_a_file_are_sentences(tmp_path: Path, content: str | None, sentence: str) -> None:
    path = tmp_path / "faults.toml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(FaultError, match=sentence):
        read_rules(path)


kinds = st.sampled_from(sorted(KINDS))
rules = st.builds(
    lambda kind, **limits: parse_rule({"kind": kind, **{name: value for name, value in limits.items() if value}}),
    kinds,
    probability=st.none() | st.floats(0.01, 1),
    first=st.none() | st.integers(1, 5),
    every=st.none() | st.integers(1, 5),
    after=st.none() | st.floats(0, 10),
    before=st.none() | st.floats(0, 20),
    model=st.none() | st.sampled_from(["m", "other"]),
)
arrivals = st.lists(st.tuples(st.sampled_from(["m", "other"]), st.integers(1, 2)), max_size=60)


@given(rules)
def test_a_rule_is_described_in_the_words_that_make_it(rule: Rule) -> None:
    assert parse_rule(describe(rule)) == rule


@given(st.lists(rules, max_size=4), st.integers(0, 99), arrivals)
def test_the_same_seed_and_order_of_arrivals_give_the_same_faults(
    some: Sequence[Rule], seed: int, requests: list[tuple[str, int]]
) -> None:
    one, two = (Plan(some, seed, 0.0) for _ in range(2))
    hits = [[p.draw(*request, now=number / 3) for number, request in enumerate(requests)] for p in (one, two)]
    assert hits[0] == hits[1]
    for rule in some:
        count = sum(hit is rule for hit in hits[0])
        assert rule.first is None or count <= rule.first * some.count(rule)
    for number, ((model, choices), hit) in enumerate(zip(requests, hits[0], strict=True)):
        if hit is not None:
            assert hit.model in (None, model)
            assert choices >= KINDS[hit.kind].needs_choices
            assert hit.after_s <= number / 3 < hit.before_s


@given(st.lists(rules, min_size=1, max_size=3), arrivals, st.integers(0, 59))
def test_a_plan_that_was_saved_goes_on_as_if_nothing_had_been(
    some: Sequence[Rule], requests: list[tuple[str, int]], cut: int
) -> None:
    whole, first, second = (Plan(some, 7, 0.0) for _ in range(3))
    expected = [whole.draw(*request, now=1.0) for request in requests]
    found = []
    for request in requests[:cut]:
        if (hit := first.draw(*request, now=1.0)) is not None:
            first.count(hit)
        found.append(hit)
    second.resume(first.saved(now=1.0), now=501.0)
    found += [second.draw(*request, now=501.0) for request in requests[cut:]]
    assert found == expected
    assert second.injected == first.injected


def test_limits() -> None:
    assert drawn(plan(Rule(kind="http_500", first=2)), 4) == ["http_500", "http_500", None, None]
    assert drawn(plan(Rule(kind="http_500", every=3)), 7) == [None, None, "http_500", None, None, "http_500", None]
    assert drawn(plan(Rule(kind="http_500", every=2, first=1)), 5) == [None, "http_500", None, None, None]
    between = Rule(kind="http_500", after_s=5.0, before_s=6.0)
    assert [drawn(plan(between), 1, now=now)[0] for now in (4.9, 5.0, 5.9, 6.0)] == [None, "http_500", "http_500", None]
    only = plan(Rule(kind="http_500", model="a", first=1))
    assert [only.draw(model, 1, 0.0) is not None for model in ("b", "a", "a")] == [False, True, False]
    assert drawn(plan(Rule(kind="reordered_choices")), 1, choices=1) == [None]
    assert drawn(plan(Rule(kind="reordered_choices")), 1, choices=2) == ["reordered_choices"]


def test_a_probability_is_kept_and_the_first_rule_of_two_has_the_request() -> None:
    both = plan(Rule(kind="http_500", probability=0.3), Rule(kind="http_400", probability=0.5))
    found = drawn(both, 10_000)
    assert found.count("http_500") == pytest.approx(3000, abs=200)
    assert found.count("http_400") == pytest.approx(3500, abs=200)  # half of those that the other one leaves


def test_one_rule_does_not_change_what_another_draws() -> None:
    rule = Rule(kind="http_400", probability=0.2)
    alone = drawn(plan(Rule(kind="http_500", probability=0.0), rule), 500)
    beside = drawn(plan(Rule(kind="http_500", probability=0.5), rule), 500)
    assert all(b in (a, "http_500") for a, b in zip(alone, beside, strict=True))


def test_times_count_from_the_setting_of_the_list_and_what_was_injected_stays_counted() -> None:
    some = plan(Rule(kind="http_500"))
    hit = some.draw("m", 1, 3.0)
    assert hit is not None
    some.count(hit)
    some.set([Rule(kind="http_400", after_s=1.0, before_s=math.inf)], now=10.0)
    assert some.draw("m", 1, 10.5) is None
    assert some.draw("m", 1, 11.5) is not None
    assert some.injected == {"http_500": 1}
