"""Retention: what the target must be keeping because it delivered it not long ago."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reports.schema import TargetSettings, TimelineRow
from reports.series import Column, column


def predicted_retention(timeline: Sequence[TimelineRow], target: TargetSettings) -> Column | None:
    """Bytes kept at each row: those delivered within the last retrieved-ttl plus one sweep interval.

    An expired result may wait for the next sweep, so this is the most that results already delivered can account for.
    An acknowledged one is dropped at once; the acknowledgement, which the next poll carries, is given a sweep interval.
    Between rows the delivered bytes are taken to grow evenly. None when the time-to-live is not known.
    """
    if target.retrieved_ttl_s is None or not timeline:
        return None
    kept_s = (0.0 if target.acknowledged else target.retrieved_ttl_s) + (target.sweep_interval_s or 0.0)
    times = column(timeline, "monotonic_s")
    delivered = column(timeline, "delivered_bytes")
    return delivered - np.interp(times - kept_s, times, delivered, left=0.0)
