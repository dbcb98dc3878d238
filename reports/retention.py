"""Retention: what the target must be keeping, because it was told not long ago that its client has not seen it, or may
ask for it again."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reports.schema import ResourceRow, TargetSettings, TimelineRow
from reports.series import Column, climb, column, measured


def kept_s(target: TargetSettings) -> float | None:
    """How long a delivered result is kept at most: the time-to-live plus a sweep interval, for which it may wait.

    An acknowledged one is dropped at once; the acknowledgement, which the next poll carries, is given a sweep interval.
    None when the time-to-live is not known.
    """
    if target.retrieved_ttl_s is None:
        return None
    return (0.0 if target.acknowledged else target.retrieved_ttl_s) + (target.sweep_interval_s or 0.0)


def predicted_retention(
    timeline: Sequence[TimelineRow],
    target: TargetSettings,
    resources: Sequence[ResourceRow] = (),
    at: Column | None = None,
) -> Column | None:
    """Bytes kept at each row, or at the moments ``at``: results completed, less those whose time-to-live has passed.

    Completed are those delivered and, where ``resources`` has the engine's count, those that the engine has finished
    and that wait for a poll; their sizes are those of the results delivered next. Between rows the delivered bytes are
    taken to grow evenly, and after the last one not at all. None when the time-to-live is not known.
    """
    lifetime_s = kept_s(target)
    if lifetime_s is None or not timeline:
        return None
    times = column(timeline, "monotonic_s")
    delivered = column(timeline, "delivered_bytes")
    moments = times if at is None else at
    completed = np.interp(moments, times, delivered, left=0.0)
    finished = _finished(resources, times[0], moments)
    if finished is not None:
        sizes = np.interp(finished, column(timeline, "delivered"), delivered)
        completed = np.maximum(completed, sizes)
    return completed - np.interp(moments - lifetime_s, times, delivered, left=0.0)


def _finished(resources: Sequence[ResourceRow], start: float, moments: Column) -> Column | None:
    """Requests that the engine has finished since the start; None where it was not asked."""
    seen, finished = measured(column(resources, "monotonic_s"), column(resources, "engine_finished"))
    if not seen.size:
        return None
    since = climb(finished)
    return np.interp(moments, seen, since) - np.interp(start, seen, since)
