"""Every future ends once, whatever happens to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from locustfiles.ledger import End, Ledger, share

ENDS = [End.DELIVERED, End.FAILED, End.LOST, End.CANCELLED, End.ABANDONED]


@given(st.integers(0, 10**7), st.integers(1, 64))
def test_shares_add_up_and_differ_by_one_at_most(total: int, workers: int) -> None:
    shares = [share(total, workers, index) for index in range(workers)]
    assert sum(shares) == total
    assert max(shares) - min(shares) <= 1


@given(st.lists(st.one_of(st.just("begin"), st.tuples(st.integers(0, 30), st.sampled_from(ENDS))), max_size=80))
def test_submitted_is_the_sum_of_ends_and_outstanding(actions: list[str | tuple[int, End]]) -> None:
    ledger = Ledger(40)
    first_ends: dict[int, End] = {}
    second_ends = 0
    for action in actions:
        if isinstance(action, str):
            if ledger.submitted < ledger.size:
                ledger.begin()
        elif action[0] < ledger.submitted:
            number, end = action
            ledger.end(number, end)
            second_ends += number in first_ends
            first_ends.setdefault(number, end)
        counts = ledger.counts()
        ended = counts.delivered + counts.failed + counts.lost + counts.cancelled + counts.abandoned
        assert counts.submitted == ended + ledger.outstanding
        assert ledger.outstanding == counts.submitted - len(first_ends)
        assert counts.delivered == sum(end is End.DELIVERED for end in first_ends.values())
        assert counts.doubled == second_ends
    assert ledger.still_outstanding() == sorted(set(range(ledger.submitted)) - set(first_ends))
    for number in ledger.still_outstanding():
        ledger.end(number, End.ABANDONED)
    assert ledger.outstanding == 0
    assert ledger.counts().abandoned == ledger.submitted - sum(end is not End.ABANDONED for end in first_ends.values())


def test_no_more_futures_begin_than_there_are() -> None:
    ledger = Ledger(2)
    assert [ledger.begin(), ledger.begin()] == [0, 1]
    with pytest.raises(IndexError):
        ledger.begin()
    assert ledger.submitted == 2


def test_an_id_given_to_two_futures_is_doubled() -> None:
    ledger = Ledger(3)
    for request_id in ("a", "b", "a"):
        ledger.begin()
        ledger.accepted(request_id)
    assert ledger.counts().doubled == 1


def test_polls_beyond_the_counter_do_not_end_the_run() -> None:
    ledger = Ledger(1)
    ledger.begin()
    assert ledger.polled(0) is False
    for _ in range(0x10000):
        assert ledger.polled(0) is True


def test_a_second_end_is_doubled_and_does_not_replace_the_first() -> None:
    ledger = Ledger(1)
    number = ledger.begin()
    ledger.end(number, End.DELIVERED)
    ledger.end(number, End.FAILED)
    counts = ledger.counts()
    assert (counts.delivered, counts.failed, counts.doubled) == (1, 0, 1)
