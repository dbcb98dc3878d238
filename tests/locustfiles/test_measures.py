"""What workers report adds up, whatever their number and whichever of their reports come last."""

from __future__ import annotations

import gc
from typing import Any

import msgspec
from hdrh.histogram import HdrHistogram
from hypothesis import given
from hypothesis import strategies as st

from locustfiles.measures import (
    LATENCIES,
    MAX_ERROR_CLASSES,
    OTHER_ERRORS,
    Measures,
    WorkerReport,
    given_up,
    merged_histograms,
    total,
)
from locustfiles.web.recent import RecentPercentiles
from reports.percentiles import curve, percentiles
from reports.schema import FutureCounts, WorkerUse


class StillUse:
    """Stands in for the meter of a real process."""

    def use(self) -> WorkerUse:
        return WorkerUse(cpu_s=1.5, cpu_utilisation=0.5, lag_max_s=0.2, lag_p99_s=0.1, rss_peak_bytes=10)

    def take_lag_max_s(self) -> float:
        return 0.25


def report(measures: Measures, worker: int, futures: FutureCounts) -> WorkerReport:
    use: Any = StillUse()
    return measures.report(worker, futures, outstanding=1, accepted=2, use=use, finished=False, fatal=None)


counts = st.builds(
    FutureCounts,
    submitted=st.integers(0, 99),
    delivered=st.integers(0, 99),
    lost=st.integers(0, 9),
    verified=st.integers(0, 9),
)
events = st.lists(
    st.one_of(
        st.tuples(st.just("poll"), st.just("")),
        st.tuples(st.just("re_poll"), st.sampled_from(["timeout", "try_again", "error"])),
        st.tuples(st.just("poll_error"), st.sampled_from(["poll 503", "poll 500"])),
        st.tuples(st.just("latency"), st.sampled_from(LATENCIES)),
    ),
    max_size=40,
)


@given(st.lists(st.tuples(counts, events), max_size=4))
def test_totals_are_sums_over_the_workers(workers: list[tuple[FutureCounts, list[tuple[str, str]]]]) -> None:
    reports = []
    for number, (futures, happened) in enumerate(workers):
        measures = Measures()
        for kind, detail in happened:
            match kind:
                case "poll":
                    measures.poll()
                case "re_poll":
                    measures.re_poll(detail)  # type: ignore[arg-type]
                case "poll_error":
                    measures.poll_error(detail, f"example of worker {number}")
                case "latency":
                    measures.latency(detail, 0.5)
        # As it arrives at the master.
        reports.append(msgspec.convert(msgspec.to_builtins(report(measures, number, futures)), WorkerReport))
    everything = [one for _, happened in workers for one in happened]
    found = total(reports)
    for name in ("submitted", "delivered", "lost", "verified", "failed"):
        assert getattr(found.futures, name) == sum(getattr(futures, name) for futures, _ in workers)
    assert found.outstanding == len(workers)
    assert found.accepted == 2 * len(workers)
    assert found.polls.total == everything.count(("poll", ""))
    assert found.polls.re_polls == sum(kind == "re_poll" for kind, _ in everything)
    assert found.polls.timeouts == everything.count(("re_poll", "timeout"))
    assert {error.name: error.count for error in found.errors} == found.polls.errors_by_class
    for name in ("poll 503", "poll 500"):
        assert found.polls.errors_by_class.get(name, 0) == everything.count(("poll_error", name))
    assert found.load_cpu_s == 1.5 * len(workers)
    for name, encoded in merged_histograms(reports).items():
        assert HdrHistogram.decode(encoded).get_total_count() == everything.count(("latency", name))


def test_latencies_keep_three_digits_from_microseconds_to_hours() -> None:
    measures = Measures()
    for seconds in (0.000_001, 0.001_234, 45.0, 5000.0):
        measures.latency("future", seconds)
    histogram = HdrHistogram.decode(report(measures, 0, FutureCounts()).histograms["future"])
    values = [1, 1234, 45_000_000, 5_000_000_000]
    found = [item.value_iterated_to for item in histogram.get_recorded_iterator()]
    assert len(found) == len(values)
    assert all(abs(a - b) <= b / 1000 + 1 for a, b in zip(found, values, strict=True))


def test_the_first_example_of_an_error_is_kept() -> None:
    measures = Measures()
    for number in range(3):
        measures.error("submit 503", f"answer {number}")
    [error] = report(measures, 0, FutureCounts()).errors
    assert (error.name, error.count, error.example) == ("submit 503", 3, "answer 0")


def test_names_of_errors_are_few_whatever_a_server_says() -> None:
    measures = Measures()
    for number in range(MAX_ERROR_CLASSES + 50):
        measures.poll_error(f"future failed: {number:x}", "example")
    errors = {error.name: error.count for error in report(measures, 0, FutureCounts()).errors}
    assert len(errors) == MAX_ERROR_CLASSES + 1
    assert errors[OTHER_ERRORS] == 50


@given(counts)
def test_what_was_outstanding_in_the_last_report_of_a_lost_worker_is_abandoned(futures: FutureCounts) -> None:
    last = given_up(report(Measures(), 0, futures))
    assert last.outstanding == 0
    assert last.futures == msgspec.structs.replace(futures, abandoned=futures.abandoned + 1)


def histograms_alive() -> int:
    return sum(isinstance(one, HdrHistogram) for one in gc.get_objects())


def test_sums_of_histograms_leave_none_to_the_garbage_collector() -> None:
    encoded = report(Measures(), 0, FutureCounts())
    gc.collect()
    gc.disable()
    try:
        before = histograms_alive()
        for sums in merged_histograms([encoded, encoded]).values():
            percentiles(sums)
            curve(sums, [50.0])
        RecentPercentiles((50.0,)).of([encoded.histograms["future"]])
        assert histograms_alive() == before
    finally:
        gc.enable()
