"""A client of any API that has a protocol: it sends what the protocol asks for, and waits between."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import gevent

from locustfiles.client import Client
from locustfiles.following import Again, Following, NoAnswer
from locustfiles.ledger import End
from locustfiles.protocols.interface import (
    BadAnswerError,
    Call,
    Cancelled,
    Failed,
    FetchAt,
    Job,
    Lost,
    Pending,
    Protocol,
    Ready,
    Reply,
    Ticket,
)
from locustfiles.transport import ConnectionFailedError, TimedOutError
from locustfiles.worker import WorkerRun

SUBMIT_TIMEOUT_S = 60.0

Read = TypeVar("Read")


class ProtocolClient(Client):
    """A failing call is repeated for as long as the preset retries a submit.

    A submit is repeated only when the server says that it did not take it.
    """

    def __init__(self, environment: Any, run: WorkerRun, protocol: Protocol) -> None:
        super().__init__(environment, run)
        self._protocol = protocol

    def sample(self, number: int, began_s: float) -> End:
        seed, lengths = self._run.job(number)
        accepted = self._submit(Job(self._run.settings.model, seed, lengths))
        if isinstance(accepted, Failed):
            return End.FAILED
        self._run.measures.latency("submit", time.monotonic() - began_s)
        end: Ready | Failed | Lost | Cancelled
        if isinstance(accepted, Ready):
            end = accepted
        else:
            self._run.accepted(number, accepted.id)
            end = self._poll_to_the_end(number, accepted)
        match end:
            case Ready(result):
                return self._deliver(number, seed, lengths.max_tokens, result)
            case Lost():
                return End.LOST
            case Cancelled():
                return End.CANCELLED
        return End.FAILED

    def _submit(self, job: Job) -> Ticket | Ready | Failed:
        call = self._protocol.submit(job)
        first_attempt_s = time.monotonic()
        retries = 0
        while True:
            found = self._ask("submit", call, SUBMIT_TIMEOUT_S, self._protocol.accepted)
            if isinstance(found, NoAnswer):
                found = Failed("submit: no answer", found.detail)
            if not isinstance(found, Failed):
                return found
            self._run.measures.error(found.error_class, found.detail)
            if not found.retryable or time.monotonic() - first_attempt_s >= self._run.preset.submit_retry_window_s:
                return found
            gevent.sleep(self._run.preset.backoff_s(retries) if found.delay_s is None else found.delay_s)
            retries += 1

    def _poll_to_the_end(self, number: int, ticket: Ticket) -> Ready | Failed | Lost | Cancelled:
        measures = self._run.measures
        following = Following(self._protocol, self._run.preset, ticket)
        well_s = time.monotonic()
        first = True
        while True:
            measures.poll()
            self._run.ledger.polled(number)
            found = self._ask("poll", following.call, self._run.preset.poll_timeout_s, following.read, first)
            first = False
            if isinstance(found, Pending | FetchAt):
                well_s = time.monotonic()
            step = following.after(found, time.monotonic() - well_s)
            if isinstance(step, Failed | Lost | Cancelled):
                measures.poll_error(step.error_class, step.detail)
            elif isinstance(found, Failed):
                measures.poll_error(found.error_class, found.detail)
            elif isinstance(found, NoAnswer) and not found.timed_out:
                measures.poll_error(f"poll: {found.detail}", found.detail)
            if not isinstance(step, Again):
                return step
            measures.re_poll(step.cause)
            gevent.sleep(step.delay_s)

    def _ask(
        self, what: str, call: Call, timeout_s: float, read: Callable[[Reply], Read], first_poll: bool = False
    ) -> Read | Failed | NoAnswer:
        """Send, and read the answer; an answer that can't be read is a failure."""
        sent_s = time.monotonic()
        try:
            reply = self._run.transport.send(call, timeout_s)
        except TimedOutError:
            self._fire(f"{what} (abandoned)", sent_s, 0, None, call.method)
            return NoAnswer(True, f"no answer within {timeout_s:.0f} s")
        except ConnectionFailedError as error:
            self._fire(what, sent_s, 0, f"{what}: {error}", call.method)
            return NoAnswer(False, str(error))
        found: Read | Failed
        try:
            found = read(reply)
        except BadAnswerError as error:
            found = Failed(error.error_class, str(error))
        except Exception as error:  # whatever a protocol's reading of an unforeseen answer comes to
            found = Failed(f"{what}: answer not understood", f"{error!r}: {reply.body[:200]!r}")
        if what == "poll":
            elapsed_s = time.monotonic() - sent_s
            self._run.measures.latency("poll", elapsed_s)
            if first_poll:
                self._run.measures.latency("first_poll", elapsed_s)
        failure = found.error_class if isinstance(found, Failed | Lost | Cancelled) else None
        name = f"{what} (try again)" if isinstance(found, Pending | FetchAt) else what
        self._fire(name, sent_s, len(reply.body), failure, call.method)
        return found
