"""Injected faults against observed ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import pytest

from reports.assessment import assess
from reports.fault_table import reconciled
from reports.schema import ErrorExample, InjectedFault, LoadFacts
from reports.scrape import parse_injected

METRICS = """\
# HELP mockengine_faults_injected_total Faults injected.
# TYPE mockengine_faults_injected_total counter
mockengine_faults_injected_total{kind="http_500",outcome="failed"} 3.0
mockengine_faults_injected_total{kind="null_logprobs",outcome="altered"} 2.0
mockengine_faults_injected_total{kind="http_503",outcome="retried"} 7.0
mockengine_faults_injected_total{kind="slow_drip",outcome="delivered"} 0.0
vllm:num_requests_running 3
"""


@pytest.mark.parametrize(
    ("verification", "errors", "injected", "observed", "remark"),
    [
        ("corpus", {"future failed: 500": 3, "result: corrupted": 2, "poll 503": 9}, 5, 5, "equal"),
        ("corpus", {"future failed: 500": 4, "result: corrupted": 2}, 5, 6, "1 more"),
        ("corpus", {"future failed: 500": 3}, 5, 3, "2 fewer"),
        ("shape", {"future failed: 500": 3}, 3, 3, "equal"),
    ],
)
def test_what_was_injected_is_compared_with_what_ended_futures(
    make_facts: Callable[..., LoadFacts],
    verification: Literal["corpus", "shape"],
    errors: dict[str, int],
    injected: int,
    observed: int,
    remark: str,
) -> None:
    examples = [ErrorExample(name=name, count=count, example="x") for name, count in errors.items()]
    facts = make_facts(verification=verification, errors=examples, injected=parse_injected(METRICS))
    fatal, *survived = reconciled(assess(facts, [], [], {}))
    assert (fatal.injected, fatal.observed) == (injected, observed)
    assert fatal.remark.startswith(remark)
    assert "3 × http_500" in fatal.kinds
    assert "poll 503" not in fatal.classes
    assert [row.injected for row in survived] == ([7] if verification == "corpus" else [2, 7])


def test_without_faults_there_is_no_table(make_facts: Callable[..., LoadFacts]) -> None:
    none = [InjectedFault(kind="http_500", outcome="failed", count=0)]
    assert reconciled(assess(make_facts(injected=none), [], [], {})) == []
    assert reconciled(assess(make_facts(), [], [], {})) == []
