"""Percentiles of the last seconds."""

from __future__ import annotations

import pytest

from locustfiles.measures import new_histogram
from locustfiles.web.recent import RecentPercentiles


def test_only_what_was_added_lately_counts() -> None:
    one, other = new_histogram(), new_histogram()
    recent = RecentPercentiles((50, 99), window=2)

    def now() -> list[float | None]:
        return recent.of(histogram.encode().decode() for histogram in (one, other))

    assert now() == [None, None]
    for milliseconds in range(1, 101):
        (one if milliseconds % 2 else other).record_value(1000 * milliseconds)
    assert now() == pytest.approx([0.050, 0.099], rel=2e-3)
    one.record_value(60_000_000)
    assert now() == pytest.approx([0.051, 0.100], rel=2e-2)  # both calls' values are in the window
    assert now() == pytest.approx([60, 60], rel=2e-3)
    assert now() == [None, None]
