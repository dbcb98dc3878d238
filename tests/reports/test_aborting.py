"""Thresholds that stop a run: which may, and what of a run so far they see."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reports.aborting import stopped_by
from reports.schema import FutureCounts, LoadFacts, ResourceRow
from reports.thresholds import ThresholdError, parse_threshold
from tests.reports.conftest import histogram


@pytest.mark.parametrize(
    "text",
    ["failed == 0 abort", "rss_peak < 9GB abort", "future_p99 <= 60s  abort", "polls<5 abort "],
)
def test_what_may_stop_a_run(text: str) -> None:
    threshold = parse_threshold(text)
    assert threshold.aborts
    assert threshold.text == text.strip()
    assert not parse_threshold(text.replace("abort", "")).aborts


@pytest.mark.parametrize(
    "text",
    [
        "delivered >= 100 abort",  # is broken at the start of every run
        "throughput < 10/s abort",
        "failed == 3 abort",
        "failed != 0 abort",
        "rss_peak < 1.2 * rss_expected abort",
        "leak_per_result == 0 abort",
        "abandoned == 0 abort",
    ],
)
def test_what_may_not(text: str) -> None:
    with pytest.raises(ThresholdError, match="cannot stop a run"):
        parse_threshold(text)


@pytest.mark.parametrize("text", ["abort", "failed abort", "failed == 0 stop", "failed == 0abort"])
def test_what_is_none(text: str) -> None:
    with pytest.raises(ThresholdError):
        parse_threshold(text)


def test_a_run_is_stopped_by_what_is_known_so_far(
    make_facts: Callable[..., LoadFacts], make_sample: Callable[..., ResourceRow]
) -> None:
    samples = [make_sample(-1, target_rss_bytes=10**8), make_sample(5, target_rss_bytes=3 * 10**9)]

    def stopped(*thresholds: str) -> str | None:
        futures = FutureCounts(submitted=100, delivered=7, failed=2)
        latencies = {"future": histogram([1.0, 4.0])}
        facts = make_facts(ended=None, futures=futures, histograms=latencies, thresholds=list(thresholds))
        return stopped_by(facts, samples)

    assert stopped("failed == 0") is None  # it does not ask for it
    assert stopped("throughput > 100/s") is None
    assert stopped("lost == 0 abort", "rss_peak < 4GB abort", "future_max < 5s abort") is None
    assert stopped("failed == 0 abort") == "failed == 0 abort is broken: failed was 2."
    assert stopped("rss_peak < 2GB abort") == "rss_peak < 2GB abort is broken: rss_peak was 3.00 GB."
    assert "future_max was 4.00 s" in (stopped("failed == 0", "future_max < 3s abort") or "")
    assert stopped("poll_p99 < 1s abort") is None  # nothing of it was measured yet
