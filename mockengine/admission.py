"""Slots and the queue before them: who may run, in order of arrival. No I/O; the clock is passed in."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable


class Place:
    """One request's place, in the queue or in a slot."""

    __slots__ = ("admit",)

    def __init__(self, admit: Callable[[], None]) -> None:
        self.admit = admit


class Admission:
    """``slots`` requests run, the others wait first come first served. Every event costs the same at any length.

    Times are seconds of any clock that does not run backwards.
    """

    def __init__(self, slots: int, now: float) -> None:
        self.slots = slots
        self.peak_running = 0
        self._running: set[Place] = set()
        self._waiting: OrderedDict[Place, None] = OrderedDict()
        self._slot_seconds = 0.0
        self._counted_to = now

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def is_full(self) -> bool:
        """Whether the next request has to wait."""
        return len(self._running) >= self.slots

    def slot_seconds(self, now: float) -> float:
        """The integral of occupied slots over time, up to now."""
        self._count(now)
        return self._slot_seconds

    def enter(self, admit: Callable[[], None], now: float) -> Place:
        """A request has come; ``admit`` is called, now or later, when it gets a slot."""
        place = Place(admit)
        if len(self._running) < self.slots:
            self._start(place, now)
        else:
            self._waiting[place] = None
        return place

    def leave(self, place: Place, now: float) -> None:
        """A request is done, or its client has gone; whoever waits longest gets a slot that becomes free."""
        if place in self._running:
            self._count(now)
            self._running.remove(place)
            if self._waiting:
                self._start(self._waiting.popitem(last=False)[0], now)
        else:
            del self._waiting[place]

    def _start(self, place: Place, now: float) -> None:
        self._count(now)
        self._running.add(place)
        self.peak_running = max(self.peak_running, len(self._running))
        place.admit()

    def _count(self, now: float) -> None:
        self._slot_seconds += len(self._running) * (now - self._counted_to)
        self._counted_to = now
