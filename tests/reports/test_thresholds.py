"""Thresholds: what may be written, what it means for a run, and what is refused."""

from __future__ import annotations

import contextlib
import operator
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reports.assessment import assess
from reports.quantities import QUANTITIES
from reports.schema import (
    EngineUse,
    FutureCounts,
    LoadFacts,
    MemoryVerdict,
    ResourceRow,
    RunDocument,
    Slope,
    Throughput,
    TimelineRow,
)
from reports.threshold_files import asked_thresholds
from reports.thresholds import ThresholdError, judge_thresholds, parse_threshold

Run = tuple[LoadFacts, list[TimelineRow], list[ResourceRow]]
OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@pytest.fixture
def run(main_job: Run) -> RunDocument:
    return assess(*main_job, {})


def judged(text: str, run: RunDocument) -> tuple[bool | None, str]:
    (result,) = judge_thresholds([parse_threshold(text)], run)
    assert result.text == text.strip()
    return result.holds, result.found


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("failed == 0", 0),
        ("failed==0", 0),
        ("  future_p99  <  60s ", 60),
        ("future_p99 < 60 s", 60),
        ("future_p99 < 1.5m", 90),
        ("future_p50 <= 250ms", 0.25),
        ("duration < 2h", 7200),
        ("future_max < 0", 0),
        ("rss_peak < 9GB", 9e9),
        ("rss_peak < 9.5 MB", 9.5e6),
        ("rss_peak < 512kB", 512e3),
        ("rss_peak > 100B", 100),
        ("throughput >= 389.5", 389.5),
        ("throughput >= 389.5/s", 389.5),
        ("engine_utilisation > 95%", 0.95),
        ("engine_utilisation > 0.95", 0.95),
        ("polls < 1e6", 1e6),
    ],
)
def test_limits_and_units(text: str, limit: float) -> None:
    threshold = parse_threshold(text)
    assert threshold.factor == pytest.approx(limit)
    assert threshold.right is None


@pytest.mark.parametrize(
    ("text", "factor", "right"),
    [
        ("throughput >= 0.95 * engine_ceiling", 0.95, "engine_ceiling"),
        ("throughput>=0.95*engine_ceiling", 0.95, "engine_ceiling"),
        ("delivered == submitted", 1, "submitted"),
        ("rss_peak <= 1.2 * rss_expected", 1.2, "rss_expected"),
    ],
)
def test_limits_that_are_a_part_of_another_quantity(text: str, factor: float, right: str) -> None:
    threshold = parse_threshold(text)
    assert threshold.factor == factor
    assert threshold.right is QUANTITIES[right]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "'' is no threshold; write a name, an operator"),
        ("failed", "'failed' is no threshold"),
        ("failed = 0", "is no threshold"),
        ("failed == -1", "is no threshold"),
        ("0 == failed", "is no threshold"),
        ("failed == 0 and lost == 0", "is no threshold"),
        ("throughput >= engine_ceiling * 0.95", "is no threshold"),
        ("future_p9 < 60s", "No quantity is named 'future_p9' (in the threshold 'future_p9 < 60s'); did you mean fut"),
        ("Failed == 0", "did you mean failed?"),
        ("throughput >= 0.9 * engine_celing", "did you mean engine_ceiling?"),
        ("xyzzy == 0", "'xyzzy' (in the threshold 'xyzzy == 0'); there are submitted, delivered"),
        ("future_p99 < 60", "future_p99 is a time and takes the unit ms, s, m, h, found none"),
        ("future_p99 < 60GB", "found 'GB'"),
        ("rss_peak < 9GiB", "rss_peak is a size and takes the unit B, kB, MB, GB, found 'GiB'"),
        ("failed < 3s", "failed is a count and takes no unit, found 's'"),
        ("rss_peak < 2 * future_p99", "compares a size (rss_peak) with a time (future_p99)"),
    ],
)
def test_what_is_no_threshold_is_refused(text: str, sentence: str) -> None:
    with pytest.raises(ThresholdError) as refused:
        parse_threshold(text)
    assert sentence in str(refused.value)


@given(text=st.text(max_size=40))
def test_any_text_is_a_threshold_or_refused(text: str) -> None:
    with contextlib.suppress(ThresholdError):
        assert parse_threshold(text).left.name in text


@pytest.mark.parametrize(
    ("text", "holds", "found"),
    [
        ("delivered == 131072", True, "delivered was 131,072"),
        ("delivered == submitted", True, "delivered was 131,072, submitted 131,072"),
        ("failed != 0", False, "failed was 0"),
        ("rss_peak < 13GB", True, "rss_peak was 12.55 GB"),
        ("rss_peak < 1GB", False, "rss_peak was 12.55 GB"),
        ("engine_ceiling >= 1000", False, "engine_ceiling was 410/s"),
        ("engine_ceiling < 2 * engine_ceiling", True, "engine_ceiling 410/s, 2 × that is 819/s"),
    ],
)
def test_what_holds_in_the_main_job(run: RunDocument, text: str, holds: bool, found: str) -> None:
    assert judged(text, run)[0] is holds
    assert found in judged(text, run)[1]


def test_a_value_that_reads_like_its_limit_is_given_exactly(run: RunDocument) -> None:
    rate = Throughput(overall_per_s=400.2, steady_per_s=None, engine_ceiling_per_s=None)
    near = msgspec.structs.replace(run, throughput=rate)
    assert judged("throughput_overall <= 400", near) == (False, "throughput_overall was 400.2/s")
    assert judged("throughput_overall <= 410", near) == (True, "throughput_overall was 400/s")


