"""Slots and queue against a plain model."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mockengine.admission import Admission, Place


@given(
    st.integers(1, 4),
    st.lists(st.tuples(st.one_of(st.just("enter"), st.integers(0, 20)), st.floats(0, 10)), max_size=60),
)
def test_first_come_first_served_whoever_leaves(slots: int, events: list[tuple[str | int, float]]) -> None:
    """A number n makes the n-th of those still there leave, from its slot or from the queue."""
    admission = Admission(slots, now=0.0)
    admitted: list[int] = []
    present: list[tuple[int, Place]] = []
    now, slot_seconds, peak, count = 0.0, 0.0, 0, 0
    for action, pause in events:
        slot_seconds += pause * min(slots, len(present))
        now += pause
        if isinstance(action, str):
            present.append((count, admission.enter(lambda number=count: admitted.append(number), now)))  # type: ignore[misc]
            count += 1
        elif present:
            admission.leave(present.pop(action % len(present))[1], now)
        # Whoever has been there longest is in a slot: nobody overtakes, and no slot is idle while someone waits.
        running = {number for number, _ in present[:slots]}
        assert running <= set(admitted)
        assert admission.running == len(running)
        assert admission.waiting == len(present) - len(running)
        peak = max(peak, len(running))
        assert admission.peak_running == peak
        assert admission.slot_seconds(now) == pytest.approx(slot_seconds)
    assert admitted == sorted(admitted)
    assert len(admitted) == len(set(admitted))
