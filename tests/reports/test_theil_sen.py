"""The Theil-Sen slope and its interval against scipy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from reports.theil_sen import theil_sen

# Whole numbers, so that ties come about.
POINTS = st.lists(st.tuples(st.integers(0, 30), st.integers(-50, 50)), min_size=3, max_size=40)


@given(POINTS)
def test_it_is_that_of_scipy(points: list[tuple[int, int]]) -> None:
    x, y = np.array(points, dtype=np.float64).T
    assume(len(set(x)) > 1)
    assume(max(np.unique(x, return_counts=True)[1].max(), np.unique(y, return_counts=True)[1].max()) < len(x) / 2)
    found = theil_sen(x, y)
    expected = stats.theilslopes(y, x, alpha=0.95)
    assert found is not None  # with most points tied scipy's variance gets below zero
    assert (found.estimate, found.low, found.high) == pytest.approx(
        (expected.slope, expected.low_slope, expected.high_slope)
    )


def test_the_interval_encloses_the_true_slope_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(3)
    x = np.arange(30.0)
    found = [theil_sen(x, 2 * x + random.standard_t(2, 30)) for _ in range(1000)]  # a noise full of outliers
    assert 925 <= sum(slope is not None and slope.low <= 2 <= slope.high for slope in found) <= 985


@pytest.mark.parametrize("x", [[], [1.0], [1.0, 2.0], [5.0, 5.0, 5.0]])
def test_too_little_has_no_slope(x: list[float]) -> None:
    assert theil_sen(np.array(x), np.arange(float(len(x)))) is None
