"""Runs side by side: what is refused, what is said to differ, and the page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reports.assessment import assess
from reports.compare import IncomparableError, Run, check_comparable, compared, differences, names_of
from reports.comparison_page import comparison_page
from reports.conclude import conclude
from reports.run_folder import RunFolder
from reports.schema import LoadFacts, ResourceRow, Stage, TimelineRow
from tests.reports.html_page import Page, refers_to_nothing_outside_itself

Recorded = tuple[LoadFacts, list[TimelineRow], list[ResourceRow]]

MACHINE = {"machine": "x86_64", "processor": "Some CPU", "cores": 2, "libraries": {"aiohttp": "3.14"}}
HOSTILE = "<script>alert('x')</script>&"


def of(recorded: Recorded, name: str = "first", environment: dict[str, Any] | None = None, **changes: Any) -> Run:
    facts, timeline, resources = recorded
    document = assess(msgspec.structs.replace(facts, **changes), timeline, resources, MACHINE | (environment or {}))
    return Run(name, document, timeline, resources)


def workload(recorded: Recorded, **changes: Any) -> dict[str, Any]:
    return {"workload": msgspec.structs.replace(recorded[0].workload, **changes)}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("requests", 7),
        ("max_tokens", 7),
        ("prompt_tokens", 7),
        ("lengths", "trace:a.csv"),
        ("body_profile", "full"),
        ("protocol", "other"),
        ("arrivals", "poisson:5"),
        ("stages", [Stage(duration_s=9.0, outstanding=5)]),
    ],
)
def test_other_work_is_not_comparable(main_job: Recorded, field: str, value: Any) -> None:
    other = of(main_job, "second", **workload(main_job, **{field: value}))
    sentence = (
        f"first and second cannot be compared: {field} is .* in the one, and {re.escape(str(value))} in the other"
    )
    with pytest.raises(IncomparableError, match=sentence):
        check_comparable([of(main_job), of(main_job), other])


@pytest.mark.parametrize(("field", "value"), [("machine", "arm"), ("processor", None), ("cores", 4)])
def test_another_machine_is_not_comparable(main_job: Recorded, field: str, value: Any) -> None:
    with pytest.raises(IncomparableError, match=f"{field} is {MACHINE[field]} in the one, and {value} in the other"):
        check_comparable([of(main_job), of(main_job, "second", environment={field: value})])


def test_results_checked_otherwise_are_not_comparable(main_job: Recorded) -> None:
    with pytest.raises(IncomparableError, match="verification is corpus in the one, and shape in the other"):
        check_comparable([of(main_job), of(main_job, "second", verification="shape")])


def test_a_run_that_measures_nothing_is_not_comparable(main_job: Recorded) -> None:
    with pytest.raises(IncomparableError, match="second is no measurement, its verdict is invalid: Stopped"):
        check_comparable([of(main_job), of(main_job, "second", ended="cut", cut_reason="Stopped.")])


@pytest.mark.parametrize("number", [0, 1, 7])
def test_a_page_takes_two_to_six_runs(main_job: Recorded, number: int) -> None:
    with pytest.raises(IncomparableError, match=f"compare 2 to 6 runs, found {number}"):
        comparison_page([of(main_job)] * number)


def test_what_differs_is_said_and_nothing_else(main_job: Recorded) -> None:
    assert differences([of(main_job), of(main_job, "second")]) == []
    second = of(
        main_job,
        "second",
        environment={"libraries": {"aiohttp": "3.15", "numpy": "2.4"}},
        command="locust --outstanding 5",
        **workload(main_job, outstanding=5),
    )
    assert [(row.section, row.name, row.values) for row in differences([of(main_job), second])] == [
        ("Workload", "outstanding", ["17,000", "5"]),
        ("Environment", "aiohttp", ["3.14", "3.15"]),
        ("Run", "command", [main_job[0].command, "locust --outstanding 5"]),
        ("Environment", "numpy", ["(not there)", "2.4"]),
    ]


def test_ratios_are_to_the_first_run(main_job: Recorded) -> None:
    polls = main_job[0].polls
    second = of(main_job, "second", polls=msgspec.structs.replace(polls, total=2 * polls.total), histograms={})
    rows = {row.quantity.name: row for row in compared([of(main_job), second])}
    assert rows["polls"].ratios == [1, 2]
    assert rows["rss_peak"].ratios == [1, 1]
    assert rows["future_p99"].ratios == [1, None]
    assert "failed" not in rows  # zero in both
    (backwards,) = (row for row in compared([second, of(main_job)]) if row.quantity.name == "future_p99")
    assert backwards.ratios == [None, None]


def test_runs_are_told_apart_by_the_shortest_names_that_do() -> None:
    assert names_of([Path("runs/a"), Path("runs/b/")]) == ["a", "b"]
    assert names_of([Path("x/run"), Path("y/run")]) == ["x", "y"]
    assert names_of([Path("r/1/x/run"), Path("r/2/y/run"), Path("r/2/x/run")]) == ["1/x", "2/y", "2/x"]
    assert names_of([Path("a/b"), Path("a/b/b")]) == [".", "b"]
    assert names_of([Path("a"), Path("a")]) == ["a (1)", "a (2)"]


def test_the_page(main_job: Recorded) -> None:
    first = of(main_job, target=msgspec.structs.replace(main_job[0].target, url="here"))
    second = of(main_job, HOSTILE, target=msgspec.structs.replace(main_job[0].target, url=HOSTILE))
    text = comparison_page([first, second, Run("bare", second.document, [], [])])
    page = refers_to_nothing_outside_itself(text)
    assert "script" not in page.elements
    assert page.elements.count("svg") == 6
    assert page.text.count(HOSTILE) >= 3
    assert text == comparison_page([first, second, Run("bare", second.document, [], [])])


def test_the_command(main_job: Recorded, tmp_path: Path) -> None:
    facts, *_ = main_job
    for name, requests in (("a", facts.workload.requests), ("b", facts.workload.requests), ("c", 5)):
        folder = RunFolder.create(tmp_path / name)
        conclude(folder, msgspec.structs.replace(facts, **workload(main_job, requests=requests)))

    def run(*arguments: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "reports", "compare", *arguments]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert "Traceback" not in ended.stderr
        return ended.returncode, ended.stdout + ended.stderr

    assert run("a", "b") == (0, "comparison: comparison.html\n")
    assert Page((tmp_path / "comparison.html").read_text()).elements.count("svg") == 6
    code, said = run("a", "c", "--out", "other.html")
    assert (code, "requests is 131072 in the one, and 5 in the other" in said) == (2, True)
    assert not (tmp_path / "other.html").exists()
    assert run("a", "b", "--out", "missing/other.html")[0] == 2
    assert run("a")[1] == "python -m reports: compare 2 to 6 runs, found 1.\n"
