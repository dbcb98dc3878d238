"""How long a client bears with 402, and with 400 from a proxy: row by row, on a clock that the rows say."""

from __future__ import annotations

import pytest

from locustfiles.patience import BillingPause, Rejections


@pytest.mark.parametrize(
    ("times_s", "pauses"),
    [
        ([0, 5, 10], [True, True, True]),
        ([0, 10, 11], [True, True, False]),
        ([100, 105, 111, 112], [True, True, False, False]),  # from the first 402, whenever it was
        ([0, 8, 305, 310, 316], [True, True, True, True, False]),  # a new pause after five quiet minutes
        ([0, 8, 299], [True, True, False]),
    ],
)
def test_402_is_borne_with_for_ten_seconds(times_s: list[float], pauses: list[bool]) -> None:
    billing = BillingPause()
    assert [billing.pauses(now_s, window_s=10.0) for now_s in times_s] == pauses


def test_a_pause_that_goes_on_for_minutes_stays_one() -> None:
    billing = BillingPause()
    assert all(billing.pauses(now_s, window_s=3600.0) for now_s in range(0, 3601, 5))
    assert not billing.pauses(3605.0, window_s=3600.0)


def test_rejections_are_forgiven_until_there_were_too_many_and_an_answer_returns_one() -> None:
    rejections = Rejections(2)
    rejections.answered()  # there are never more than at first
    assert [rejections.forgives() for _ in range(3)] == [True, True, False]
    rejections.answered()
    assert [rejections.forgives() for _ in range(2)] == [True, False]
