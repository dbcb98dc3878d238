"""Delays that are right on average, from a timer that knows whole milliseconds only."""

from __future__ import annotations

import math

# libuv's timers, and so uvloop's, have this resolution (docs.libuv.org, timer): an asyncio.sleep of 0.6 ms took 1.1.
TICK_S = 0.001
# What a late timer owes or is owed is carried over up to this; a stall of the loop is not paid back.
_MOST_CARRIED_S = 2 * TICK_S


class TickedDelays:
    """Rounds delays to ticks so that their sum, as it was measured, keeps up with the sum of what was asked for."""

    def __init__(self) -> None:
        self._carried_s = 0.0

    def ticks(self, delay_s: float) -> float:
        """How long to sleep for a delay of delay_s: a number of whole ticks in seconds, perhaps none."""
        return max(0, math.floor((delay_s + self._carried_s) / TICK_S)) * TICK_S

    def slept(self, delay_s: float, measured_s: float) -> None:
        """A delay of delay_s took measured_s."""
        carried_s = self._carried_s + delay_s - measured_s
        self._carried_s = min(max(carried_s, -_MOST_CARRIED_S), _MOST_CARRIED_S)
