"""Who may submit: so many at once, fewer after a 429, and by bytes."""

from __future__ import annotations

from dataclasses import replace

import gevent
import pytest
from gevent.event import Event

from locustfiles.preset import SDK, Preset
from locustfiles.submit_gate import SubmitGate

# Long enough that nothing in here ends by itself.
SMALL = replace(SDK, submits_at_once=5, throttled_submits_at_once=2, submit_bytes=1000, throttled_s=3600.0)


def inside(preset: Preset, paused: bool, request_bytes: int) -> tuple[int, int]:
    """Of ten that come at once: how many are in at first, and in all once those have left."""
    gate, leave = SubmitGate(preset), Event()
    entered: list[int] = []
    if paused:
        gate.pause(0.0)

    def submit(number: int) -> None:
        with gate.place(request_bytes):
            entered.append(number)
            leave.wait()

    submits = [gevent.spawn(submit, number) for number in range(10)]
    gevent.idle()
    at_once = len(entered)
    leave.set()
    gevent.joinall(submits, timeout=10, raise_error=True)
    return at_once, len(entered)


@pytest.mark.parametrize(
    ("preset", "paused", "request_bytes", "at_once"),
    [
        (SMALL, False, 1, 5),
        (SMALL, True, 1, 2),
        (replace(SMALL, throttled_s=0.0), True, 1, 5),  # it is long ago
        (SMALL, False, 500, 3),  # two fill the budget, the third overdraws it
        (SMALL, True, 60, 1),  # counts as 1200
        (SMALL, True, 50, 2),  # counts as 1000
    ],
)
def test_so_many_are_in_at_once_and_all_get_their_turn(
    preset: Preset, paused: bool, request_bytes: int, at_once: int
) -> None:
    assert inside(preset, paused, request_bytes) == (at_once, 10)


def test_no_submit_passes_a_pause() -> None:
    gate = SubmitGate(replace(SDK, submit_pause_s=0.001))
    gate.wait_out_pauses()  # there is none
    gate.pause(3600.0)
    waiting = gevent.spawn(gate.wait_out_pauses)
    gevent.idle()
    assert not waiting.ready()
    gate.pause(0.0)
    waiting.get(timeout=10)
