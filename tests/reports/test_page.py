"""report.html: complete in itself, escaped, of bounded size, and the same every time."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from reports.assessment import assess
from reports.page import render_page, settings_of
from reports.schema import ErrorExample, LoadFacts, ResourceRow, RunEvent, Stage, TimelineRow
from tests.reports.html_page import Page, refers_to_nothing_outside_itself

Run = tuple[LoadFacts, list[TimelineRow], list[ResourceRow]]

HOSTILE = "<script>alert('x')</script><img src=//example.com/a.png>\"'&"
ENVIRONMENT = {"cores": 2, "python": "3.11", "memory_bytes": 8_000_000_000, "libraries": {"numpy": None}}


def render(run: Run) -> str:
    facts, timeline, resources = run
    return render_page(assess(facts, timeline, resources, ENVIRONMENT), timeline, resources)


@pytest.fixture
def hostile_run(main_job: Run) -> Run:
    facts, timeline, resources = main_job
    errors = [ErrorExample(name=HOSTILE, count=2, example=HOSTILE)]
    target = msgspec.structs.replace(facts.target, url=HOSTILE)
    facts = msgspec.structs.replace(
        facts,
        name=HOSTILE,
        command=HOSTILE,
        errors=errors,
        target=target,
        notes=[HOSTILE],
        ended="cut",
        cut_reason=HOSTILE,
    )
    return facts, timeline, resources


def test_the_page_refers_to_nothing_outside_itself(main_job: Run) -> None:
    facts, timeline, resources = main_job
    target = msgspec.structs.replace(facts.target, url="the target")
    engine = msgspec.structs.replace(facts.engine, url="the engine")
    text = render((msgspec.structs.replace(facts, target=target, engine=engine), timeline, resources))
    page = refers_to_nothing_outside_itself(text)
    assert page.elements.count("svg") == 10


def test_what_comes_from_elsewhere_is_escaped(hostile_run: Run) -> None:
    page = Page(render(hostile_run))
    assert "script" not in page.elements
    assert "img" not in page.elements
    assert sum(HOSTILE in data for data in page.text) >= 6


def test_the_verdict_comes_first_and_every_reason_is_said(hostile_run: Run) -> None:
    text = "".join(Page(render(hostile_run)).text)
    assert text.index("invalid") < text.index("Steady throughput") < text.index("What limited this run")


def test_open_arrivals_show_how_late_futures_started_and_the_stages_of_their_load(main_job: Run) -> None:
    facts, timeline, resources = main_job
    assert "starts of futures" not in render(main_job)
    stages = [Stage(duration_s=90.0, rate_per_s=100.0), Stage(duration_s=60.0, rate_per_s=400.0, ramp=True)]
    workload = msgspec.structs.replace(facts.workload, arrivals="poisson", stages=stages)
    histograms = facts.histograms | {"lateness": facts.histograms["submit"]}
    facts = msgspec.structs.replace(facts, workload=workload, histograms=histograms)
    text = "".join(Page(render((facts, timeline, resources))).text)
    assert "starts of futures by" in text
    assert "90 s at 100/s, 60 s to 400/s" in text
    assert "the load changes by stages" in text


def test_what_happened_is_listed_and_marked_in_every_plot_over_time(main_job: Run) -> None:
    facts, timeline, resources = main_job
    assert "Events" not in render(main_job)
    at_s = facts.started_monotonic_s + 61
    events = [RunEvent(monotonic_s=at_s, unix_s=0.0, kind="fault", text=f"{HOSTILE} {n}") for n in range(4711, 4713)]
    page = Page(render((msgspec.structs.replace(facts, events=events), timeline, resources)))
    text = "".join(page.text)
    assert "script" not in page.elements
    assert "1 min 01 s" in text[text.index("Events") :]
    assert f"{HOSTILE} 4712" in text
    dashed = [
        value for _, name, value in page.attributes if name == "style" and "#9471c9" in value and "stroke-dash" in value
    ]
    assert len(dashed) == 2 * 7


def test_what_polling_costs_is_said(main_job: Run) -> None:
    text = "".join(Page(render(main_job)).text)
    assert "What a polling client pays: a result that was ready waited" in text
    facts, timeline, resources = main_job
    unknown = {name: encoded for name, encoded in facts.histograms.items() if name != "unfetched"}
    assert "What a polling client pays" not in render(
        (msgspec.structs.replace(facts, histograms=unknown), timeline, resources)
    )


def test_every_phase_of_a_future_has_its_curve(main_job: Run) -> None:
    text = "".join(Page(render(main_job)).text)
    latencies = text[text.index("Latency of a future by phase") : text.index("Latency of polls")]
    for phase in ("submit", "queue and engine", "waiting for the next poll", "delivery", "future"):
        assert phase in latencies[: latencies.index("Where a curve turns up")], phase


def test_rows_that_come_late_and_then_too_soon_are_drawn(main_job: Run) -> None:
    facts, timeline, resources = main_job
    late = msgspec.structs.replace(timeline[50], monotonic_s=timeline[51].monotonic_s - 0.05)
    page = render((facts, [*timeline[:50], late, *timeline[51:]], resources))
    assert "Throughput" in page


def test_a_setting_that_is_on_or_off_is_said_so(main_job: Run) -> None:
    facts, timeline, resources = main_job
    target = msgspec.structs.replace(facts.target, acknowledged=True)
    lines = dict(settings_of(assess(msgspec.structs.replace(facts, target=target), timeline, resources, ENVIRONMENT)))
    assert [line.value for line in lines["Target"] if line.label == "acknowledged"] == ["yes"]


def test_the_same_run_gives_the_same_page(main_job: Run) -> None:
    assert render(main_job) == render(main_job)


def test_a_long_run_s_page_is_no_larger_than_a_short_one_s(
    make_facts: Callable[..., LoadFacts], make_row: Callable[..., TimelineRow], make_sample: Callable[..., ResourceRow]
) -> None:
    seconds = 20_000
    noise = [(37 * second) % 101 for second in range(seconds)]
    timeline = [
        make_row(at, submitted=10 * at, delivered=10 * at + n, outstanding=n, load_cpu_s=at * 0.3 + 0.001 * n)
        for at, n in enumerate(noise)
    ]
    resources = [
        make_sample(
            at, target_rss_bytes=10**8 + n, target_cpu_s=at * 0.5 + n * 0.001, target_loop_lag_max_s=0.001 + n / 1e3
        )
        for at, n in enumerate(noise)
    ]
    page = render((make_facts(duration_s=float(seconds)), timeline, resources))
    assert len(page) < 1_000_000


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_a_run_of_almost_nothing_has_a_page(
    make_facts: Callable[..., LoadFacts],
    make_row: Callable[..., TimelineRow],
    make_sample: Callable[..., ResourceRow],
    rows: int,
) -> None:
    facts = make_facts(duration_s=0.0, histograms={}, workers=[], ended=None, engine=None)
    run = facts, [make_row(at) for at in range(rows)], [make_sample(at) for at in range(rows)]
    assert "The run has not ended." in "".join(Page(render(run)).text)
