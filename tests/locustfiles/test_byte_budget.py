"""A budget shared by greenlets."""

from __future__ import annotations

import gevent
from gevent.event import Event

from locustfiles.byte_budget import ByteBudget


def test_who_comes_after_the_budget_is_overdrawn_waits_for_the_return() -> None:
    budget = ByteBudget(100)
    returned = Event()
    order: list[str] = []

    def take(name: str, size: int, until: Event | None = None) -> None:
        with budget.of(size):
            order.append(name)
            if until is not None:
                until.wait()
        order.append(f"{name} gave back")

    huge = gevent.spawn(take, "more than there is", 150, returned)
    small = gevent.spawn(take, "little", 1)
    gevent.idle()
    assert order == ["more than there is"]
    returned.set()
    gevent.joinall([huge, small], timeout=10, raise_error=True)
    assert order == ["more than there is", "more than there is gave back", "little", "little gave back"]


def test_what_is_left_exactly_still_serves_the_next() -> None:
    budget = ByteBudget(100)
    with budget.of(100), gevent.Timeout(10), budget.of(1):
        pass