def test_what_was_not_measured_neither_holds_nor_is_broken(run: RunDocument) -> None:
    blind = msgspec.structs.replace(run, engine=EngineUse(), latency_s={})
    assert judged("engine_cpu < 1s", blind) == (None, "engine_cpu was not measured")
    assert judged("future_p99 < 2 * submit_p99", blind) == (None, "future_p99 and submit_p99 were not measured")
    assert judged("target_cpu < 2 * engine_cpu", blind) == (None, "engine_cpu was not measured")


COUNTS = st.integers(0, 5)


@given(failed=COUNTS, lost=COUNTS, sign=st.sampled_from(sorted(OPERATORS)), limit=COUNTS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])  # it is not changed
def test_operators_are_python_s(run: RunDocument, failed: int, lost: int, sign: str, limit: int) -> None:
    counted = msgspec.structs.replace(run, futures=FutureCounts(failed=failed, lost=lost))
    assert judged(f"failed {sign} {limit}", counted)[0] is OPERATORS[sign](failed, limit)
    assert judged(f"failed {sign} {limit} * lost", counted)[0] is OPERATORS[sign](failed, limit * lost)


def test_every_quantity_is_found_in_a_run_and_said_with_its_unit(run: RunDocument) -> None:
    units = {"count": "", "rate": "/s", "time": "s", "size": "B", "share": "%"}
    slope = Slope(estimate=2e3, low=1e3, high=3e3)
    scheduled = msgspec.structs.replace(
        run,
        latency_s=run.latency_s
        | dict.fromkeys(("lateness", "work", "unfetched", "delivery", "future_sdk"), run.latency_s["submit"]),
        memory=MemoryVerdict(conclusion="leak", why="It grew.", per_result_bytes=slope),
    )
    for name, quantity in QUANTITIES.items():
        value = quantity.of(scheduled)
        assert value is not None, name
        assert quantity.text(value).endswith(units[quantity.dimension]), name


def test_the_figures_are_those_of_the_document(run: RunDocument) -> None:
    expected = {
        "future_p99": run.latency_s["future"].p99,
        "first_poll_p50": run.latency_s["first_poll"].p50,
        "poll_max": run.latency_s["poll"].max,
        "rss_peak": run.target.rss_peak_bytes,
        "throughput": run.throughput.steady_per_s,
        "verified": run.futures.verified,
        "errors": 3,
    }
    assert {name: QUANTITIES[name].of(run) for name in expected} == expected


def test_the_thresholds_of_a_run_are_in_its_verdict(main_job: Run) -> None:
    facts, *series = main_job
    asked = {
        "pass": ["failed == 0", "delivered == submitted"],
        "fail": ["failed == 0", "throughput > engine_ceiling"],
        "invalid": ["failed == 0", "throughput > engine_ceiling", "engine_ceiling > 1"],
    }
    documents = {
        verdict: assess(
            msgspec.structs.replace(
                facts, thresholds=thresholds, engine=facts.engine if verdict != "invalid" else None
            ),
            *series,
            {},
        )
        for verdict, thresholds in asked.items()
    }
    assert {verdict: document.run.verdict for verdict, document in documents.items()} == {v: v for v in asked}
    assert documents["pass"].run.reasons[-1] == "All 2 thresholds hold."
    assert documents["fail"].run.reasons[0].startswith("throughput > engine_ceiling is broken: throughput was 4")
    assert documents["invalid"].run.reasons[-1] == (
        "engine_ceiling > 1 cannot be judged: engine_ceiling was not measured."
    )


def test_thresholds_are_kept_in_files(tmp_path: Path) -> None:
    gate, project = tmp_path / "gate.toml", tmp_path / "pyproject.toml"
    gate.write_text('thresholds = ["lost == 0"]')
    project.write_text('[project]\nname = "x"\n[tool.repoll]\nthresholds = ["doubled == 0"]')
    assert asked_thresholds(["failed == 0 "], str(gate), tmp_path) == ["failed == 0", "lost == 0"]
    assert asked_thresholds([], str(project)) == ["doubled == 0"]
    assert asked_thresholds([], None, tmp_path) == ["doubled == 0"]  # asked for nothing: those of the project
    assert asked_thresholds(["failed == 0"], None, tmp_path) == ["failed == 0"]
    assert asked_thresholds([], None, tmp_path / "elsewhere") == []


def test_a_project_without_thresholds_has_none(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"')
    assert asked_thresholds([], None, tmp_path) == []


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "gate.toml: no such file or directory."),
        ("thresholds", "gate.toml: it is no TOML"),
        ('threshold = ["failed == 0"]', "should have 'thresholds' only, found 'threshold'."),
        ('thresholds = "failed == 0"', "should be a list of texts"),
        ("thresholds = [0]", "should be a list of texts"),
        ('thresholds = ["faild == 0"]', "did you mean failed?"),
    ],
)
def test_files_that_hold_no_thresholds_are_refused(tmp_path: Path, content: str | None, sentence: str) -> None:
    gate = tmp_path / "gate.toml"
    if content is not None:
        gate.write_text(content)
    with pytest.raises(ThresholdError) as refused:
        asked_thresholds([], str(gate))
    assert sentence in str(refused.value)
