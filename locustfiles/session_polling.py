"""The rules of session polling as a pure state machine: one long poll tells a client which of its futures have ended.

No I/O and no clock. The rules are those of the public ``tinker`` SDK 0.38 (``lib/session_futures_poller.py``): poll
while a future waits or something is to be acknowledged; name the results retrieved until a poll that named them has
succeeded; ask again after troubles that pass, and let every future fail after one that does not.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from locustfiles.polling import BAD_REQUESTS_ALLOWED, BILLING_PAUSE_S, Kind, Seen

POLL_TIMEOUT_S = 45.0
ACKNOWLEDGEMENT_TIMEOUT_S = 5.0  # of a poll that the server is not to hold
PAUSE_S = 1.0


class Completion(NamedTuple):
    """A future has ended. payload_bytes: the result's size; 0 for a failure, or where the server does not say."""

    request_id: str
    payload_bytes: int


class Request(NamedTuple):
    """The next poll. held: the server may wait with its answer until a future ends."""

    prev_cursor: int
    held: bool
    retrieved: list[str]

    @property
    def timeout_s(self) -> float:
        return POLL_TIMEOUT_S if self.held else ACKNOWLEDGEMENT_TIMEOUT_S


class Answer(NamedTuple):
    completions: list[Completion]
    cursor: int


@dataclass(frozen=True, slots=True)
class AskAgain:
    """Poll again after delay_s."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class SessionLost:
    """No poll of this session will succeed: all its futures have failed."""

    error_class: str


class SessionPolling:
    """What one client knows of the futures of one sampling session, by the server's ids."""

    def __init__(self) -> None:
        self._cursor = 0
        self._acknowledged_cursor = 0
        self._waiting: set[str] = set()
        self._ended: dict[str, Completion] = {}  # ended, but nobody has asked yet
        self._retrieved: set[str] = set()
        self._bad_requests = 0

    @property
    def idle(self) -> bool:
        """Whether a poll would find nothing and say nothing."""
        return not self._waiting and not self._retrieved and self._cursor <= self._acknowledged_cursor

    def wait_for(self, request_id: str) -> Completion | None:
        """The end of a future, if it is known already; otherwise a later answer will tell it."""
        completion = self._ended.pop(request_id, None)
        if completion is None:
            self._waiting.add(request_id)
        return completion

    def retrieved(self, request_id: str) -> None:
        """The result is here, so the server need not keep it."""
        self._retrieved.add(request_id)

    def next_request(self) -> Request:
        return Request(self._cursor, bool(self._waiting), sorted(self._retrieved))

    def answered(self, request: Request, answer: Answer) -> Iterable[Completion]:
        """Those ends that somebody waits for; the others are kept until somebody does."""
        self._bad_requests = 0
        self._retrieved.difference_update(request.retrieved)
        self._acknowledged_cursor = max(self._acknowledged_cursor, request.prev_cursor)
        self._cursor = answer.cursor
        awaited = []
        for completion in answer.completions:
            if completion.request_id in self._waiting:
                self._waiting.remove(completion.request_id)
                awaited.append(completion)
            else:
                self._ended[completion.request_id] = completion
        return awaited

    def failed(self, seen: Seen) -> AskAgain | SessionLost:
        """What follows a poll that brought no answer of the protocol's."""
        if seen.kind in (Kind.TIMED_OUT, Kind.DISCONNECTED):
            return AskAgain(PAUSE_S)
        if seen.kind is not Kind.STATUS:
            return SessionLost(error_class(seen))
        if seen.status in (408, 409, 429) or 500 <= seen.status < 600:
            return AskAgain(PAUSE_S)
        if seen.status == 402:
            return AskAgain(BILLING_PAUSE_S)
        if seen.status == 400 and self._bad_requests < BAD_REQUESTS_ALLOWED:
            self._bad_requests += 1
            return AskAgain(PAUSE_S)
        return SessionLost(error_class(seen))


def error_class(seen: Seen) -> str:
    """A name for polls that failed alike."""
    match seen.kind:
        case Kind.STATUS:
            return f"session poll {seen.status}"
        case Kind.TIMED_OUT:
            return "session poll: timed out"
        case Kind.DISCONNECTED:
            return f"session poll: {seen.detail}"
        case _:
            return "session poll: not an answer"
