"""A future, what it is known by, and the queues in which it waits for its deadline. No I/O, no clock."""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

# A cloned sampler numbers its requests from its own number times this (tinker, public_interfaces/sampling_client.py).
CLONE_STRIDE = 1_000_000_000


class State(enum.Enum):
    PENDING = "pending"
    READY = "ready"
    FAILED = "failed"


class Failure(NamedTuple):
    """Why a future has no result. category: unknown, server or user, as the SDK knows them."""

    message: str
    category: str


class Sampler(NamedTuple):
    """One client of a sampling session; clones of a client share the session and poll for themselves."""

    sampling_session_id: str
    clone: int


class Identity(NamedTuple):
    """What makes two submits the same request: a resend carries the same session and sequence number."""

    sampling_session_id: str
    seq_id: int

    @property
    def sampler(self) -> Sampler:
        return Sampler(self.sampling_session_id, self.seq_id // CLONE_STRIDE)


class Future:
    """One submitted sample. Read it; only the store changes it."""

    __slots__ = (
        *("acknowledged", "announced", "completion", "deliveries", "digest", "ended_s", "failure"),
        *("id", "identity", "json", "result", "state", "waits_in", "watchers"),
    )

    def __init__(self, future_id: str, identity: Identity | None, digest: bytes) -> None:
        self.id = future_id
        self.identity = identity
        self.digest = digest  # of the request
        self.completion: int | None = None  # the cursor of its end, until its client has seen it
        self.announced = False  # whether its size was told in place of the result
        self.acknowledged = False  # whether its client has it
        self.state = State.PENDING
        self.ended_s: float | None = None  # when it was no longer pending, of the store's clock
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

    def futures(self) -> list[Future]:
        return list(self._deadlines)

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
