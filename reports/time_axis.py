"""Time series over the time axis that all plots of a run share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from matplotlib.axes import Axes

from reports.drawing import line, worst_line
from reports.schema import RunDocument, TimelineRow
from reports.series import Column, column, measured, rates

# Spikes of a second hide the level of a rate, and an average hides the spikes: both are drawn.
_AVERAGED_S = 10.0


class TimeAxis(NamedTuple):
    """The time axis of a run: moments since its start, in the unit that suits its length."""

    started_s: float
    duration_s: float
    unit: str
    unit_s: float

    @classmethod
    def of(cls, document: RunDocument, timeline: Sequence[TimelineRow]) -> TimeAxis:
        """The axis of a run, up to its last row when it was killed after the document was written."""
        started_s = document.facts.started_monotonic_s
        last_row_s = timeline[-1].monotonic_s - started_s if timeline else 0.0
        duration_s = max(document.run.duration_s, last_row_s, 1.0)
        units = (("s", 1.0, 600.0), ("min", 60.0, 10_800.0), ("h", 3600.0, np.inf))
        unit, unit_s = next((unit, unit_s) for unit, unit_s, up_to in units if duration_s <= up_to)
        return cls(started_s, duration_s, unit, unit_s)

    @staticmethod
    def shared(axes: Sequence[TimeAxis]) -> list[TimeAxis]:
        """The axes of several runs, each from its own start, in the unit and over the length of the longest."""
        longest = max(axes, key=lambda axis: axis.duration_s)
        return [longest._replace(started_s=axis.started_s) for axis in axes]

    def since_start(self, monotonic_s: Column) -> Column:
        return (monotonic_s - self.started_s) / self.unit_s

    def label(self, axes: Axes, quantity: str) -> None:
        """Name both axes, and make all plots of a page span the same time."""
        axes.set_xlim(0, self.duration_s / self.unit_s)
        axes.set_xlabel(f"time since the start ({self.unit})")
        axes.set_ylabel(quantity)


class Series:
    """Rows as columns over the run's time axis."""

    def __init__(self, rows: Sequence[msgspec.Struct], axis: TimeAxis) -> None:
        self.rows = rows
        self.axis = axis
        self.monotonic_s = column(rows, "monotonic_s")
        self.times = axis.since_start(self.monotonic_s)

    def line(self, axes: Axes, name: str, color: str, label: str, factor: float = 1.0) -> None:
        """A field over time; nothing when it was never measured."""
        values = column(self.rows, name)
        if not np.isnan(values).all():
            line(axes, self.times, factor * values, color, label)

    def worst_line(self, axes: Axes, name: str, color: str, label: str, factor: float, least: float) -> None:
        """The same of a field whose peaks alone are of interest, values below ``least`` raised to it."""
        values = column(self.rows, name)
        if not np.isnan(values).all():
            worst_line(axes, self.times, np.maximum(factor * values, least), color, label)

    def rate_line(self, axes: Axes, name: str, color: str, label: str, *, spikes: bool = True) -> None:
        """A counter's growth a second, as its running average, and with its spikes behind that unless told not to."""
        monotonic_s, values = measured(self.monotonic_s, column(self.rows, name))
        times, per_s = rates(monotonic_s, values)
        if not times.size:
            return
        if spikes:
            line(axes, self.axis.since_start(times), per_s, color, None, linewidth=0.6, alpha=0.4)
        line(axes, self.axis.since_start(monotonic_s[1:]), _averaged(monotonic_s, values), color, label)


def _averaged(monotonic_s: Column, values: Column) -> Column:
    """A counter's rate at each sample but the first, over the 10 s around it."""
    half = _AVERAGED_S / 2
    start = np.clip(monotonic_s[1:] - half, monotonic_s[0], None)
    end = np.clip(monotonic_s[1:] + half, None, monotonic_s[-1])
    grown = np.interp(end, monotonic_s, values) - np.interp(start, monotonic_s, values)
    averaged: Column = grown / (end - start)
    return averaged
