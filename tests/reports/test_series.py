"""Counters between two moments."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.series import growth, rates
from reports.thinning import peaks, thin

NAN = math.nan


@pytest.mark.parametrize(
    ("values", "start", "end", "expected"),
    [
        ([10, 20, 40], 0, 9, (30, 2)),
        ([10, 20, 40], 0.5, 9, (30, 2)),  # the sample before the start is where it starts
        ([10, 20, 40], 1, 9, (20, 1)),
        ([10, 20, 40], -5, 1.9, (10, 1)),  # nothing earlier than the first sample
        ([10, NAN, 40], 0, 9, (30, 2)),
        ([NAN, 20, 40], 0, 9, (20, 1)),
        ([10, 2, 5], 0, 9, (5, 2)),  # started anew: 2, then 3 more
        ([10, NAN, NAN], 0, 9, None),
        ([], 0, 9, None),
        ([10, 20, 40], 5, 9, None),
    ],
)
def test_growth(values: list[float], start: float, end: float, expected: tuple[float, float] | None) -> None:
    times = np.arange(len(values), dtype=float)
    assert growth(times, np.array(values, dtype=float), start, end) == expected


@given(st.lists(st.floats(-1e6, 1e6) | st.just(NAN), max_size=400))
def test_thinning_keeps_the_order_and_the_extremes(values: list[float]) -> None:
    series = np.array(values, dtype=float)
    times, kept = thin(np.arange(len(series), dtype=float), series, points=20)
    assert len(kept) <= max(20, len(series) if len(series) <= 20 else 0)
    assert (np.diff(times) > 0).all()
    np.testing.assert_array_equal(kept, series[times.astype(int)])
    if not np.isnan(series).all():
        assert np.nanmax(kept) == np.nanmax(series)
        assert np.nanmin(kept) == np.nanmin(series)


def test_thinning_shows_a_gap_where_nothing_was_measured() -> None:
    values = np.arange(100.0)
    values[40:60] = NAN
    for thinned in (thin, peaks):
        times, kept = thinned(np.arange(100.0), values, 20)
        assert np.isnan(kept).any()
        assert set(times[np.isnan(kept)]) <= set(range(40, 60))


@given(st.lists(st.floats(-1e6, 1e6) | st.just(NAN), min_size=21, max_size=400))
def test_peaks_are_the_largest_of_each_part(values: list[float]) -> None:
    series = np.array(values, dtype=float)
    times, kept = peaks(np.arange(len(series), dtype=float), series, points=20)
    assert len(kept) == 20
    assert (np.diff(times) > 0).all()
    np.testing.assert_array_equal(kept, series[times.astype(int)])
    if not np.isnan(series).all():
        assert np.nanmax(kept) == np.nanmax(series)
        assert np.nanmin(kept) >= np.nanmin(series)


def test_a_sample_that_comes_too_soon_after_a_late_one_has_no_rate() -> None:
    """The fourth was late by 0.9 s: 20 in the 0.1 s after it would be 200 a second."""
    times, per_s = rates(np.array([0, 1, 2, 3.9, 4, 5]), np.array([0, 10, 20, 20, 40, 50.0]))
    assert times.tolist() == [1, 2, 3.9, 5]
    assert per_s == pytest.approx([10, 10, 0, 30 / 1.1])


def test_rates_of_regular_samples() -> None:
    times, per_s = rates(np.array([0, 1.0, 3]), np.array([5, 7.0, NAN]))
    assert times.tolist() == [1, 3]
    assert per_s[0] == 2
    assert math.isnan(per_s[1])
    assert not rates(np.array([1.0]), np.array([1.0]))[0].size
