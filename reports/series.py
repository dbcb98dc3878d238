"""Rows as columns, and what can be said of a counter between two moments."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.float64]


def column(rows: Sequence[msgspec.Struct], name: str) -> Column:
    """One field of every row, NaN where it was not measured."""
    return np.array([np.nan if (value := getattr(row, name)) is None else value for row in rows], dtype=np.float64)


def measured(times: Column, values: Column) -> tuple[Column, Column]:
    """Only the samples that were measured."""
    known = ~np.isnan(values)
    return times[known], values[known]


def within(times: Column, values: Column, start: float, end: float) -> Column:
    """The measured values of the samples taken in [start, end]."""
    return values[(times >= start) & (times <= end) & ~np.isnan(values)]


def growth(times: Column, values: Column, start: float, end: float) -> tuple[float, float] | None:
    """What a counter grew by from the last sample at or before ``start`` to the last one at or before ``end``.

    Returns (growth, seconds between the two samples). When there is no sample that early, the first one stands in for
    it. A counter that falls was started anew with its process, and goes on from zero. None with fewer than two samples.
    """
    times, values = measured(times, values)
    first = max(int(np.searchsorted(times, start, side="right")) - 1, 0)
    last = int(np.searchsorted(times, end, side="right")) - 1
    if last <= first:
        return None
    return float(climb(values[first : last + 1])[-1]), float(times[last] - times[first])


def climb(counter: Column) -> Column:
    """What a counter has grown by since its first value; one that falls was started anew, and goes on from zero."""
    steps = np.diff(counter, prepend=counter[:1])
    climbed: Column = np.where(steps < 0, counter, steps).cumsum()
    return climbed


def rates(times: Column, values: Column) -> tuple[Column, Column]:
    """A counter's growth a second between samples, at the end of each interval; NaN where it was not measured.

    A sample that comes too soon after a late one is left out: both would have a rate that never was.
    """
    if len(times) < 2:
        return times[:0], values[:0]
    kept = _evenly(times)
    return times[kept][1:], np.diff(values[kept]) / np.diff(times[kept])


def _evenly(times: Column) -> list[int]:
    """The samples but those that follow another by less than half of what is usual."""
    least = float(np.median(np.diff(times))) / 2
    kept = [0]
    for number in range(1, len(times)):
        if times[number] - times[kept[-1]] >= least:
            kept.append(number)
    return kept
