"""A client that does as the ``tinker`` SDK does."""

from __future__ import annotations

import random
import time
from typing import Any, NamedTuple

import gevent
from gevent.lock import BoundedSemaphore

from locustfiles.byte_budget import RESPONSE_BYTES, ByteBudget
from locustfiles.client import Client
from locustfiles.ledger import End
from locustfiles.lengths import JobLengths
from locustfiles.polling import Deliver, GiveUp, Kind, PollAgain, PollState, Resubmit, Seen, Step, next_step
from locustfiles.protocols import tinker
from locustfiles.protocols.interface import Reply
from locustfiles.session_poller import SessionLostError, SessionPoller
from locustfiles.submitting import (
    NO_ANSWER,
    SUBMITS_AT_ONCE,
    Accepted,
    PauseClient,
    Refused,
    SubmitAgain,
    after_submit,
)
from locustfiles.transport import ConnectionFailedError, TimedOutError
from locustfiles.worker import WorkerRun

SUBMIT_TIMEOUT_S = 60.0  # the SDK's default for requests that are not polls
SESSION_TIMEOUT_S = 10.0
SESSION_ATTEMPTS = 5

# The SDK's outer retry: a sample whose future is gone is submitted anew after 0.5 s doubling to 10 s, with jitter.
RESUBMIT_MIN_S = 0.5
RESUBMIT_MAX_S = 10.0
RESUBMIT_JITTER = 0.25


class Promise(NamedTuple):
    """An accepted future: its number here and its id there, what was asked, and the submit's latency in seconds."""

    number: int
    request_id: str
    seed: int
    lengths: JobLengths
    submit_s: float


