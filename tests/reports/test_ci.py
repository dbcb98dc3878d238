"""JUnit XML and the Markdown summary: what they count and quote, and that no text from elsewhere breaks them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reports.assessment import assess
from reports.ci import junit_xml, summary
from reports.schema import LoadFacts, ResourceRow, RunDocument, TimelineRow

Run = tuple[LoadFacts, list[TimelineRow], list[ResourceRow]]


def document(run: Run, thresholds: Sequence[str], **changes: Any) -> RunDocument:
    facts, timeline, resources = run
    return assess(msgspec.structs.replace(facts, thresholds=list(thresholds), **changes), timeline, resources, {})


def test_a_case_for_the_verdict_and_one_for_each_threshold(main_job: Run) -> None:
    run = document(main_job, ["failed == 0", "rss_peak < 1GB", "engine_ceiling > 1"], engine=None)
    suites = ElementTree.fromstring(junit_xml(run))
    (suite,) = suites
    assert (suites.tag, suite.tag) == ("testsuites", "testsuite")
    assert {name: suite.attrib[name] for name in ("name", "tests", "failures", "errors", "timestamp")} == {
        "name": "main-job",
        "tests": "4",
        "failures": "1",
        "errors": "2",  # the verdict is invalid, as a threshold was not measured
        "timestamp": "2026-01-02T03:04:05",
    }
    assert [(case.attrib["name"], [problem.tag for problem in case]) for case in suite] == [
        ("verdict", ["error"]),
        ("failed == 0", []),
        ("rss_peak < 1GB", ["failure"]),
        ("engine_ceiling > 1", ["error"]),
    ]
    assert suite[2][0].attrib["message"].startswith("rss_peak was 12.55 GB")
    assert sum(float(case.attrib["time"]) for case in suite) == pytest.approx(float(suite.attrib["time"]))


def test_a_run_that_passes_has_no_problem(main_job: Run) -> None:
    (suite,) = ElementTree.fromstring(junit_xml(document(main_job, [])))
    assert [(case.attrib["name"], len(case)) for case in suite] == [("verdict", 0)]


@given(text=st.text(st.characters(codec=None, exclude_categories=["Cs"]), max_size=30))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
def test_any_text_is_quoted_in_well_formed_xml_and_stays_on_its_line_of_markdown(main_job: Run, text: str) -> None:
    facts, _, _ = main_job
    run = assess(msgspec.structs.replace(facts, name=text, ended="cut", cut_reason=text or "x"), [], [], {})
    (suite,) = ElementTree.fromstring(junit_xml(run))
    assert len(suite) == 1
    assert summary(run).count("\n") == summary(document((facts, [], []), [], ended="cut")).count("\n")


def test_the_summary(main_job: Run) -> None:
    text = summary(document(main_job, ["failed == 0", "rss_peak < 1GB"]))
    lines = text.splitlines()
    assert lines[0] == "## fail: main-job"
    assert "- rss\\_peak \\< 1GB is broken: rss\\_peak was 12.55 GB." in text
    assert "| failed == 0 | holds | failed was 0 |" in lines
    assert "| Delivered | 131,072 |" in text
    tables = [line for line in lines if line.startswith("|")]
    assert {line.count("|") for line in tables} == {4}


def test_text_from_elsewhere_stays_text(main_job: Run) -> None:
    facts, _, _ = main_job
    hostile = "<img src=x> | [a](b) `c` \n# d &lt;"
    run = assess(msgspec.structs.replace(facts, ended="cut", cut_reason=hostile), [], [], {})
    assert "- \\<img src=x\\> \\| \\[a\\](b) \\`c\\` \\# d \\&lt;" in summary(run).splitlines()
