"""The SDK's polling rules, row by row, and as a machine that can't get stuck or run away."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from locustfiles.polling import (
    Deliver,
    GiveUp,
    Kind,
    PollAgain,
    PollState,
    Resubmit,
    Seen,
    failure_class,
    next_step,
)
from locustfiles.preset import PRESETS, Preset

SDK = PRESETS["sdk"]
FRESH = PollState()


def status(code: int) -> Seen:
    return Seen(Kind.STATUS, code)


@pytest.mark.parametrize(
    ("seen", "step"),
    [
        (Seen(Kind.RESULT, 200), Deliver()),
        (Seen(Kind.TRY_AGAIN, 200), PollAgain(FRESH, 0.0, "try_again")),
        (Seen(Kind.METADATA, 200), PollAgain(PollState(allow_metadata_only=False), 0.0, "try_again")),
        (Seen(Kind.FAILURE, 200), GiveUp("failed", "future failed")),
        (Seen(Kind.FAILURE, 200, "It broke: here"), GiveUp("failed", "future failed: It broke")),
        (Seen(Kind.NOT_A_RESULT, 200), GiveUp("failed", "poll: not a result")),
        (status(408), PollAgain(FRESH, 0.0, "try_again")),
        (status(500), PollAgain(FRESH, 0.0, "error")),
        (status(503), PollAgain(FRESH, 0.0, "error")),
        (status(429), PollAgain(PollState(consecutive_backoffs=1), 1.0, "error")),
        (status(400), PollAgain(PollState(bad_requests=1), 0.0, "error")),
        (status(402), PollAgain(FRESH, 5.0, "error")),
        (status(410), Resubmit()),
        (status(404), GiveUp("lost", "poll 404")),
        (status(401), GiveUp("failed", "poll 401")),
        (status(422), GiveUp("failed", "poll 422")),
        (Seen(Kind.TIMED_OUT), PollAgain(PollState(consecutive_backoffs=1), 1.0, "timeout")),
        (Seen(Kind.DISCONNECTED), PollAgain(PollState(consecutive_backoffs=1), 1.0, "error")),
        (Seen(Kind.REJECTED, 400), PollAgain(PollState(consecutive_backoffs=1), 1.0, "error")),
    ],
    ids=lambda value: f"{value.kind.name} {value.status}" if isinstance(value, Seen) else "",
)
def test_what_follows_the_first_poll(seen: Seen, step: object) -> None:
    assert next_step(SDK, FRESH, seen) == step


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("", "future failed"),
        ("The engine answered 503: restarting", "future failed: The engine answered 503"),
        ("The engine's answer is not JSON (line 1): it begins", "future failed: The engine's answer is not JSON"),
        ("The engine sent 39 tokens and says 400.", "future failed: The engine sent # tokens and says 400"),
        ("It took 1.5 s. Then it broke.", "future failed: It took #.# s"),
        ("x" * 500, "future failed: " + "x" * 80),
    ],
)
def test_failures_of_one_kind_have_one_name(message: str, name: str) -> None:
    assert failure_class(message) == name


def delays_after(preset: Preset, sightings: list[Seen]) -> list[float]:
    state, delays = FRESH, []
    for seen in sightings:
        step = next_step(preset, state, seen)
        assert isinstance(step, PollAgain)
        state = step.state
        delays.append(step.delay_s)
    return delays


def test_gaps_between_polls_of_a_silent_server_are_those_measured_with_the_sdk() -> None:
    timeouts = [Seen(Kind.TIMED_OUT)] * 7
    gaps = {
        name: [preset.poll_timeout_s + delay for delay in delays_after(preset, timeouts)]
        for name, preset in PRESETS.items()
    }
    assert gaps["sdk"] == [46, 47, 49, 53, 61, 75, 75]
    assert gaps["sdk-pyqwest"][:3] == [91, 92, 94]
    assert gaps["plain-45s"] == [45] * 7


def test_an_answer_starts_the_back_off_anew_but_429_does_not() -> None:
    sightings = [Seen(Kind.DISCONNECTED), Seen(Kind.TIMED_OUT), status(429), status(500), Seen(Kind.TIMED_OUT)]
    assert delays_after(SDK, sightings) == [1, 2, 4, 0, 1]


def test_402_leaves_the_back_off_as_it_is_and_is_final_when_the_pause_is_over() -> None:
    assert delays_after(SDK, [Seen(Kind.DISCONNECTED), status(402), Seen(Kind.DISCONNECTED)]) == [1, 5, 2]
    assert next_step(SDK, FRESH, status(402), billing_pauses=False) == GiveUp("failed", "poll 402")


def test_a_fourth_400_is_final_unless_a_408_with_json_came_between() -> None:
    assert delays_after(SDK, [status(400)] * 3 + [Seen(Kind.TRY_AGAIN, 200)]) == [0] * 4
    state = FRESH
    for _ in range(3):
        step = next_step(SDK, state, status(400))
        assert isinstance(step, PollAgain)
        state = step.state
    assert next_step(SDK, state, status(400)) == GiveUp("failed", "poll 400")
    told = Seen(Kind.STATUS, 408, is_json=True)
    assert delays_after(SDK, [status(400)] * 3 + [told] + [status(400)] * 3) == [0] * 7
    assert next_step(SDK, PollState(bad_requests=3), status(408)) == PollAgain(
        PollState(bad_requests=3), 0, "try_again"
    )


def test_metadata_may_come_once() -> None:
    step = next_step(SDK, FRESH, Seen(Kind.METADATA, 200))
    assert isinstance(step, PollAgain)
    assert next_step(SDK, step.state, Seen(Kind.METADATA, 200)) == GiveUp("failed", "poll: metadata twice")


SEEN = st.builds(Seen, st.sampled_from(Kind), st.integers(100, 599))


@given(st.sampled_from(list(PRESETS.values())), st.lists(SEEN, max_size=60))
def test_every_sequence_has_a_next_step_and_no_pause_is_longer_than_30_s(preset: Preset, sightings: list[Seen]) -> None:
    state = FRESH
    for seen in sightings:
        step = next_step(preset, state, seen)
        if not isinstance(step, PollAgain):
            assert isinstance(step, Deliver | GiveUp | Resubmit)
            assert isinstance(step, Deliver) == (seen.kind is Kind.RESULT)
            return
        assert 0 <= step.delay_s <= 30
        state = step.state
