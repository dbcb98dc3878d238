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
from dataclasses import dataclass

from server_under_test.completions import Completions
from server_under_test.futures import Expiries, Failure, Future, Identity, State

# Far more futures than one process will issue; longer than this is not worth reading.
_NUMBER = re.compile(r"[0-9]{1,18}")


class ConflictError(Exception):
    """Another request has been submitted with the same identity; the text is a sentence."""


@dataclass(frozen=True, kw_only=True)
class KeepFor:
    """Seconds that a future is kept in each state."""

    pending_ttl_s: float
    completed_ttl_s: float
    retrieved_ttl_s: float


class Gone(enum.Enum):
    """Why an id has no future: it was never given out, or it is of an earlier boot, or its future was dropped."""

    NEVER_ISSUED = enum.auto()
    EXPIRED = enum.auto()


class FutureStore:
    """All futures. ``boot`` distinguishes the ids of this process from those of an earlier one.

    completions: where the ends of futures are announced.

    Every method that changes a future's life takes ``now``, seconds of a clock that does not run backwards.
    """

    def __init__(self, keep_for: KeepFor, boot: str, completions: Completions) -> None:
        self._boot = boot
        self._completions = completions
        self._futures: dict[str, Future] = {}
        self._by_identity: dict[Identity, Future] = {}
        self._issued = 0
        self._pending = Expiries(keep_for.pending_ttl_s)
        self._completed = Expiries(keep_for.completed_ttl_s)
        self._retrieved = Expiries(keep_for.retrieved_ttl_s)
        self.outstanding = 0
        self.held_bytes = 0
        self.deliveries = 0  # under way
        # Counters, from the start: futures that became ready, that failed, results dropped after their time, and those
        # dropped because their client had them; bytes of all that was dropped.
        self.freed_bytes = 0
        self.ready = self.failed = self.expired = self.acknowledged = 0

    def submit(self, identity: Identity | None, digest: bytes, now: float) -> tuple[Future, bool]:
        """A future for a request, and whether it is new: a request sent again gets the future it already has.

        digest: of the request, to tell the same one sent again from another one. Raises ConflictError for the latter.
        """
        if identity is not None and (known := self._by_identity.get(identity)) is not None:
            if known.digest != digest:
                raise ConflictError(
                    f"The sampling session has another request with seq_id {identity.seq_id}: give each its own."
                )
            return known, False
        future = Future(f"{self._boot}-{self._issued}", identity, digest)
        self._issued += 1
        self._futures[future.id] = future
        if identity is not None:
            self._by_identity[identity] = future
        self.outstanding += 1
        self._pending.add(future, now)
        return future, True

    def pending(self) -> list[Future]:
        """All futures that have not ended."""
        return self._pending.futures()

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
        future.ended_s = now
        self.outstanding -= 1
        self._completed.add(future, now)
        self._completions.add(future)
        watchers, future.watchers = future.watchers, set()
        for watcher in watchers:
            watcher()

    def delivery_begins(self, future: Future) -> None:
        future.deliveries += 1
        self.deliveries += 1

    def delivery_ends(self, future: Future, complete: bool, now: float) -> None:
        """The last byte was written (complete), or the client has gone before it."""
        future.deliveries -= 1
        self.deliveries -= 1
        if future.acknowledged:
            self.acknowledge(future)
        elif future.id in self._futures and (complete or future.waits_in is None):
            self._retrieved.add(future, now)

    def acknowledge(self, future: Future) -> None:
        """Its client has the result and will not ask for it again: it is dropped, once no delivery is under way."""
        if future.state is State.PENDING or future.id not in self._futures:
            return
        future.acknowledged = True
        if not future.deliveries:
            if future.waits_in is not None:
                future.waits_in.remove(future)
            self._drop(future)
            self.acknowledged += 1

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
                    self.expired += future.state is State.READY
        return overdue

    def _drop(self, future: Future) -> None:
        del self._futures[future.id]
        self._completions.discard(future)
        if future.identity is not None:
            del self._by_identity[future.identity]
        self.held_bytes -= len(future.result) + len(future.json or b"")
        self.freed_bytes += len(future.result) + len(future.json or b"")
