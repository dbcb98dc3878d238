"""When a request passed the stages of the scheduler: the objects of the opaque field ``time_stats``."""

from __future__ import annotations

import time
from typing import Any

_CALIBRATIONS = 16


def _wall_minus_monotonic_s() -> float:
    """Taken where two looks at the monotonic clock lie closest together, so that no preemption came between."""

    def look() -> tuple[float, float]:
        before, wall, after = time.monotonic(), time.time(), time.monotonic()
        return after - before, wall - (before + after) / 2

    return min(look() for _ in range(_CALIBRATIONS))[1]


# Of this process; fixed, or rows of one batch that are decoded one after the other would be moved differently.
CLOCK_OFFSET_S = _wall_minus_monotonic_s()


class Timing:
    """Timestamps of one request, in seconds on this process' monotonic clock; 0.0 means not yet.

    Its pickle carries the sender's offset between wall clock and monotonic clock, by which the receiver moves the
    timestamps to its own. Without metrics the pickle carries nothing.
    """

    __slots__ = ("forward_entry_time", "is_enabled", "queue_entry_time", "response_sent_time")
    # Mistakes of ``faults``, of the whole process.
    forgets = False
    moves_unset = False
    _TIMES = ("queue_entry_time", "forward_entry_time", "response_sent_time")

    def __init__(self, *, is_enabled: bool = True, queue: float = 0.0, forward: float = 0.0, sent: float = 0.0) -> None:
        self.is_enabled = is_enabled
        self.queue_entry_time = queue
        self.forward_entry_time = forward
        self.response_sent_time = sent

    def wall_times_s(self) -> tuple[float, ...]:
        """Comparable between processes; 0.0 stays what it is."""
        return tuple(at and at + CLOCK_OFFSET_S for at in (getattr(self, name) for name in self._TIMES))

    def __getstate__(self) -> dict[str, Any]:
        if not self.is_enabled:
            return {}
        return {name: getattr(self, name) for name in self._TIMES} | {"clock_offset": CLOCK_OFFSET_S}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Enabled as the sender was: otherwise the next hop would lose the times.
        self.is_enabled = bool(state) and not Timing.forgets
        shift = state.get("clock_offset", CLOCK_OFFSET_S) - CLOCK_OFFSET_S
        for name in self._TIMES:
            at = state.get(name, 0.0)
            setattr(self, name, at + shift if at or Timing.moves_unset else 0.0)
