"""The futures of one server: pending, ready or failed, how long they are kept, and what they hold. No I/O, no clock.

A future is kept for ``pending_ttl_s`` from its submit while it is pending, for ``completed_ttl_s`` from its completion
until it is first delivered, and for ``retrieved_ttl_s`` from the end of its last complete delivery; it is never dropped
while a delivery is under way. Each of these has a queue of its own in which deadlines only rise, so that expiry looks
at what expires and at nothing else. A future is in one queue at a time: an entry left behind in the others would hold
its result for up to pending_ttl_s.
"""

from __future__ import annotations

import enum
import re
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

# Far more futures than one process will issue; longer than this is not worth reading.
_NUMBER = re.compile(r"[0-9]{1,18}")


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

    __slots__ = ("deliveries", "failure", "id", "identity", "json", "result", "state", "waits_in", "watchers")

    def __init__(self, future_id: str, identity: Identity | None) -> None:
        self.id = future_id
        self.identity = identity
        self.state = State.PENDING
        self.result = b""
        self.json: bytes | None = None
        self.failure: Failure | None = None
        self.waits_in: Expiries | None = None  # None during a delivery that outlasts the deadline, and once dropped
        self.deliveries = 0  # under way
        self.watchers: set[Callable[[], None]] = set()


class Expiries:
    """Futures that are kept for the same time, so that they are in the order of their deadlines."""

    def __init__(self, ttl_s: float) -> None:
        self._ttl_s = ttl_s
        self._deadlines: OrderedDict[Future, float] = OrderedDict()

    def add(self, future: Future, now: float) -> None:
        """Let ``future`` wait here, and nowhere else."""
        if future.waits_in is not None:
            future.waits_in.remove(future)
        future.waits_in = self
        self._deadlines[future] = now + self._ttl_s

    def remove(self, future: Future) -> None:
        del self._deadlines[future]
        future.waits_in = None

    def due(self, now: float) -> list[Future]:
        """Take out the futures whose time is over."""
        over = []
        while self._deadlines:
            future, deadline = next(iter(self._deadlines.items()))
            if deadline > now:
                break
            self.remove(future)
            over.append(future)
        return over


class Gone(enum.Enum):
    """Why an id has no future: it was never given out, or it is of an earlier boot, or its future was dropped."""

    NEVER_ISSUED = enum.auto()
    EXPIRED = enum.auto()


class FutureStore:
    """All futures. ``boot`` distinguishes the ids of this process from those of an earlier one.

    Every method that changes a future's life takes ``now``, seconds of a clock that does not run backwards.
    """

    def __init__(self, keep_for: KeepFor, boot: str) -> None:
        self._boot = boot
        self._futures: dict[str, Future] = {}
        self._by_identity: dict[Identity, Future] = {}
        self._issued = 0
        self._pending = Expiries(keep_for.pending_ttl_s)
        self._completed = Expiries(keep_for.completed_ttl_s)
        self._retrieved = Expiries(keep_for.retrieved_ttl_s)
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
        self._pending.add(future, now)
        return future, True

    def knows(self, identity: Identity | None) -> bool:
        """Whether a submit with this identity gets a future that is there already."""
        return identity in self._by_identity

    def find(self, future_id: str) -> Future | Gone:
        """The future with this id, or why there is none."""
        future = self._futures.get(future_id)
        if future is not None:
            return future
        boot, _, number = future_id.rpartition("-")
        if len(boot) != len(self._boot) or _NUMBER.fullmatch(number) is None:
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
            if future.id in self._futures:  # else a waiter has it that was woken just before its time was over
                self.held_bytes += len(json)

    def _end(self, future: Future, state: State, now: float) -> None:
        future.state = state
        self.outstanding -= 1
        self._completed.add(future, now)
        watchers, future.watchers = future.watchers, set()
        for watcher in watchers:
            watcher()

    def delivery_begins(self, future: Future) -> None:
        future.deliveries += 1

    def delivery_ends(self, future: Future, complete: bool, now: float) -> None:
        """The last byte was written (complete), or the client has gone before it."""
        future.deliveries -= 1
        if future.id in self._futures and (complete or future.waits_in is None):
            self._retrieved.add(future, now)

    def expire(self, now: float) -> list[Future]:
        """Drop what has been kept long enough.

        Pending futures fail first, so that whoever waits is told; they are returned, for nobody needs their results.
        """
        overdue = []
        for future in self._pending.due(now):
            self.fail(future, Failure("The engine gave no result in time.", "server"), now)
            overdue.append(future)
        for expiries in (self._completed, self._retrieved):
            for future in expiries.due(now):
                if not future.deliveries:  # else the end of the delivery sets another deadline
                    self._drop(future)
        return overdue

    def _drop(self, future: Future) -> None:
        del self._futures[future.id]
        if future.identity is not None:
            del self._by_identity[future.identity]
        self.held_bytes -= len(future.result) + len(future.json or b"")
        self.expired += future.state is State.READY