class SdkClient(Client):
    """A client of a Tinker-style API: a session, a gate for submits, and each future, or the session, polled."""

    def __init__(self, environment: Any, run: WorkerRun) -> None:
        super().__init__(environment, run)
        self._submits = BoundedSemaphore(SUBMITS_AT_ONCE)
        self._paused_until_s = 0.0
        self._next_seq_id = 0
        self._sampling_session_id = ""
        self._response_bytes = ByteBudget(RESPONSE_BYTES)
        self._session_poller: SessionPoller | None = None

    def open(self) -> bool:
        session_id = self._open_session()
        if session_id is None:
            return False
        self._run.greenlets.spawn(self._keep_session_alive, session_id)
        if self._run.settings.polls_sessions:
            self._session_poller = SessionPoller(
                self._run.transport, self._run.measures, self._fire, self._sampling_session_id
            )
            self._run.greenlets.spawn(self._session_poller.run)
        return True

    def _open_session(self) -> str | None:
        """The session's id, with a sampling session in it, as the SDK opens them; None when the target won't."""
        trouble = ""
        for attempt in range(SESSION_ATTEMPTS):
            gevent.sleep(attempt)
            try:
                self._call(tinker.CLIENT_CONFIG, tinker.client_config_body())
                answer = self._call(tinker.CREATE_SESSION, tinker.create_session_body(f"user-{id(self)}"))
                session_id = tinker.session_id_of(answer)
                body = tinker.create_sampling_session_body(session_id, self._run.settings.model)
                answer = self._call(tinker.CREATE_SAMPLING_SESSION, body)
                self._sampling_session_id = tinker.sampling_session_id_of(answer)
            except (TimedOutError, ConnectionFailedError, tinker.BadAnswerError) as error:
                trouble = str(error) or f"no answer within {SESSION_TIMEOUT_S:.0f} s"
                continue
            return session_id
        self._run.fail(f"The target opened no session in {SESSION_ATTEMPTS} attempts: {trouble}.")
        return None

    def _call(self, path: str, body: bytes) -> bytes:
        reply = self._run.transport.post(path, body, {"Accept": "application/json"}, SESSION_TIMEOUT_S)
        if reply.status != 200:
            raise tinker.BadAnswerError(f"{path} answered {reply.status}: {reply.body[:200]!r}")
        return reply.body

    def _keep_session_alive(self, session_id: str) -> None:
        body = tinker.heartbeat_body(session_id)
        headers = {"Accept": "application/json"}
        while True:
            gevent.sleep(tinker.HEARTBEAT_INTERVAL_S)
            try:
                reply = self._run.transport.post(tinker.SESSION_HEARTBEAT, body, headers, SESSION_TIMEOUT_S)
            except (TimedOutError, ConnectionFailedError) as error:
                self._run.measures.error("heartbeat", str(error) or "timed out")
                continue
            if reply.status == 410:  # the session has ended; so does the SDK's loop
                return

    def sample(self, number: int, began_s: float) -> End:
        seed, lengths = self._run.job(number)
        pause_s = RESUBMIT_MIN_S
        while True:
            request_id = self._submit(seed, lengths)
            if request_id is None:
                return End.FAILED
            submitted_s = time.monotonic()
            self._run.measures.latency("submit", submitted_s - began_s)
            self._run.accepted(number, request_id)
            promise = Promise(number, request_id, seed, lengths, submitted_s - began_s)
            if self._session_poller is None:
                end = self._poll_to_the_end(promise, PollState())
            else:
                end = self._fetch_when_told(promise, self._session_poller)
            if end is not None:
                return end
            gevent.sleep(pause_s * random.uniform(1 - RESUBMIT_JITTER, 1 + RESUBMIT_JITTER))
            pause_s = min(pause_s * 2, RESUBMIT_MAX_S)
            began_s = time.monotonic()

    def _submit(self, seed: int, lengths: JobLengths) -> str | None:
        """The accepted future's id, or None when the target refuses for good."""
        seq_id, self._next_seq_id = self._next_seq_id, self._next_seq_id + 1
        body = tinker.asample_body(self._sampling_session_id, seq_id, lengths, seed)
        first_attempt_s = time.monotonic()
        retries = 0
        with self._submits:
            while True:
                gevent.sleep(max(0.0, self._paused_until_s - time.monotonic()))
                status, detail, answer = self._post_submit(body)
                step = after_submit(status, retries, time.monotonic() - first_attempt_s, len(body))
                if isinstance(step, Accepted):
                    try:
                        return tinker.request_id_of(answer)
                    except tinker.BadAnswerError as error:
                        step, detail = Refused("submit: not a promise"), str(error)
                self._run.measures.error(_submit_error_class(status, step), detail)
                match step:
                    case PauseClient(delay_s):
                        self._paused_until_s = time.monotonic() + delay_s
                    case SubmitAgain(delay_s):
                        retries += 1
                        gevent.sleep(delay_s)
                    case Refused():
                        return None

    def _post_submit(self, body: bytes) -> tuple[int, str, bytes]:
        """HTTP status (NO_ANSWER without one), text for a person, and the answer's body."""
        sent_s = time.monotonic()
        reply: Reply | None = None
        try:
            reply = self._run.transport.post(tinker.ASAMPLE, body, tinker.ASAMPLE_HEADERS, SUBMIT_TIMEOUT_S)
            status, detail, answer = reply.status, reply.body[:200].decode("utf-8", "replace"), reply.body
        except TimedOutError:
            status, detail, answer = NO_ANSWER, f"no answer within {SUBMIT_TIMEOUT_S:.0f} s", b""
        except ConnectionFailedError as error:
            status, detail, answer = NO_ANSWER, str(error), b""
        failure = None if status == 200 else f"submit {status or 'without an answer'}"
        self._fire("submit", sent_s, len(answer), failure)
        return status, detail, answer

    def _fetch_when_told(self, promise: Promise, poller: SessionPoller) -> End | None:
        """Wait until the session's poll tells of the future's end; then as when each future is polled."""
        try:
            completion = poller.wait_for(promise.request_id)
        except SessionLostError as error:
            self._run.measures.error("future failed: its session can't be polled", str(error))
            return End.FAILED
        with self._response_bytes.of(completion.payload_bytes):
            return self._poll_to_the_end(promise, PollState(allow_metadata_only=completion.payload_bytes == 0))

    def _poll_to_the_end(self, promise: Promise, state: PollState) -> End | None:
        """Poll until the future has ended; None when it has to be submitted again."""
        run = self._run
        iteration = 0
        while True:
            run.measures.poll()
            run.ledger.polled(promise.number)
            seen, body = self._poll(promise, iteration, state)
            if self._session_poller is not None and seen.kind in (Kind.RESULT, Kind.FAILURE):
                self._session_poller.retrieved(promise.request_id)
            step: Step = next_step(run.preset, state, seen)
            match step:
                case Deliver():
                    return self._deliver(promise.number, promise.seed, promise.lengths.max_tokens, body)
                case GiveUp(end, error_class):
                    run.measures.poll_error(error_class, seen.detail)
                    return End.LOST if end == "lost" else End.FAILED
                case Resubmit():
                    run.measures.poll_error("poll 410", seen.detail)
                    return None
                case PollAgain(next_state, delay_s, cause):
                    if cause == "error":
                        run.measures.poll_error(_poll_error_class(seen), seen.detail)
                    run.measures.re_poll(cause)
                    gevent.sleep(delay_s)
                    state = next_state
            iteration += 1

    def _poll(self, promise: Promise, iteration: int, state: PollState) -> tuple[Seen, bytes]:
        sent_s = time.monotonic()
        try:
            reply = self._run.transport.post(
                tinker.RETRIEVE_FUTURE,
                tinker.retrieve_body(promise.request_id, state.allow_metadata_only),
                tinker.retrieve_headers(iteration, promise.submit_s),
                self._run.preset.poll_timeout_s,
            )
        except TimedOutError:
            self._fire("poll (abandoned)", sent_s, 0, None)
            return Seen(Kind.TIMED_OUT), b""
        except ConnectionFailedError as error:
            self._fire("poll", sent_s, 0, f"poll: {error}")
            return Seen(Kind.DISCONNECTED, 0, str(error)), b""
        seen = tinker.seen_in(reply.status, reply.content_type, reply.body)
        elapsed_s = time.monotonic() - sent_s
        self._run.measures.latency("poll", elapsed_s)
        if iteration == 0:
            self._run.measures.latency("first_poll", elapsed_s)
        again = seen.kind in (Kind.TRY_AGAIN, Kind.METADATA) or seen.status == 408
        failure = None if again or seen.kind is Kind.RESULT else _poll_error_class(seen)
        self._fire("poll (try again)" if again else "poll", sent_s, len(reply.body), failure)
        return seen, reply.body


def _poll_error_class(seen: Seen) -> str:
    if seen.kind is Kind.STATUS:
        return f"poll {seen.status}"
    if seen.kind is Kind.DISCONNECTED:
        return f"poll: {seen.detail}"
    return f"poll: {seen.kind.name.lower().replace('_', ' ')}"


def _submit_error_class(status: int, step: object) -> str:
    if isinstance(step, Refused):
        return step.error_class
    return "submit: no answer" if status == NO_ANSWER else f"submit {status}"
