"""Counters between two moments."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.series import growth
from reports.thinning import thin

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
