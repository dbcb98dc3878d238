"""Holding requests that are done and letting them go together. No I/O; whoever waits brings a callable."""

from __future__ import annotations

from collections.abc import Callable

Release = Callable[[], None]


class Gate:
    """Closed by ``hold`` until ``release``; with a size, also whenever fewer than that many wait at it."""

    def __init__(self, size: int = 1) -> None:
        self._size = size
        self._held = False
        self._waiting: dict[Release, None] = {}

    @property
    def held(self) -> bool:
        return self._held

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def arrive(self, release: Release) -> bool:
        """A request is done: True when it may go on at once; otherwise ``release`` is called when it may.

        Whoever completes a barrier goes on at once, and those who waited are released.
        """
        if not self._held and len(self._waiting) + 1 >= self._size:
            self._let_go()
            return True
        self._waiting[release] = None
        return False

    def leave(self, release: Release) -> None:
        """Its client has gone."""
        self._waiting.pop(release, None)

    def resize(self, size: int) -> None:
        """From now on as many as this make a barrier; those who wait go if they are enough."""
        self._size = size
        if not self._held and len(self._waiting) >= size:
            self._let_go()

    def hold(self) -> None:
        self._held = True

    def release(self) -> None:
        """Let go whoever waits, and hold no more."""
        self._held = False
        self._let_go()

    def time_out(self) -> None:
        """A barrier has waited long enough for the rest of its requests; a hold goes on."""
        if not self._held:
            self._let_go()

    def _let_go(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for release in waiting:
            release()
