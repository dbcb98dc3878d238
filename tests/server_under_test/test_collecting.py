"""What the passes of the garbage collector look at, and what they find."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from server_under_test import collecting
from server_under_test.collecting import EVERYTHING_INTERVAL_S, Collector, Scope
from tests.server_under_test.client import server
from tests.waiting import wait_for


class Node:
    """An object that refers to itself: only the collector can free it."""

    def __init__(self) -> None:
        self.itself = self


class Passes:
    """A collector, whether it is idle, and what its passes looked at and freed."""

    def __init__(self) -> None:
        self.idle = False
        self.scopes: list[Scope] = []
        self.freed: list[int] = []
        self._collector = Collector(lambda: self.idle, self._observe)

    def _observe(self, scope: Scope, seconds: float, freed: int) -> None:
        self.scopes.append(scope)
        self.freed.append(freed)

    def look(self, now: float) -> None:
        self._collector.look(now)


@pytest.fixture
def passes() -> Iterator[Passes]:
    """Python's own collector is off, and finds all that there is afterwards."""
    gc.disable()
    gc.collect()
    try:
        yield Passes()
    finally:
        gc.unfreeze()
        gc.enable()


def test_a_cycle_that_ends_soon_is_found_by_the_next_pass(passes: Passes) -> None:
    node = Node()
    gone = weakref.ref(node)
    del node
    passes.look(0.0)
    assert gone() is None
    assert passes.scopes == ["new"]
    assert passes.freed[0] >= 1


def test_a_cycle_that_outlives_a_pass_is_found_when_nobody_waits(passes: Passes) -> None:
    node = Node()
    passes.look(0.0)
    gone = weakref.ref(node)
    del node
    passes.look(1.0)
    assert gone() is not None
    passes.idle = True
    passes.look(2.0)
    assert gone() is None


def test_while_somebody_waits_nothing_is_looked_at_twice(passes: Passes) -> None:
    """What is alive is frozen by each pass, so that the generations that passes look at are empty."""
    alive = [Node() for _ in range(1_000)]
    for now in range(3):
        passes.look(float(now))
        looked_at_next = sum(len(gc.get_objects(generation)) for generation in range(3))
        assert looked_at_next < len(alive)
    assert passes.scopes == ["new"] * 3


def test_everything_is_looked_at_once_an_interval(passes: Passes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "EVERYTHING_SHARE", 1.0)  # however slow this machine is
    passes.idle = True
    for now in (0.0, 1.0, EVERYTHING_INTERVAL_S - 1, EVERYTHING_INTERVAL_S, EVERYTHING_INTERVAL_S + 1):
        passes.look(now)
    assert passes.scopes == ["everything", "new", "new", "everything", "new"]


def test_passes_over_everything_that_take_long_are_rare(passes: Passes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "EVERYTHING_SHARE", 1e-9)
    passes.idle = True
    for now in (0.0, EVERYTHING_INTERVAL_S, 100 * EVERYTHING_INTERVAL_S):
        passes.look(now)
    assert passes.scopes == ["everything", "new", "new"]


def test_a_server_counts_its_passes_and_looks_at_what_is_new_while_it_is_busy() -> None:
    new, everything = (f"server_garbage_collection_seconds_count{scope}" for scope in ("new", "everything"))
    with server("http://127.0.0.1:9", "--engine-connect-deadline", "1h") as client:  # no engine: futures wait for one
        client.submit()
        before = client.metrics()
        wait_for(lambda: client.metrics()[new] > before[new] + 10)
        assert client.metrics()[everything] == before[everything] == 1  # as it started
