"""When futures are to start: schedules on absolute times, which nothing that happens in a run can stretch. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from locustfiles.lengths import Lengths, TraceLengths
from locustfiles.stages import Spread, Times, due_times
from locustfiles.traces import TraceError, read_timed
from reports.schema import Stage

CLOSED = "closed"
SPREADS: tuple[Spread, ...] = ("constant", "poisson")

_TRACE = re.compile(r"trace:(?P<file>.+?)(?:,speed=(?P<speed>[^,]*))?")


class ArrivalsError(Exception):
    """The arrivals asked for cannot be had; the text is a sentence for the user."""


@dataclass(frozen=True)
class Schedule:
    """The intended starts of a run's futures.

    due_s: float64 array of shape (futures,), seconds since the start of the run, never decreasing.
    lengths: of the same futures, where the arrivals bring them.
    """

    due_s: Times
    lengths: Lengths | None = None

    def share(self, workers: int, index: int) -> Times:
        """Those that worker ``index`` starts: futures are dealt to the workers in turn."""
        return self.due_s[index::workers]


def schedule(spec: str, stages: Sequence[Stage], requests: int, seed: int) -> Schedule | None:
    """The schedule of ``requests`` futures; None in closed arrivals, where a future starts when another has ended.

    spec: ``closed``, ``constant:RATE``, ``poisson:RATE`` or ``trace:FILE[,speed=2]``. With stages of rates it is only
    ``constant`` or ``poisson``, and the stages say how many futures there are. Raises ArrivalsError and TraceError.
    """
    if spec == CLOSED:
        return None
    if spec in SPREADS and stages:
        return Schedule(due_times(stages, spec, seed))
    kind, _, rate = spec.partition(":")
    if kind == "constant":
        return Schedule(np.arange(requests) / _above_zero(rate, "constant:RATE"))
    if kind == "poisson":
        gaps_s = np.random.default_rng(seed).exponential(1 / _above_zero(rate, "poisson:RATE"), requests)
        return Schedule(np.cumsum(gaps_s))
    if trace := _TRACE.fullmatch(spec):
        speed = 1.0 if trace["speed"] is None else _above_zero(trace["speed"], "trace:FILE,speed=FACTOR")
        return _replay(Path(trace["file"]), speed, requests)
    raise ArrivalsError(
        "--arrivals should be closed, constant:RATE, poisson:RATE (futures a second) or trace:FILE[,speed=2], found "
        f"'{spec}'."
    )


def _above_zero(text: str, form: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ArrivalsError(f"--arrivals {form} should have a number above 0, found '{text}'.")
    return number


def _replay(path: Path, speed: float, requests: int) -> Schedule:
    """A trace's own times and lengths; when it is over it begins again, its mean gap after its last request."""
    trace = read_timed(path)
    rows = len(trace.times_s)
    span_s = float(trace.times_s[-1])
    if not span_s:
        raise TraceError(f"All requests of the trace {path} have the same time. Give one that spans some time.")
    lap, row = np.divmod(np.arange(requests), rows)
    due_s = (trace.times_s[row] + lap * (span_s * rows / (rows - 1))) / speed
    return Schedule(due_s, TraceLengths(trace.lengths))
