"""A run's figures, on a simulated main job whose figures are known."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from reports.assessment import assess
from reports.schema import LoadFacts, ResourceRow, RunDocument, Stage, TimelineRow

Run = tuple[LoadFacts, list[TimelineRow], list[ResourceRow]]

# The keys that readers of run.json rely on.
KEYS = {
    "run": "name started_utc duration_s command verdict reasons",
    "workload": "requests max_tokens lengths prompt_tokens in_flight users processes poll_preset protocol arrivals "
    "body_profile seed",
    "futures": "submitted delivered failed lost cancelled abandoned doubled foreign verified",
    "polls": "total re_polls timeouts errors_by_class",
    "throughput": "overall_per_s steady_per_s engine_ceiling_per_s",
    "latency_s": "submit poll future",
    "target": "rss_peak_bytes retention_predicted_bytes cpu_s cpu_s_per_result fds_peak loop_lag_max_s canary_p99_s",
    "load": "cpu_s cpu_utilisation saturated",
    "engine": "slots peak_in_flight utilisation",
    "environment": "",
}


def test_the_main_job(main_job: Run) -> None:
    facts, timeline, resources = main_job
    document = assess(facts, timeline, resources, {"cores": 2})
    assert document.run.verdict == "pass"
    assert document.limited_by == "engine"
    throughput = document.throughput
    assert throughput.engine_ceiling_per_s == pytest.approx(2048 / 5)
    assert throughput.steady_per_s == pytest.approx(2048 / 5, rel=0.01)
    assert throughput.overall_per_s == pytest.approx(131_072 / facts.duration_s)
    assert throughput.steady_from_s == pytest.approx(7 + 5, abs=1)  # 17,000 at 2,500 a second, and a service time
    target = document.target
    assert target.rss_idle_bytes == 95_000_000
    assert target.retention_predicted_bytes == pytest.approx(2048 / 5 * 301 * 90_000, rel=0.02)
    assert target.cpu_s_per_result == pytest.approx(0.0018, rel=0.02)
    assert target.results_served == document.engine.finished == 131_072
    assert document.engine.utilisation == pytest.approx(1.0, abs=0.01)
    assert document.engine.peak_in_flight == 2048


def test_a_load_that_changes_by_stages_has_no_steady_window(main_job: Run) -> None:
    facts, timeline, resources = main_job
    workload = msgspec.structs.replace(facts.workload, stages=[Stage(duration_s=300.0, outstanding=17_000)])
    document = assess(msgspec.structs.replace(facts, workload=workload), timeline, resources, {})
    assert document.throughput.steady_per_s is None
    assert document.throughput.overall_per_s > 0


def test_run_json_has_the_promised_keys(main_job: Run) -> None:
    document = msgspec.to_builtins(assess(*main_job, {}))
    assert {"schema_version", "limited_by"} <= set(document)
    for section, names in KEYS.items():
        assert set(names.split()) <= set(document[section]), section
    for figures in document["latency_s"].values():
        assert set(figures) == {"p50", "p90", "p99", "p999", "max", "count"}


def test_a_run_that_nobody_observed(main_job: Run) -> None:
    facts, timeline, _ = main_job
    document = assess(facts, timeline, [], {})
    assert document.run.verdict == "pass"
    assert document.limited_by is None
    assert document.limited_by_why.startswith("Cannot be said.")
    assert document.throughput.engine_ceiling_per_s is None
    assert document.target.rss_peak_bytes is None
    assert document.engine.finished is None


def test_counts_are_not_compared_when_the_samples_miss_a_part_of_the_run(main_job: Run) -> None:
    facts, timeline, resources = main_job
    late, cut = resources[5:], resources[:-5]
    for observed in (late, cut):
        document = assess(facts, timeline, observed, {})
        assert document.target.results_served is None
        assert document.engine.finished is None
        assert document.run.verdict == "pass"


def test_counts_are_not_compared_when_the_target_was_started_again(main_job: Run) -> None:
    """A counter may be higher than before by the time of the next sample."""
    facts, timeline, resources = main_job
    half = len(resources) // 2
    restarted = [msgspec.structs.replace(row, target_restarts=int(at >= half)) for at, row in enumerate(resources)]
    assert assess(facts, timeline, restarted, {}).target.results_served is None


def test_what_a_server_did_before_the_run_does_not_count(
    make_facts: Callable[..., LoadFacts],
    make_row: Callable[..., TimelineRow],
    make_sample: Callable[..., ResourceRow],
) -> None:
    timeline = [make_row(0), make_row(20, submitted=1000, delivered=1000)]
    resources = [
        make_sample(-2, target_results_served=70, engine_finished=900, target_cpu_s=5.0, target_rss_bytes=10**9),
        make_sample(-1, target_results_served=77, engine_finished=905, target_cpu_s=6.0, target_rss_bytes=10**8),
        make_sample(21, target_results_served=1078, engine_finished=1905, target_cpu_s=8.0, target_rss_bytes=10**9),
    ]
    document = assess(make_facts(), timeline, resources, {})
    assert document.target.results_served == 1001
    assert document.engine.finished == 1000
    assert document.target.cpu_s == 2.0
    assert document.target.rss_idle_bytes == 10**8


def test_a_short_run_has_no_steady_window_and_is_judged_over_all_of_it(
    make_facts: Callable[..., LoadFacts],
    make_row: Callable[..., TimelineRow],
    make_sample: Callable[..., ResourceRow],
) -> None:
    facts = make_facts(duration_s=4.0)
    timeline = [make_row(at, submitted=250 * at, delivered=250 * at, outstanding=50) for at in range(5)]
    resources = [
        make_sample(at, engine_slot_seconds=49.0 * at, target_cpu_s=0.1 * at, machine_cpu_utilisation=0.4)
        for at in range(5)
    ]
    document: RunDocument = assess(facts, timeline, resources, {})
    assert document.throughput.steady_per_s is None
    assert document.throughput.overall_per_s == 250
    assert document.engine.utilisation == pytest.approx(0.98)
    assert document.limited_by == "engine"
