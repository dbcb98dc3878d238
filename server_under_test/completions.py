"""What ended in each sampling session, in order, for clients that poll a session rather than each future. No I/O.

An event is kept until its client has seen it, or until the future is dropped, whichever comes first, so that a client
which never asks costs nothing beyond its futures. Cursors come from one counter for all sessions, and a later boot
starts its counter at a higher number, so that a cursor never means another event than the one it was given out for.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from server_under_test.futures import Future, Sampler


class _Events:
    def __init__(self) -> None:
        self.futures: OrderedDict[int, Future] = OrderedDict()
        self.watchers: set[Callable[[], None]] = set()


class Completions:
    """Events of all samplers. first_cursor: above every cursor of earlier boots."""

    def __init__(self, first_cursor: int) -> None:
        self._cursor = first_cursor
        self._events: dict[Sampler, _Events] = {}

    def add(self, future: Future) -> None:
        """It has ended; whoever waits for its session is told."""
        if future.identity is None:
            return
        self._cursor += 1
        future.completion = self._cursor
        events = self._events.setdefault(future.identity.sampler, _Events())
        events.futures[self._cursor] = future
        watchers, events.watchers = events.watchers, set()
        for watcher in watchers:
            watcher()

    def discard(self, future: Future) -> None:
        """It is dropped, seen or not."""
        if future.completion is not None and future.identity is not None:
            self._forget(future.identity.sampler, future.completion)

    def after(self, sampler: Sampler, cursor: int) -> tuple[list[Future], int]:
        """What ended after ``cursor``, and the cursor to ask with next. Up to ``cursor`` all is forgotten as seen."""
        events = self._events.get(sampler)
        if events is None:
            return [], cursor
        while events.futures and next(iter(events.futures)) <= cursor:
            self._forget(sampler, next(iter(events.futures)))
        return list(events.futures.values()), next(reversed(events.futures), cursor)

    def watch(self, sampler: Sampler, watcher: Callable[[], None]) -> None:
        """Call ``watcher`` once, when the next future of this sampler ends, unless ``unwatch`` comes first."""
        self._events.setdefault(sampler, _Events()).watchers.add(watcher)

    def unwatch(self, sampler: Sampler, watcher: Callable[[], None]) -> None:
        if (events := self._events.get(sampler)) is not None:
            events.watchers.discard(watcher)
            self._tidy(sampler, events)

    def _forget(self, sampler: Sampler, cursor: int) -> None:
        events = self._events[sampler]
        events.futures.pop(cursor).completion = None
        self._tidy(sampler, events)

    def _tidy(self, sampler: Sampler, events: _Events) -> None:
        if not events.futures and not events.watchers:
            self._events.pop(sampler, None)
