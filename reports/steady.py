"""The steady window: the part of a run in which the load was what it was asked to be."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from reports.schema import TimelineRow
from reports.series import column

# The ramp is over when this part of the most futures outstanding is reached: the last few per cent come slowly when
# many users ramp up side by side.
_RAMPED = 0.95

# A shorter window says little at one row a second.
_SHORTEST_S = 5.0


class Window(NamedTuple):
    """A part of a run, in seconds of CLOCK_MONOTONIC."""

    start: float
    end: float

    @property
    def length(self) -> float:
        return self.end - self.start


def steady_window(
    timeline: Sequence[TimelineRow], mean_service_time_s: float = 0.0, *, open_arrivals: bool = False
) -> Window | None:
    """From the end of the ramp to the last row before the last future was submitted, when the drain begins.

    After the ramp one mean service time is left out: engine slots that were filled at the same moment deliver nothing
    for that long, and then all at once. Open arrivals come at their rate from the start, so they have no ramp. None
    when less than 5 s, or than two mean service times, would remain.
    """
    if not timeline:
        return None
    times = column(timeline, "monotonic_s")
    outstanding = column(timeline, "outstanding")
    submitted = column(timeline, "submitted")
    submitting = np.flatnonzero(submitted < submitted[-1])
    if not submitting.size:
        return None
    ramped = 0 if open_arrivals else int(np.argmax(outstanding >= _RAMPED * outstanding.max()))
    start = int(np.searchsorted(times, times[ramped] + mean_service_time_s))
    end = int(submitting[-1])
    if start >= end or times[end] - times[start] < max(_SHORTEST_S, 2 * mean_service_time_s):
        return None
    return Window(float(times[start]), float(times[end]))
