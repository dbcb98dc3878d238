"""What a result costs the target while few wait, and while many do. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from reports import formats
from reports.schema import ResourceRow, TimelineRow
from reports.series import Column, climb, column, measured

# A point is measured over so long, and of so many results at least.
_OVER_S, _RESULTS = 10.0, 20
_END_SHARE = 0.2  # of the points are the fewest, and as many the most


class CpuByOutstanding(NamedTuple):
    """Points in the order of time."""

    outstanding: Column  # the mean of the point's time
    cpu_s: Column  # of the target, a result


def cpu_by_outstanding(timeline: Sequence[TimelineRow], resources: Sequence[ResourceRow]) -> CpuByOutstanding:
    """No points where the target's CPU was not measured."""
    rows = column(timeline, "monotonic_s")
    times, cpu = measured(column(resources, "monotonic_s"), column(resources, "target_cpu_s"))
    if not rows.size or not times.size:
        return CpuByOutstanding(np.empty(0), np.empty(0))
    steps = np.arange(max(times[0], rows[0]), min(times[-1], rows[-1]), _OVER_S)
    delivered = np.diff(np.interp(steps, rows, column(timeline, "delivered")))
    spent = np.diff(np.interp(steps, times, climb(cpu)))
    outstanding = column(timeline, "outstanding")
    area = np.concatenate([[0.0], np.cumsum(np.diff(rows) * (outstanding[1:] + outstanding[:-1]) / 2)])
    waiting = np.diff(np.interp(steps, rows, area)) / _OVER_S
    enough = delivered >= _RESULTS
    return CpuByOutstanding(waiting[enough], spent[enough] / delivered[enough])


def fewest_and_most(points: CpuByOutstanding) -> str:
    """A sentence with the medians where the fewest and where the most were outstanding."""
    order = np.argsort(points.outstanding, kind="stable")
    some = max(1, int(_END_SHARE * len(order)))
    (few, few_s), (many, many_s) = (
        (np.median(points.outstanding[chosen]), np.median(points.cpu_s[chosen]))
        for chosen in (order[:some], order[-some:])
    )
    return (
        f"Typically {formats.seconds(float(few_s))} with {few:,.0f} outstanding, and {formats.seconds(float(many_s))} "
        f"with {many:,.0f}."
    )
