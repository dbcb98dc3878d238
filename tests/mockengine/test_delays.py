"""Delays rounded to a timer's ticks, against simulated timers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mockengine.delays import TICK_S, TickedDelays


@given(st.lists(st.tuples(st.floats(1e-5, 5e-3), st.floats(0, 0.3e-3)), min_size=1, max_size=300))
def test_the_sum_of_delays_keeps_up_with_what_was_asked_for(delays: list[tuple[float, float]]) -> None:
    """A timer rounds up to a tick and is then late by something."""
    rounded = TickedDelays()
    asked_s = slept_s = 0.0
    for delay_s, late_s in delays:
        ticks_s = rounded.ticks(delay_s)
        assert ticks_s == pytest.approx(round(ticks_s / TICK_S) * TICK_S)
        measured_s = ticks_s + late_s if ticks_s else 0.0
        rounded.slept(delay_s, measured_s)
        asked_s += delay_s
        slept_s += measured_s
        assert abs(asked_s - slept_s) < 2 * TICK_S


def test_what_a_stall_added_is_not_taken_off_all_that_follows() -> None:
    delays = TickedDelays()
    delays.slept(delays.ticks(0.005), measured_s=10.0)
    assert sum(delays.ticks(0.005) for _ in range(3)) >= 3 * (0.005 - 2 * TICK_S) - 1e-9
    assert math.isclose(TickedDelays().ticks(0.0004), 0.0)
