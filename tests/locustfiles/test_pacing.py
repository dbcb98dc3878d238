"""Places and timetables: who has to wait, whatever the order of events."""

from __future__ import annotations

import time

import gevent
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from locustfiles.pacing import Places, Timetable


def settle() -> None:
    """Let every greenlet go on that can."""
    for _ in range(5):
        gevent.sleep(0)


events = st.lists(
    st.one_of(st.just("take"), st.just("give back"), st.integers(0, 6)),  # a number: the new size
    max_size=40,
)


@given(st.integers(0, 6), events)
def test_a_place_is_given_out_if_and_only_if_there_is_one(size: int, happened: list[str | int]) -> None:
    places = Places(size)
    held, asked = 0, []

    def take() -> None:
        nonlocal held
        places.take()
        held += 1

    for event in happened:
        before = held
        match event:
            case "take":
                asked.append(gevent.spawn(take))
            case "give back":
                if held:
                    held -= 1
                    places.give_back()
            case int():
                size = event
                places.resize(size)
        settle()
        waiting = sum(not one.ready() for one in asked)
        assert held <= max(size, before)  # more than there are only where they were taken before
        assert not waiting or held >= size
    gevent.killall(asked)


def test_a_stall_does_not_move_what_comes_after_it() -> None:
    timetable = Timetable(np.array([0.0, 0.01, 0.02, 0.05]))
    first_s = timetable.wait(0)
    time.sleep(0.03)  # the whole process stands still
    late = [timetable.wait(number) - first_s for number in (1, 2)]
    assert np.allclose(late, [0.01, 0.02], atol=1e-9)
    assert np.isclose(timetable.wait(3) - first_s, 0.05, atol=1e-9)
    assert time.monotonic() >= first_s + 0.05


def test_nobody_waits_for_a_timetable_that_is_stopped() -> None:
    timetable = Timetable(np.array([0.0, 3600.0]))
    timetable.wait(0)
    waiting = gevent.spawn(timetable.wait, 1)
    settle()
    assert not waiting.ready()
    timetable.stop()
    waiting.get(timeout=10)
