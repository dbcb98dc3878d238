"""Percentiles out of HdrHistograms, against numpy on the values themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hdrh.histogram import HdrHistogram

from reports.percentiles import curve, percentiles


def encoded(microseconds: list[int]) -> str:
    histogram = HdrHistogram(1, 3_600_000_000, 3)
    for value in microseconds:
        histogram.record_value(value)
    return histogram.encode().decode()


def test_percentiles_are_in_seconds_and_within_the_histogram_s_precision() -> None:
    values = np.random.default_rng(1).lognormal(15, 1, 20_001).astype(int)
    figures = percentiles(encoded(values.tolist()))
    assert figures is not None
    expected = np.percentile(values, [50, 90, 99, 99.9, 100], method="inverted_cdf") / 1e6
    assert [figures.p50, figures.p90, figures.p99, figures.p999, figures.max] == pytest.approx(
        expected.tolist(), rel=2e-3
    )
    assert figures.count == 20_001


def test_nothing_recorded_has_no_percentiles() -> None:
    assert percentiles(encoded([])) is None
    assert curve(encoded([]), [0, 50, 99]) == []


def test_a_curve_ends_where_the_values_do() -> None:
    points = curve(encoded(list(range(1000, 101_000, 1000))), [0, 50, 90, 99, 99.9])
    assert [percent for percent, _ in points] == [0, 50, 90, 99]
    assert [seconds for _, seconds in points] == pytest.approx([0.001, 0.05, 0.09, 0.099], rel=2e-3)
