"""What the target's memory did: levelled off at what it has to keep, stayed with the allocator, or leaked. Pure.

Judged is what RSS is beyond the predicted retention while the load was steady, and, where the observer watched on after
the load (``--settle``), what is left when nothing has to be kept any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from reports import formats
from reports.retention import kept_s, predicted_retention
from reports.schema import LoadFacts, MemoryConclusion, MemoryVerdict, ResourceRow, Slope, TimelineRow
from reports.series import Column, column, measured
from reports.steady import Window
from reports.theil_sen import theil_sen

# In one lifetime retention fills; two more show whether what is beyond it grows.
LIFETIMES = 3.0
# Memory that a kept byte takes: itself, and up to a quarter more for the allocator's size classes and the object around
# it (1.06 to 1.2 were measured on the server of this project).
_PER_KEPT_BYTE = (1.0, 1.25)
# Memory of an outstanding future, within bounds that no server should leave: from nothing to a connection with its
# buffers, a task and a request of many tokens.
_PER_OUTSTANDING = (0.0, 64e3)
# What a server comes to use beside its results when it first works: code paths, pools, buffers.
WORKING_BYTES = 32e6
# Allocators wander by this much: of 272 MB by 10 MB within 100 s, while what was to be kept went from 167 to 177 MB.
_WANDER_SHARE = 0.01
_WANDER_BYTES = 16e6
# Neighbouring samples resemble each other, which would make the interval too narrow; medians of parts do so less.
_PARTS = 64
_FEWEST_PARTS = 8
# Growth that has slowed to less than this of its own mean in the later half is a server warming up.
_GOES_ON = 0.5
# This part of what the load took may stay after it, in heaps with holes.
_STAYS_SHARE = 0.25


class _Samples(NamedTuple):
    """Of the target over time, each with a value."""

    times: Column  # s, CLOCK_MONOTONIC
    rss: Column
    retention: Column
    outstanding: Column
    delivered: Column

    def within(self, start: float, end: float) -> _Samples:
        chosen = (self.times >= start) & (self.times <= end)
        return _Samples(*(values[chosen] for values in self))

    def medians(self) -> _Samples:
        """The medians of _PARTS equally long parts, or of every sample by itself when there are no more."""
        parts = np.array_split(np.arange(len(self.times)), min(_PARTS, len(self.times)))
        return _Samples(*(np.array([np.median(values[part]) for part in parts]) for values in self))


def memory_verdict(
    facts: LoadFacts,
    timeline: Sequence[TimelineRow],
    resources: Sequence[ResourceRow],
    steady: Window | None,
    idle_bytes: int | None,
) -> MemoryVerdict:
    """The verdict on a run. ``steady``: the window of its load, if it had one; ``idle_bytes``: RSS before the load."""
    lifetime_s = kept_s(facts.target)
    samples = _samples(facts, timeline, resources)
    if samples is None or idle_bytes is None or not len(samples.times):
        return MemoryVerdict(conclusion=None, why="The target's memory was not observed.")
    if lifetime_s is None:
        why = "How long the target keeps a delivered result is not known; say it with --retrieved-ttl."
        return MemoryVerdict(conclusion=None, why=why)
    delivering = _delivering(timeline)
    if delivering is None or delivering.length < LIFETIMES * lifetime_s:
        return _too_short(delivering.length if delivering else 0.0, lifetime_s)
    start = max(delivering.start + lifetime_s, steady.start if steady else 0.0)
    window = Window(start, min(delivering.end, steady.end if steady else np.inf))
    parts = samples.within(*window).medians()
    if len(parts.times) < _FEWEST_PARTS:
        return MemoryVerdict(
            conclusion="too short to say",
            why=f"Only {len(parts.times)} samples are from its steady part; {_FEWEST_PARTS} are needed.",
        )
    per_second, per_result = _beyond(parts, parts.times), _beyond(parts, parts.delivered)
    after = samples.within(delivering.end + lifetime_s, np.inf)
    conclusion, why = _concluded(parts, per_second, per_result, after, idle_bytes)
    return MemoryVerdict(
        conclusion=conclusion,
        why=why,
        per_hour_bytes=_scaled(per_second, 3600.0) if per_second else None,
        per_result_bytes=per_result,
        from_s=window.start - facts.started_monotonic_s,
        to_s=window.end - facts.started_monotonic_s,
    )


def _samples(facts: LoadFacts, timeline: Sequence[TimelineRow], resources: Sequence[ResourceRow]) -> _Samples | None:
    if not timeline:
        return None
    times, rss = measured(column(resources, "monotonic_s"), column(resources, "target_rss_bytes"))
    retention = predicted_retention(timeline, facts.target, resources, times)
    rows = column(timeline, "monotonic_s")
    outstanding, delivered = (
        np.interp(times, rows, column(timeline, name), left=0.0) for name in ("outstanding", "delivered")
    )
    return _Samples(times, rss, np.zeros(len(times)) if retention is None else retention, outstanding, delivered)


def _delivering(timeline: Sequence[TimelineRow]) -> Window | None:
    """From the first delivery to the last."""
    times, delivered = column(timeline, "monotonic_s"), column(timeline, "delivered")
    if not delivered[-1]:
        return None
    return Window(float(times[np.argmax(delivered > 0)]), float(times[np.argmax(delivered == delivered[-1])]))


def _too_short(delivered_for_s: float, lifetime_s: float) -> MemoryVerdict:
    why = (
        f"Results were delivered for {formats.duration(delivered_for_s)}, and each is kept for "
        f"{formats.duration(lifetime_s)} (time-to-live and sweep); {LIFETIMES:g} times that, "
        f"{formats.duration(LIFETIMES * lifetime_s)}, are needed."
    )
    return MemoryVerdict(conclusion="too short to say", why=why)


def _beyond(parts: _Samples, along: Column) -> Slope | None:
    """The slope of RSS beyond what a server must use, along time or results.

    What a kept byte and an outstanding future take is only known within bounds, so the interval covers all of them.
    Where retention and outstanding are level they make no difference.
    """
    slopes = [
        theil_sen(along, parts.rss - per_byte * parts.retention - per_future * parts.outstanding)
        for per_byte in _PER_KEPT_BYTE
        for per_future in _PER_OUTSTANDING
    ]
    known = [slope for slope in slopes if slope is not None]
    if not known:
        return None
    return Slope(
        estimate=known[0].estimate, low=min(slope.low for slope in known), high=max(slope.high for slope in known)
    )


def _concluded(
    parts: _Samples,
    per_second: Slope | None,
    per_result: Slope | None,
    after: _Samples,
    idle_bytes: int,
) -> tuple[MemoryConclusion, str]:
    taken = float(parts.rss[-1]) - idle_bytes
    left = float(np.median(after.rss[-_FEWEST_PARTS:])) - idle_bytes if len(after.times) else None
    given_back = left is not None and left <= max(WORKING_BYTES, _STAYS_SHARE * taken)
    if per_second and per_result and _grows(parts, per_second):
        an_hour = _interval(_scaled(per_second, 3600.0), formats.size)
        a_result = _interval(per_result, formats.exact_size)
        growth = f"Beyond what it must keep its memory grew by {an_hour} an hour, {a_result} a result"
        grown = per_second.estimate * (parts.times[-1] - parts.times[0])
        if left is None or left >= (1 - _STAYS_SHARE) * grown:
            stays = "" if left is None else f", and {formats.size(left)} above idle stayed when the load had ended"
            return "leak", f"{growth}{stays}."
        return "levels off at retention", f"{growth}, but it was given back when the load had ended."
    settled = "" if left is None else f" {formats.size(max(left, 0.0))} above idle stayed when nothing was to be kept."
    most = _most(parts, idle_bytes)
    last = float(parts.rss[-1])
    expected = f"idle {formats.size(idle_bytes)} + retention {formats.size(float(parts.retention[-1]))}"
    if (left is not None and not given_back) or (left is None and last > most):
        why = f"It did not grow at steady load, where it was {formats.size(last)} ({expected})."
        return "allocator keeps freed memory", why + settled
    share = last / (idle_bytes + float(parts.retention[-1]))
    return "levels off at retention", f"At steady load it stayed at {share:.2f} × ({expected}).{settled}"


def _grows(parts: _Samples, per_second: Slope) -> bool:
    """Whether there is growth that the interval, the wandering of allocators and warming up do not explain."""
    grown = per_second.estimate * (parts.times[-1] - parts.times[0])
    if per_second.low <= 0 or grown < max(_WANDER_BYTES, _WANDER_SHARE * float(np.median(parts.rss))):
        return False
    half = len(parts.times) // 2
    later = _beyond(_Samples(*(values[half:] for values in parts)), parts.times[half:])
    return later is not None and later.estimate >= _GOES_ON * per_second.estimate


def _most(parts: _Samples, idle_bytes: int) -> float:
    """What RSS can be at most, at the end of the steady part, with nothing freed still in it."""
    kept = _PER_KEPT_BYTE[1] * parts.retention[-1] + _PER_OUTSTANDING[1] * parts.outstanding[-1]
    return float(idle_bytes + WORKING_BYTES + kept)


def _scaled(slope: Slope, factor: float) -> Slope:
    return Slope(estimate=factor * slope.estimate, low=factor * slope.low, high=factor * slope.high)


def _interval(slope: Slope, text: Callable[[float], str]) -> str:
    return f"{text(slope.estimate)} (95 %: {text(slope.low)} to {text(slope.high)})"
