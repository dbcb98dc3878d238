"""The rules by which a client follows one future of any protocol, pure: what a poll came to in, what to do next out."""

from __future__ import annotations

from typing import NamedTuple

from locustfiles.polling import Cause
from locustfiles.preset import Preset
from locustfiles.protocols.interface import (
    Cancelled,
    Failed,
    FetchAt,
    Lost,
    Outcome,
    Pending,
    Protocol,
    Ready,
    Reply,
    Ticket,
)

WAIT_S = 30.0  # how long a server may hold a poll; below the time-out of every preset
FETCHES_ALLOWED = 5  # in a row: a result that is always elsewhere is nowhere


class NoAnswer(NamedTuple):
    """timed_out: the client's own time-out; otherwise the connection failed, and detail says how."""

    timed_out: bool
    detail: str


class Again(NamedTuple):
    """Send the next call after delay_s."""

    delay_s: float
    cause: Cause


End = Ready | Failed | Lost | Cancelled


class Following:
    """One accepted future. call: what to send next."""

    def __init__(self, protocol: Protocol, preset: Preset, ticket: Ticket) -> None:
        self._protocol = protocol
        self._preset = preset
        self._ticket = ticket
        self._pending = self._fetches = self._troubles = 0
        self.call = protocol.poll(ticket, WAIT_S)

    def read(self, reply: Reply) -> Outcome:
        return self._protocol.observed(self._ticket, reply)

    def after(self, found: Outcome | NoAnswer, trouble_s: float) -> Again | End:
        """What follows. trouble_s: since the last good answer; borne for as long as a submit is."""
        match found:
            case Pending():
                return self._ask_again(found)
            case FetchAt():
                return self._fetch(found)
            case NoAnswer(timed_out=True) if not self._preset.pause_after_timeout:
                return Again(0.0, "timeout")
            case NoAnswer(timed_out=True):
                return Again(self._pause_s(), "timeout")
            case NoAnswer() if trouble_s < self._preset.submit_retry_window_s:
                return Again(self._pause_s(), "error")
            case NoAnswer(_, detail):
                return Failed(f"poll: {detail}", detail)
            case Failed(retryable=True, delay_s=delay_s) if trouble_s < self._preset.submit_retry_window_s:
                return Again(self._pause_s() if delay_s is None else delay_s, "error")
        return found

    def _ask_again(self, pending: Pending) -> Again:
        if pending.path is not None:
            self._ticket = self._ticket._replace(path=pending.path)
        self.call = self._protocol.poll(self._ticket, WAIT_S)
        delay_s = self._preset.backoff_s(self._pending) if pending.delay_s is None else pending.delay_s
        self._pending += 1
        self._fetches = self._troubles = 0
        return Again(delay_s, "try_again")

    def _fetch(self, fetch: FetchAt) -> Again | Failed:
        if self._fetches == FETCHES_ALLOWED:
            return Failed("poll: result always elsewhere", fetch.call.path)
        self.call = fetch.call
        self._fetches += 1
        self._troubles = 0
        return Again(0.0, "try_again")

    def _pause_s(self) -> float:
        self._troubles += 1
        return self._preset.backoff_s(self._troubles - 1)
