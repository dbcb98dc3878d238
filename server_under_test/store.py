"""The futures of one server: pending, ready or failed, how long they are kept, and what they hold. No I/O, no clock.

A future is kept for ``pending_ttl_s`` from its submit while it is pending, for ``completed_ttl_s`` from its completion
until it is first delivered, and for ``retrieved_ttl_s`` from the end of its last complete delivery; it is never dropped
while a delivery is under way. Each of these has a queue of its own in which deadlines only rise, so that expiry looks
at what expires and at nothing else.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple


class State(enum.Enum):
    PENDING = "pending"
    READY = "ready"
    FAILED = "failed"


class Failure(NamedTuple):
    """Why a future has no result. category: unknown, server or user, as the SDK knows them."""

    message: str
    category: str


class Identity(NamedTuple):
    """What makes two submits the same request: a resend carries the same session and sequence number."""

    sampling_session_id: str
    seq_id: int


@dataclass(frozen=True, kw_only=True)
class KeepFor:
    """Seconds that a future is kept in each state."""

    pending_ttl_s: float
    completed_ttl_s: float
    retrieved_ttl_s: float


class Future:
    """One submitted sample. Read it; only the store changes it."""

    __slots__ = ("deadline", "deliveries", "failure", "id", "identity", "json", "result", "state", "watchers")

    def __init__(self, future_id: str, identity: Identity | None) -> None:
        self.id = future_id
        self.identity = identity
        self.state = State.PENDING
        self.result = b""
        self.json: bytes | None = None
        self.failure: Failure | None = None
        self.deadline = 0.0
        self.deliveries = 0  # under way
        self.watchers: set[Callable[[], None]] = set()


class Gone(enum.Enum):
    """Why an id has no future: it was never given out, or it is of an earlier boot, or its future was dropped."""

    NEVER_ISSUED = enum.auto()
    EXPIRED = enum.auto()


class FutureStore:
    """All futures. ``boot`` distinguishes the ids of this process from those of an earlier one.

    Every method that changes a future's life takes ``now``, seconds of a clock that does not run backwards.
    """

    def __init__(self, keep_for: KeepFor, boot: str) -> None:
        self._keep_for = keep_for
        self._boot = boot
        self._futures: dict[str, Future] = {}
        self._by_identity: dict[Identity, Future] = {}
        self._issued = 0
        self._expiries: tuple[tuple[float, deque[tuple[float, Future]]], ...] = tuple(
            (ttl_s, deque()) for ttl_s in (keep_for.pending_ttl_s, keep_for.completed_ttl_s, keep_for.retrieved_ttl_s)
        )
        self.outstanding = 0
        self.held_bytes = 0
        # Counters, from the start: futures that became ready and that failed, results dropped after their time.
        self.ready = self.failed = self.expired = 0

    def submit(self, identity: Identity | None, now: float) -> tuple[Future, bool]:
        """A future for a request, and whether it is new: a request sent again gets the future it already has."""
        if identity is not None and (known := self._by_identity.get(identity)) is not None:
            return known, False
        future = Future(f"{self._boot}-{self._issued}", identity)
        self._issued += 1
        self._futures[future.id] = future
        if identity is not None:
            self._by_identity[identity] = future
        self.outstanding += 1
        self._expire_after(_PENDING, future, now)
        return future, True

    def find(self, future_id: str) -> Future | Gone:
        """The future with this id, or why there is none."""
        future = self._futures.get(future_id)
        if future is not None:
            return future
        boot, _, number = future_id.rpartition("-")
        if len(boot) != len(self._boot) or not number.isdecimal():
            return Gone.NEVER_ISSUED
        if boot == self._boot and int(number) >= self._issued:
            return Gone.NEVER_ISSUED
        return Gone.EXPIRED

    def complete(self, future: Future, result: bytes, now: float) -> None:
        """The result is there. A future that has ended already, or was dropped, stays as it is."""
        if future.state is State.PENDING:
            future.result = result
            self.held_bytes += len(result)
            self.ready += 1
            self._end(future, State.READY, now)

    def fail(self, future: Future, failure: Failure, now: float) -> None:
        """There will be no result."""
        if future.state is State.PENDING:
            future.failure = failure
            self.failed += 1
            self._end(future, State.FAILED, now)

    def keep_json(self, future: Future, json: bytes) -> None:
        """Keep the JSON form of a ready future's result beside the result."""
        if future.json is None:
            future.json = json
            self.held_bytes += len(json)

    def _end(self, future: Future, state: State, now: float) -> None:
        future.state = state
        self.outstanding -= 1
        self._expire_after(_COMPLETED, future, now)
        watchers, future.watchers = future.watchers, set()
        for watcher in watchers:
            watcher()

    def delivery_begins(self, future: Future) -> None:
        future.deliveries += 1

    def delivery_ends(self, future: Future, complete: bool, now: float) -> None:
        """The last byte was written (complete), or the client has gone before it."""
        future.deliveries -= 1
        if complete:
            self._expire_after(_RETRIEVED, future, now)

    def expire(self, now: float) -> None:
        """Drop what has been kept long enough. Pending futures fail first, so that whoever waits is told."""
        for _, queue in self._expiries:
            while queue and queue[0][0] <= now:
                deadline, future = queue.popleft()
                if future.deadline != deadline or future.id not in self._futures:
                    continue  # it has moved on to a later deadline, or was dropped
                if future.state is State.PENDING:
                    self.fail(future, Failure("The engine gave no result in time.", "server"), now)
                elif future.deliveries:
                    self._expire_after(_RETRIEVED, future, now)
                else:
                    self._drop(future)

    def _expire_after(self, queue: int, future: Future, now: float) -> None:
        ttl_s, entries = self._expiries[queue]
        future.deadline = now + ttl_s
        entries.append((future.deadline, future))

    def _drop(self, future: Future) -> None:
        del self._futures[future.id]
        if future.identity is not None:
            del self._by_identity[future.identity]
        self.held_bytes -= len(future.result) + len(future.json or b"")
        self.expired += future.state is State.READY


# Positions in FutureStore._expiries.
_PENDING, _COMPLETED, _RETRIEVED = range(3)
