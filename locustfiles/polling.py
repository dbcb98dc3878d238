"""The polling rules of an SDK client as a pure state machine: what was seen in, what to do next out.

No I/O and no clock. The rules are those of the public ``tinker`` SDK (0.25 to 0.38), read in its source
(``lib/api_future_impl.py``) and measured against a silent server; the presets differ only in how long a poll may
take and in whether a poll that took too long is followed by a pause.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

Cause = Literal["timeout", "try_again", "error"]
FailedEnd = Literal["failed", "lost"]

BACKOFF_MAX_S = 30.0  # the SDK sleeps min(2**n, 30) s after n consecutive connection errors or 429s
BAD_REQUESTS_ALLOWED = 3  # an upstream proxy may answer 400 spuriously; the SDK polls again three times in a row
BILLING_PAUSE_S = 5.0  # sleep after a 402


@dataclass(frozen=True, slots=True)
class Preset:
    """How one kind of client polls.

    poll_timeout_s: how long the client waits for the answer of one poll.
    pause_after_timeout: whether a timed-out poll counts as a connection error, which is followed by a back-off.
    """

    name: str
    poll_timeout_s: float
    pause_after_timeout: bool


PRESETS = {
    preset.name: preset
    for preset in (
        Preset("sdk", poll_timeout_s=45.0, pause_after_timeout=True),
        # The SDK's default transport adds its read and its write budget: 45 s become 90 s.
        Preset("sdk-pyqwest", poll_timeout_s=90.0, pause_after_timeout=True),
        # What load-test harnesses without the SDK do: poll again at once.
        Preset("plain-45s", poll_timeout_s=45.0, pause_after_timeout=False),
    )
}


class Kind(enum.Enum):
    """What one poll came to."""

    RESULT = enum.auto()  # 200 with a result
    TRY_AGAIN = enum.auto()  # 200 with type try_again
    METADATA = enum.auto()  # 200 with status complete_metadata: the result must be fetched by another poll
    FAILURE = enum.auto()  # 200 with an error: the future has failed
    NOT_A_RESULT = enum.auto()  # 200 with anything else
    STATUS = enum.auto()  # any other HTTP status
    TIMED_OUT = enum.auto()  # the client's own time-out
    DISCONNECTED = enum.auto()  # refused, reset, closed, or not HTTP


class Seen(NamedTuple):
    """One poll's outcome. status is the HTTP status (0 without an answer); detail is text for a person."""

    kind: Kind
    status: int = 0
    detail: str = ""


class PollState(NamedTuple):
    """What a future's earlier polls left behind."""

    allow_metadata_only: bool = True
    consecutive_backoffs: int = 0
    bad_requests: int = 0


@dataclass(frozen=True, slots=True)
class PollAgain:
    """Poll again after delay_s."""

    state: PollState
    delay_s: float
    cause: Cause


@dataclass(frozen=True, slots=True)
class Resubmit:
    """The server no longer has the future (410): submit the work again, as a new request."""


@dataclass(frozen=True, slots=True)
class Deliver:
    """The poll carried the result."""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The future has ended without a result."""

    end: FailedEnd
    error_class: str


Step = PollAgain | Resubmit | Deliver | GiveUp


_DETAILS = re.compile(r": | \(|\. |\.$")
_FIGURE = re.compile(r"\d+")
_STATUS = re.compile(r"[45]\d\d")
_LONGEST_CLASS = 80


def failure_class(message: str) -> str:
    """A name for failures of one kind: the server's message up to its details, without figures but HTTP statuses."""
    beginning = _DETAILS.split(message, maxsplit=1)[0].strip()
    name = _FIGURE.sub(lambda figure: figure[0] if _STATUS.fullmatch(figure[0]) else "#", beginning)
    return f"future failed: {name[:_LONGEST_CLASS]}" if name else "future failed"


def next_step(preset: Preset, state: PollState, seen: Seen) -> Step:
    """What the client does after a poll that came to ``seen``."""
    match seen.kind:
        case Kind.RESULT:
            return Deliver()
        case Kind.TRY_AGAIN:
            return PollAgain(state._replace(consecutive_backoffs=0), 0.0, "try_again")
        case Kind.METADATA if state.allow_metadata_only:
            return PollAgain(state._replace(allow_metadata_only=False, consecutive_backoffs=0), 0.0, "try_again")
        case Kind.METADATA:
            return GiveUp("failed", "poll: metadata twice")
        case Kind.FAILURE:
            return GiveUp("failed", failure_class(seen.detail))
        case Kind.NOT_A_RESULT:
            return GiveUp("failed", "poll: not a result")
        case Kind.TIMED_OUT if not preset.pause_after_timeout:
            return PollAgain(state, 0.0, "timeout")
        case Kind.TIMED_OUT:
            return _back_off(state, "timeout")
        case Kind.DISCONNECTED:
            return _back_off(state, "error")
        case Kind.STATUS:
            return _after_status(state, seen.status)


def _after_status(state: PollState, status: int) -> Step:
    if status == 429:
        return _back_off(state, "error")
    # Any other answer proves that the connection works, so the back-off starts from the beginning.
    state = state._replace(consecutive_backoffs=0)
    if status == 408:
        return PollAgain(state._replace(bad_requests=0), 0.0, "try_again")
    if 500 <= status < 600:
        return PollAgain(state, 0.0, "error")
    if status == 400 and state.bad_requests < BAD_REQUESTS_ALLOWED:
        return PollAgain(state._replace(bad_requests=state.bad_requests + 1), 0.0, "error")
    if status == 402:
        return PollAgain(state, BILLING_PAUSE_S, "error")
    if status == 410:
        return Resubmit()
    if status == 404:
        return GiveUp("lost", "poll 404")
    return GiveUp("failed", f"poll {status}")


def backoff_s(consecutive: int) -> float:
    """The SDK's pause after ``consecutive`` earlier errors in a row: 1, 2, 4 ... 30 s."""
    return min(2.0 ** min(consecutive, 10), BACKOFF_MAX_S)


def _back_off(state: PollState, cause: Cause) -> PollAgain:
    count = state.consecutive_backoffs
    return PollAgain(state._replace(consecutive_backoffs=count + 1), backoff_s(count), cause)
