"""What makes a worker's users wait before a future: its time, and a place among those outstanding."""

from __future__ import annotations

import time

from gevent.event import Event
from gevent.lock import Semaphore

from locustfiles.stages import Times


class Places:
    """A semaphore whose size can change. What is taken beyond a smaller size is not given out again."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._free = Semaphore(size)
        self._surplus = 0  # places taken that there are no more

    def take(self) -> None:
        """Wait for a free place, in turn."""
        self._free.acquire()

    def give_back(self) -> None:
        if self._surplus:
            self._surplus -= 1
        else:
            self._free.release()

    def resize(self, size: int) -> None:
        for _ in range(self._size, size):
            self.give_back()
        for _ in range(size, self._size):
            if not self._free.acquire(blocking=False):
                self._surplus += 1
        self._size = size


class Timetable:
    """A schedule that runs: from the first wait on, its times are moments of CLOCK_MONOTONIC.

    due_s: float64 array, the intended starts of this worker's futures in seconds since the start.
    """

    def __init__(self, due_s: Times) -> None:
        self._due_s = due_s
        self._started_s: float | None = None
        self._stopped = Event()

    def wait(self, number: int) -> float:
        """Until future ``number`` is due, not at all when that is past or the timetable is stopped. When it was due."""
        if self._started_s is None:
            self._started_s = time.monotonic()
        due_s = self._started_s + float(self._due_s[number])
        while not self._stopped.is_set() and (left_s := due_s - time.monotonic()) > 0:  # timers may wake up early
            self._stopped.wait(left_s)
        return due_s

    def stop(self) -> None:
        """Nobody waits any more."""
        self._stopped.set()
