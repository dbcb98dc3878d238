"""Fewer points for a plot of a long run, with every peak and every dip kept."""

from __future__ import annotations

import numpy as np

from reports.series import Column

POINTS = 600


def thin(times: Column, values: Column, points: int = POINTS) -> tuple[Column, Column]:
    """At most ``points`` (an even number) samples: the smallest and the largest of each of equally long parts.

    A part in which nothing was measured keeps one NaN, which a plot shows as a gap.
    """
    if len(times) <= points:
        return times, values
    kept: list[int] = []
    for part in np.array_split(np.arange(len(times)), points // 2):
        known = part[~np.isnan(values[part])]
        if known.size:
            kept += sorted({int(known[np.argmin(values[known])]), int(known[np.argmax(values[known])])})
        else:
            kept.append(int(part[0]))
    return times[kept], values[kept]


def peaks(times: Column, values: Column, points: int = POINTS) -> tuple[Column, Column]:
    """The same of the largest alone: of what is the worst of each sample, only the worst is of interest."""
    if len(times) <= points:
        return times, values
    parts = np.array_split(np.arange(len(times)), points)
    kept = [int(part[0] if np.isnan(values[part]).all() else part[np.nanargmax(values[part])]) for part in parts]
    return times[kept], values[kept]
