"""The life of futures: kept as long as they must be, dropped when they may, and never between."""

from __future__ import annotations

import math
import sys

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from server_under_test.completions import Completions
from server_under_test.futures import Failure, Future, Identity, State
from server_under_test.store import ConflictError, FutureStore, Gone, KeepFor

KEEP_FOR = KeepFor(pending_ttl_s=100.0, completed_ttl_s=20.0, retrieved_ttl_s=10.0)
BOOT = "0123456789abcdef"


def store() -> FutureStore:
    return FutureStore(KEEP_FOR, BOOT, Completions(0))


def test_a_request_sent_again_gets_the_future_it_has_also_after_completion() -> None:
    futures = store()
    first, new = futures.submit(Identity("s", 1), b"", 0.0)
    assert new
    assert futures.submit(Identity("s", 1), b"", 1.0) == (first, False)
    futures.complete(first, b"result", 2.0)
    assert futures.submit(Identity("s", 1), b"", 3.0) == (first, False)
    assert futures.submit(Identity("s", 2), b"", 3.0)[0] is not first
    assert futures.submit(Identity("t", 1), b"", 3.0)[0] is not first
    assert futures.submit(None, b"", 3.0)[0] is not futures.submit(None, b"", 3.0)[0]


def test_ids_tell_what_was_never_issued_from_what_is_gone() -> None:
    futures = store()
    future, _ = futures.submit(None, b"", 0.0)
    assert futures.find(future.id) is future
    number = int(future.id.rpartition("-")[2])
    assert futures.find(f"{BOOT}-{number + 1}") is Gone.NEVER_ISSUED
    for nonsense in (
        "",
        "x",
        BOOT,
        f"{BOOT}-",
        f"{BOOT}--1",
        f"{BOOT}-x",
        "short-0",
        f"{BOOT}-{'9' * 5000}",
        f"{BOOT}-²",
    ):
        assert futures.find(nonsense) is Gone.NEVER_ISSUED
    other, _ = FutureStore(KEEP_FOR, "fedcba9876543210", Completions(0)).submit(None, b"", 0.0)
    assert futures.find(other.id) is Gone.EXPIRED
    futures.complete(future, b"", 1.0)
    futures.expire(21.0)
    assert futures.find(future.id) is Gone.EXPIRED


def test_the_clock_of_a_delivered_result_starts_at_the_end_of_the_delivery() -> None:
    futures = store()
    future, _ = futures.submit(None, b"", 0.0)
    futures.complete(future, b"result", 0.0)
    futures.delivery_begins(future)
    futures.expire(1000.0)  # however long the delivery takes
    assert futures.find(future.id) is future
    futures.delivery_ends(future, complete=True, now=1001.0)
    futures.expire(1010.9)
    assert futures.find(future.id) is future
    futures.expire(1011.0)
    assert futures.find(future.id) is Gone.EXPIRED
    assert (futures.held_bytes, futures.expired) == (0, 1)


def test_a_delivery_that_was_cut_off_does_not_start_the_clock() -> None:
    futures = store()
    future, _ = futures.submit(None, b"", 0.0)
    futures.complete(future, b"result", 0.0)
    futures.delivery_begins(future)
    futures.delivery_ends(future, complete=False, now=1.0)
    futures.expire(19.9)
    assert futures.find(future.id) is future
    futures.expire(20.0)
    assert futures.find(future.id) is Gone.EXPIRED


def test_results_kept_for_no_time_outlive_the_delivery_that_is_under_way() -> None:
    futures = FutureStore(KeepFor(pending_ttl_s=9.0, completed_ttl_s=0.0, retrieved_ttl_s=0.0), BOOT, Completions(0))
    future, _ = futures.submit(None, b"", 0.0)
    futures.complete(future, b"result", 1.0)
    futures.delivery_begins(future)
    futures.expire(2.0)
    assert futures.find(future.id) is future
    futures.delivery_ends(future, complete=False, now=3.0)
    futures.expire(3.0)
    assert futures.find(future.id) is Gone.EXPIRED
    assert futures.held_bytes == 0


def test_nothing_holds_a_result_that_was_dropped() -> None:
    """Whatever still waited for the future's other deadlines would keep the result's memory until then."""
    futures = store()
    future, _ = futures.submit(Identity("s", 1), b"", 0.0)
    result = bytes(1000)
    references = sys.getrefcount(result)
    futures.complete(future, result, 0.0)
    for end in (1.0, 2.0):
        futures.delivery_begins(future)
        futures.delivery_ends(future, complete=True, now=end)
    futures.expire(12.0)
    del future
    assert sys.getrefcount(result) == references


def test_json_of_a_result_that_was_dropped_meanwhile_is_not_counted_as_held() -> None:
    futures = store()
    future, _ = futures.submit(None, b"", 0.0)
    futures.complete(future, b"result", 0.0)
    futures.expire(20.0)
    futures.keep_json(future, b"{}")
    assert futures.held_bytes == 0


