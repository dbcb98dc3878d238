"""The verdict, one reason at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from reports.judge import judge
from reports.schema import (
    EngineUse,
    ErrorExample,
    FutureCounts,
    LoadFacts,
    LoadUse,
    TargetUse,
    ThresholdResult,
    Verdict,
)

GOOD = FutureCounts(submitted=1000, delivered=1000, verified=1000)
IDLE_LOAD = LoadUse(cpu_s=1.0, cpu_s_per_result=0.001, cpu_utilisation=0.2, lag_p99_s=0.01, saturated=False)


def error(name: str) -> ErrorExample:
    return ErrorExample(name=name, count=3, example="x")


def futures(**counts: int) -> dict[str, Any]:
    return {"futures": msgspec.structs.replace(GOOD, **counts)}


def test_a_run_in_which_all_went_well_passes(make_facts: Callable[..., LoadFacts]) -> None:
    verdict, reasons = judge(make_facts(), IDLE_LOAD, TargetUse(results_served=1000), EngineUse(finished=1000))
    assert verdict == "pass"
    assert len(reasons) == 1


@pytest.mark.parametrize("served", [None, 1000, 1003])  # not measured, equal, and some served again
def test_a_target_may_serve_a_result_again(make_facts: Callable[..., LoadFacts], served: int | None) -> None:
    assert judge(make_facts(), IDLE_LOAD, TargetUse(results_served=served), EngineUse())[0] == "pass"


@pytest.mark.parametrize(
    ("changes", "served", "finished", "verdict", "said"),
    [
        ({"ended": None}, None, None, "invalid", "has not ended"),
        ({"ended": "cut", "cut_reason": "Worker 1 died."}, None, None, "invalid", "Worker 1 died."),
        ({"ended": "cut"}, None, None, "invalid", "was cut short"),
        (
            {"errors": [error("client_ports")]},
            None,
            None,
            "invalid",
            "3 requests failed for want of the load",
        ),
        ({"errors": [error("client_files")]}, None, None, "invalid", "own open files"),
        ({"errors": [error("poll 503")]}, None, None, "pass", "All 1,000"),
        ({"ended": "aborted", "cut_reason": "It grew."}, None, None, "fail", "It grew."),
        ({"ended": "aborted", "cut_reason": "It grew.", "futures": FutureCounts()}, None, None, "fail", "It grew."),
        ({"futures": FutureCounts()}, None, None, "invalid", "No future was delivered"),
        (futures(verified=990), None, None, "invalid", "10 delivered results were not verified"),
        (futures(submitted=1001), None, None, "invalid", "1,001 futures were submitted, and 1,000 ended"),
        ({}, 999, None, "invalid", "the target says it served 999"),
        ({}, None, 999, "invalid", "the engine finished 999"),
        ({}, None, 1001, "invalid", "submits ran twice"),
        # What a load process that was lost had submitted, nobody knows.
        ({"ended": "aborted", "cut_reason": "It grew."}, None, 1001, "fail", "It grew."),
        (futures(delivered=999, verified=999, failed=1), None, None, "fail", "1 future failed."),
        (futures(delivered=998, verified=998, lost=2), None, None, "fail", "2 futures got lost."),
        (futures(doubled=1), None, None, "fail", "(doubled)"),
        (futures(verified=999, foreign=1), None, None, "fail", "(foreign)"),
        (futures(delivered=999, verified=999, cancelled=1), None, None, "fail", "999 of the 1,000 submitted"),
        (futures(delivered=999, verified=999, abandoned=1), None, None, "fail", "999 of the 1,000 submitted"),
    ],
)
def test_reasons(
    make_facts: Callable[..., LoadFacts],
    changes: dict[str, Any],
    served: int | None,
    finished: int | None,
    verdict: Verdict,
    said: str,
) -> None:
    found, reasons = judge(
        make_facts(**changes), IDLE_LOAD, TargetUse(results_served=served), EngineUse(finished=finished)
    )
    assert found == verdict
    assert said in " ".join(reasons)
    assert all(reason.endswith(".") for reason in reasons)


def test_what_a_run_that_was_stopped_early_has_not_measured_does_not_matter(
    make_facts: Callable[..., LoadFacts],
) -> None:
    unknown = [ThresholdResult(text="canary_p99 < 1s", holds=None, found="canary_p99 was not measured")]
    stopped = make_facts(ended="aborted", cut_reason="It grew.")
    assert judge(stopped, IDLE_LOAD, TargetUse(), EngineUse(), unknown)[0] == "fail"
    assert judge(make_facts(), IDLE_LOAD, TargetUse(), EngineUse(), unknown)[0] == "invalid"


def test_a_saturated_load_measures_nothing(make_facts: Callable[..., LoadFacts]) -> None:
    busy = msgspec.structs.replace(IDLE_LOAD, cpu_utilisation=0.97, saturated=True)
    verdict, reasons = judge(make_facts(), busy, TargetUse(), EngineUse())
    assert verdict == "invalid"
    assert "0.97 of a core" in reasons[0]
    assert "add --processes" in reasons[0]


def test_invalid_hides_no_failure(make_facts: Callable[..., LoadFacts]) -> None:
    facts = make_facts(ended="cut", **futures(delivered=999, verified=999, failed=1))
    verdict, reasons = judge(facts, IDLE_LOAD, TargetUse(), EngineUse())
    assert verdict == "invalid"
    assert reasons[-1] == "1 future failed."
