"""The polling rules of an SDK client as a pure state machine: what was seen in, what to do next out.

No I/O and no clock. The rules are those of the public ``tinker`` SDK (0.25 to 0.38, ``lib/api_future_impl.py``), and
docs/parity.md has both clients' traces of each; a preset has the numbers.
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

from locustfiles.preset import SDK, Preset

Cause = Literal["timeout", "try_again", "error"]
FailedEnd = Literal["failed", "lost"]

# Of polls of a session, which has no preset of its own.
BAD_REQUESTS_ALLOWED = SDK.bad_requests_allowed
BILLING_PAUSE_S = SDK.billing_pause_s


class Kind(enum.Enum):
    """What one poll came to."""

    RESULT = enum.auto()  # 200 with a result
    TRY_AGAIN = enum.auto()  # 200 with type try_again
    METADATA = enum.auto()  # 200 with status complete_metadata: the result must be fetched by another poll
    FAILURE = enum.auto()  # 200 with an error: the future has failed
    NOT_A_RESULT = enum.auto()  # 200 with anything else
    STATUS = enum.auto()  # an HTTP status other than 2xx
    REJECTED = enum.auto()  # 400 without a body, as a proxy answers: no better than a failed connection
    TIMED_OUT = enum.auto()  # the client's own time-out
    DISCONNECTED = enum.auto()  # refused, reset, closed, or not HTTP


class Seen(NamedTuple):
    """One poll's outcome. status is the HTTP status (0 without an answer); detail is text for a person.

    is_json: whether the body was JSON, where it matters; payload_bytes: the result's size, if METADATA says it.
    """

    kind: Kind
    status: int = 0
    detail: str = ""
    is_json: bool = False
    payload_bytes: int = 0


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


def next_step(preset: Preset, state: PollState, seen: Seen, billing_pauses: bool = True) -> Step:
    """What the client does after a poll that came to ``seen``; billing_pauses: whether it bears with a 402."""
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
            return _back_off(preset, state, "timeout")
        case Kind.DISCONNECTED | Kind.REJECTED:
            return _back_off(preset, state, "error")
        case Kind.STATUS:
            return _after_status(preset, state, seen, billing_pauses)


def _after_status(preset: Preset, state: PollState, seen: Seen, billing_pauses: bool) -> Step:
    status = seen.status
    if status == 429:
        return _back_off(preset, state, "error")
    if status == 402 and billing_pauses:
        return PollAgain(state, preset.billing_pause_s, "error")
    # Any other answer proves that the connection works, so the back-off starts from the beginning.
    state = state._replace(consecutive_backoffs=0)
    if status == 408:
        return PollAgain(state._replace(bad_requests=0) if seen.is_json else state, 0.0, "try_again")
    if 500 <= status < 600:
        return PollAgain(state, 0.0, "error")
    if status == 400 and state.bad_requests < preset.bad_requests_allowed:
        return PollAgain(state._replace(bad_requests=state.bad_requests + 1), 0.0, "error")
    if status == 410:
        return Resubmit()
    if status == 404:
        return GiveUp("lost", "poll 404")
    return GiveUp("failed", f"poll {status}")


def _back_off(preset: Preset, state: PollState, cause: Cause) -> PollAgain:
    count = state.consecutive_backoffs
    return PollAgain(state._replace(consecutive_backoffs=count + 1), preset.backoff_s(count), cause)