def test_an_acknowledged_result_is_dropped_at_once_but_not_under_a_delivery() -> None:
    futures = store()
    first, _ = futures.submit(Identity("s", 1), b"", 0.0)
    futures.acknowledge(first)  # nonsense: it has not ended
    futures.complete(first, b"result", 0.0)
    futures.delivery_begins(first)
    futures.acknowledge(first)
    assert futures.find(first.id) is first
    futures.delivery_ends(first, complete=True, now=1.0)
    assert futures.find(first.id) is Gone.EXPIRED
    futures.acknowledge(first)
    assert (futures.held_bytes, futures.acknowledged, futures.expired) == (0, 1, 0)


def test_another_request_with_the_identity_of_one_is_a_conflict() -> None:
    futures = store()
    first, _ = futures.submit(Identity("s", 1), b"one", 0.0)
    with pytest.raises(ConflictError, match="seq_id 1: give each its own"):
        futures.submit(Identity("s", 1), b"two", 0.0)
    assert futures.submit(Identity("s", 1), b"one", 0.0) == (first, False)
    assert futures.submit(Identity("s", 2), b"two", 0.0)[1]


def test_a_later_delivery_keeps_the_result_longer() -> None:
    futures = store()
    future, _ = futures.submit(None, b"", 0.0)
    futures.complete(future, b"result", 0.0)
    for end in (1.0, 9.0, 18.0):
        futures.delivery_begins(future)
        futures.delivery_ends(future, complete=True, now=end)
    futures.expire(27.9)
    assert futures.find(future.id) is future
    futures.expire(28.0)
    assert futures.find(future.id) is Gone.EXPIRED


def test_a_future_that_stays_pending_fails_and_its_watchers_are_told_once() -> None:
    futures = store()
    future, _ = futures.submit(None, b"", 0.0)
    told: list[str] = []
    future.watchers = {lambda: told.append("a"), lambda: told.append("b")}
    assert futures.expire(99.9) == []
    assert future.state is State.PENDING
    assert futures.expire(100.0) == [future]
    assert future.failure == Failure("The engine gave no result in time.", "server")
    assert sorted(told) == ["a", "b"]
    futures.complete(future, b"too late", 101.0)
    assert (future.state, future.result, futures.held_bytes) == (State.FAILED, b"", 0)


class StoreMachine(RuleBasedStateMachine):
    """Whatever happens in whatever order, a plain model says what must be there."""

    futures = Bundle("futures")
    deliveries = Bundle("deliveries")

    def __init__(self) -> None:
        super().__init__()
        self.store = store()
        self.now = 0.0
        self.kept_until: dict[Future, float] = {}
        self.under_way: dict[Future, int] = {}
        self.failed: set[Future] = set()
        self.leaving: set[Future] = set()  # acknowledged during a delivery

    @rule(target=futures)
    def submit(self) -> Future:
        future, _ = self.store.submit(None, b"", self.now)
        self.kept_until[future] = self.now + KEEP_FOR.pending_ttl_s
        return future

    @rule(future=futures, size=st.integers(0, 5))
    def complete(self, future: Future, size: int) -> None:
        if future.state is State.PENDING and future in self.kept_until:
            self.kept_until[future] = self.now + KEEP_FOR.completed_ttl_s
        self.store.complete(future, bytes(size), self.now)

    @rule(target=deliveries, future=futures)
    def begin_delivery(self, future: Future) -> Future | None:
        if future.state is not State.READY or future not in self.kept_until:
            return None
        self.store.delivery_begins(future)
        self.under_way[future] = self.under_way.get(future, 0) + 1
        return future

    @rule(delivery=consumes(deliveries), complete=st.booleans())
    def end_delivery(self, delivery: Future | None, complete: bool) -> None:
        if delivery is None:
            return
        self.store.delivery_ends(delivery, complete, self.now)
        self.under_way[delivery] -= 1
        if delivery in self.leaving:
            if not self.under_way[delivery]:
                self.kept_until.pop(delivery, None)
        elif complete or self.kept_until[delivery] == math.inf:
            self.kept_until[delivery] = self.now + KEEP_FOR.retrieved_ttl_s

    @rule(future=futures)
    def acknowledge(self, future: Future) -> None:
        self.store.acknowledge(future)
        if future.state is not State.PENDING and future in self.kept_until:
            if self.under_way.get(future):
                self.leaving.add(future)
            else:
                del self.kept_until[future]

    @rule(seconds=st.floats(0.1, 60.0))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.store.expire(self.now)
        for future, until in list(self.kept_until.items()):
            if until > self.now:
                continue
            if future.failure is not None and future not in self.failed:
                self.failed.add(future)
                self.kept_until[future] = self.now + KEEP_FOR.completed_ttl_s
            elif self.under_way.get(future):
                self.kept_until[future] = math.inf
            else:
                del self.kept_until[future]

    @invariant()
    def what_must_be_there_is_there_and_counted(self) -> None:
        assert self.store.held_bytes == sum(len(future.result) for future in self.kept_until)
        assert self.store.deliveries == sum(self.under_way.values())
        assert self.store.outstanding == sum(future.state is State.PENDING for future in self.kept_until)
        for future in self.kept_until:
            assert self.store.find(future.id) is future


TestStoreMachine = StoreMachine.TestCase
