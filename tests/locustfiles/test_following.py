"""Following one future: pauses, what is borne and for how long, and that every way has an end."""

from __future__ import annotations

import pytest

from locustfiles.following import FETCHES_ALLOWED, WAIT_S, Again, Following, NoAnswer
from locustfiles.preset import PRESETS, Preset
from locustfiles.protocols.interface import (
    Call,
    Cancelled,
    Failed,
    FetchAt,
    Lost,
    Outcome,
    Pending,
    Ready,
    Ticket,
)
from locustfiles.protocols.respond_async import RespondAsync

ELSEWHERE = FetchAt(Call("GET", "/results/7"))
TIMED_OUT, RESET = NoAnswer(True, "no answer"), NoAnswer(False, "reset")
WINDOW_S = PRESETS["sdk"].submit_retry_window_s
BUSY = Failed("poll 503", retryable=True)


def following(preset: str = "sdk") -> Following:
    return Following(RespondAsync(), PRESETS[preset], Ticket("/status/7", "/status/7"))


def pauses(found: list[Outcome | NoAnswer], preset: str = "sdk") -> list[float]:
    one = following(preset)
    steps = [one.after(outcome, 0.0) for outcome in found]
    assert all(isinstance(step, Again) for step in steps), steps
    return [step.delay_s for step in steps if isinstance(step, Again)]


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ([Pending()] * 7, [1, 2, 4, 8, 16, 30, 30]),
        ([Pending(0.5), Pending(0.0), Pending(7.0)], [0.5, 0, 7]),
        ([BUSY, RESET, TIMED_OUT, BUSY], [1, 2, 4, 8]),
        ([BUSY, BUSY, Pending(0.0), BUSY], [1, 2, 0, 1]),  # an answer that tells something ends the trouble
        ([BUSY, BUSY, ELSEWHERE, BUSY], [1, 2, 0, 1]),
        ([BUSY._replace(delay_s=9.0), BUSY], [9, 1]),
    ],
)
def test_pauses(found: list[Outcome | NoAnswer], expected: list[float]) -> None:
    assert pauses(found) == expected


def test_a_preset_without_pauses_polls_at_once_after_its_time_out() -> None:
    assert pauses([TIMED_OUT] * 3, "plain-45s") == [0, 0, 0]


@pytest.mark.parametrize("preset", PRESETS.values(), ids=lambda preset: preset.name)
def test_a_server_that_holds_as_long_as_it_may_answers_before_the_time_out(preset: Preset) -> None:
    assert PRESETS[preset.name].poll_timeout_s > WAIT_S  # type: ignore[attr-defined]


@pytest.mark.parametrize("end", [Ready(b"x"), Failed("task failed"), Lost("poll 404"), Cancelled("cancelled")])
def test_ends_are_ends(end: Outcome) -> None:
    assert following().after(end, 0.0) is end


@pytest.mark.parametrize(
    ("trouble", "end"),
    [(BUSY, BUSY), (BUSY._replace(delay_s=5.0), BUSY._replace(delay_s=5.0)), (RESET, Failed("poll: reset", "reset"))],
)
def test_trouble_is_borne_for_a_while(trouble: Outcome | NoAnswer, end: Failed) -> None:
    one = following()
    assert isinstance(one.after(trouble, WINDOW_S - 0.1), Again)
    assert one.after(trouble, WINDOW_S) == end


def test_a_silent_server_is_polled_for_ever() -> None:
    assert isinstance(following().after(TIMED_OUT, 10 * WINDOW_S), Again)


def test_the_next_call_goes_where_the_last_answer_said() -> None:
    one = following()
    assert one.call.path == "/status/7"
    one.after(Pending(0.0, "/moved/7"), 0.0)
    assert one.call.path == "/moved/7"
    one.after(ELSEWHERE, 0.0)
    assert one.call.path == "/results/7"
    one.after(BUSY, 0.0)
    assert one.call.path == "/results/7"
    one.after(Pending(0.0), 0.0)
    assert one.call.path == "/moved/7"


def test_a_result_that_is_always_elsewhere_is_nowhere() -> None:
    one = following()
    steps = [one.after(ELSEWHERE, 0.0) for _ in range(FETCHES_ALLOWED + 1)]
    assert all(isinstance(step, Again) for step in steps[:-1])
    assert isinstance(steps[-1], Failed)
