"""Which requests are sent again, and when."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from server_under_test.retries import DEFAULT_PAUSE_S, MAX_PAUSE_S, MAX_REFUSALS, Reason, Retries


@given(st.floats(0, 1e6))
def test_a_connection_that_was_closed_as_it_was_used_again_is_worth_one_more_attempt(now: float) -> None:
    retries = Retries(30.0)
    assert [retries.pause_s(Reason.KEEP_ALIVE, None, now) for _ in range(3)] == [0.0, None, None]


@given(st.lists(st.none() | st.floats(0, 1e5), min_size=MAX_REFUSALS + 1, max_size=MAX_REFUSALS + 3))
def test_a_refusal_is_repeated_when_the_engine_says_but_not_for_ever(asked: list[float | None]) -> None:
    retries = Retries(30.0)
    pauses = [retries.pause_s(Reason.REFUSED, pause, 0.0) for pause in asked]
    expected = [DEFAULT_PAUSE_S if pause is None else min(pause, MAX_PAUSE_S) for pause in asked]
    assert pauses == expected[:MAX_REFUSALS] + [None] * (len(asked) - MAX_REFUSALS)


@given(st.floats(0, 120), st.floats(0, 5))
def test_connecting_is_tried_until_the_deadline_with_longer_and_longer_pauses(deadline_s: float, each_s: float) -> None:
    """each_s: how long an attempt takes to fail."""
    retries = Retries(deadline_s)
    first_s = now = 1000.0
    pauses = []
    while (pause_s := retries.pause_s(Reason.CONNECT, None, now)) is not None:
        pauses.append(pause_s)
        now += pause_s + each_s
        assert len(pauses) < 200
    assert now - each_s <= first_s + deadline_s
    assert now + 2.0 > first_s + deadline_s  # it did not give up early
    assert all(0 < pause_s <= 2.0 for pause_s in pauses)
    assert pauses[:1] < [0.11]


def test_each_reason_counts_for_itself() -> None:
    retries = Retries(30.0)
    for _ in range(MAX_REFUSALS):
        assert retries.pause_s(Reason.REFUSED, 1.0, 0.0) == 1.0
    assert retries.pause_s(Reason.KEEP_ALIVE, None, 0.0) == 0.0
    assert retries.pause_s(Reason.CONNECT, None, 0.0) is not None
    assert retries.pause_s(Reason.REFUSED, 1.0, 0.0) is None
