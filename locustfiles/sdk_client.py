"""A client that does as the ``tinker`` SDK does."""

from __future__ import annotations

import random
import time
from contextlib import ExitStack
from typing import Any, NamedTuple

import gevent

from locustfiles.byte_budget import ByteBudget
from locustfiles.client import Client
from locustfiles.ledger import End
from locustfiles.lengths import JobLengths
from locustfiles.patience import BillingPause, Rejections
from locustfiles.phases import phases
from locustfiles.polling import Deliver, GiveUp, Kind, PollAgain, PollState, Resubmit, Seen, Step, next_step
from locustfiles.preset import CUSTOM, Preset
from locustfiles.protocols import tinker
from locustfiles.protocols.interface import Reply
from locustfiles.session_poller import SessionLostError, SessionPoller
from locustfiles.submit_gate import SubmitGate
from locustfiles.submitting import (
    ESTIMATED_BYTES_PER_TOKEN,
    NO_ANSWER,
    Accepted,
    PauseClient,
    Refused,
    SubmitAgain,
    after_submit,
)
from locustfiles.transport import ConnectionFailedError, TimedOutError
from locustfiles.worker import WorkerRun

SESSION_TIMEOUT_S = 10.0
SESSION_ATTEMPTS = 5
ABANDONED = "abandoned: outstanding when the run ended"


class Promise(NamedTuple):
    """An accepted future: its number here and its id there, what was asked, and the submit's latency in seconds.

    accepted_s: when its id came. sequence_ids: how many of them came with it.
    """

    number: int
    request_id: str
    sequence_ids: int
    seed: int
    lengths: JobLengths
    submit_s: float
    accepted_s: float


class SdkClient(Client):
    """A client of a Tinker-style API: a session, a gate for submits, and each future, or the session, polled."""

    def __init__(self, environment: Any, run: WorkerRun) -> None:
        super().__init__(environment, run)
        self._become(run.preset)
        self._last_progress_s = time.monotonic()
        self._next_seq_id = 0
        self._sampling_session_id = ""
        self._session_poller: SessionPoller | None = None

    def _become(self, preset: Preset) -> None:
        """This client goes by ``preset``; nothing of it is under way yet."""
        self._preset = preset
        self._submits = SubmitGate(preset)
        self._response_bytes = ByteBudget(preset.response_bytes)
        self._billing = BillingPause()
        self._submit_rejections = Rejections(preset.rejections_allowed)
        self._poll_rejections = Rejections(preset.rejections_allowed)

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
                config = tinker.client_config_of(self._call(tinker.CLIENT_CONFIG, tinker.client_config_body()))
                if self._preset.name != CUSTOM:  # whose constants are asked for
                    self._become(config.applied_to(self._preset))
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
        attempts = 0
        while True:
            accepted = self._submit(seed, lengths)
            if isinstance(accepted, tinker.Accepted):
                submitted_s = time.monotonic()
                self._run.measures.latency("submit", submitted_s - began_s)
                self._run.accepted(number, accepted.request_id)
                sequence_ids = len(accepted.sample_sequence_ids or ())
                promise = Promise(
                    number, accepted.request_id, sequence_ids, seed, lengths, submitted_s - began_s, submitted_s
                )
                if self._session_poller is None:
                    end = self._poll_to_the_end(promise, PollState())
                else:
                    end = self._fetch_when_told(promise, self._session_poller)
                if end is not None:
                    self._last_progress_s = time.monotonic()
                    return end
            elif not accepted.anew:
                return End.FAILED
            if not self._preset.resubmits:
                return End.FAILED
            if time.monotonic() - self._last_progress_s > self._preset.progress_timeout_s:
                self._run.measures.error("no progress", "No sample of this client has succeeded for too long.")
                return End.FAILED
            gevent.sleep(self._preset.resubmit_s(attempts, random.uniform(-1, 1)))
            attempts += 1
            began_s = time.monotonic()

    def _submit(self, seed: int, lengths: JobLengths) -> tinker.Accepted | Refused:
        """The accepted future, or that the target refuses."""
        seq_id, self._next_seq_id = self._next_seq_id, self._next_seq_id + 1
        body = tinker.asample_body(self._sampling_session_id, seq_id, lengths, seed)
        request_bytes = lengths.prompt_tokens * ESTIMATED_BYTES_PER_TOKEN
        with self._submits.place(request_bytes):
            while True:
                self._submits.wait_out_pauses()
                step = self._submit_with_retries(body, request_bytes)
                if not isinstance(step, PauseClient):
                    return step
                self._submits.pause(step.delay_s)

    def _submit_with_retries(self, body: bytes, request_bytes: int) -> tinker.Accepted | Refused | PauseClient:
        """Retried until it is accepted or refused, or the client has to pause; then its retries begin anew."""
        first_attempt_s = time.monotonic()
        retries = 0
        while True:
            status, detail, answer = self._post_submit(body)
            now_s = time.monotonic()
            bears = status == 402 and self._billing.pauses(now_s, self._preset.billing_window_s)
            step = after_submit(self._preset, status, retries, now_s - first_attempt_s, request_bytes, bears)
            if isinstance(step, Accepted):
                try:
                    return tinker.accepted_in(answer)
                except tinker.BadAnswerError as error:
                    step, detail = Refused("submit: not a promise"), str(error)
            self._run.measures.error(_submit_error_class(status, step), detail)
            if not isinstance(step, SubmitAgain):
                return step
            retries += 1
            gevent.sleep(step.delay_s)

    def _post_submit(self, body: bytes) -> tuple[int, str, bytes]:
        """HTTP status (NO_ANSWER without one), text for a person, and the answer's body."""
        sent_s = time.monotonic()
        timeout_s = self._preset.submit_timeout_s
        reply: Reply | None = None
        try:
            reply = self._run.transport.post(tinker.ASAMPLE, body, tinker.ASAMPLE_HEADERS, timeout_s)
            status, detail, answer = reply.status, reply.body[:200].decode("utf-8", "replace"), reply.body
        except TimedOutError:
            status, detail, answer = NO_ANSWER, f"no answer within {timeout_s:.0f} s", b""
        except ConnectionFailedError as error:
            self._run.own_limit(error)
            status, detail, answer = NO_ANSWER, str(error), b""
        answered = 200 <= status < 300
        if answered:
            self._submit_rejections.answered()
        elif status == 400 and not answer and self._submit_rejections.forgives():
            status, detail = NO_ANSWER, "400 without a body"
        failure = None if answered else f"submit {status or 'without an answer'}"
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
        try:
            with ExitStack() as held:
                return self._poll_on(promise, state, held)
        except gevent.GreenletExit:  # the run is over
            self._run.measures.error(ABANDONED, self._history(promise))
            raise

    def _history(self, promise: Promise) -> str:
        polls = self._run.ledger.polls_of(promise.number)
        since_s = time.monotonic() - promise.accepted_s
        return f"Future {promise.request_id} was outstanding for {since_s:.1f} s, and had {polls} polls."

    def _poll_on(self, promise: Promise, state: PollState, held: ExitStack) -> End | None:
        """held: where the bytes of a result that is on its way belong."""
        run = self._run
        iteration = 0
        answered_s: float | None = None
        while True:
            asked_s = time.monotonic()
            run.measures.poll()
            run.ledger.polled(promise.number)
            seen, body = self._poll(promise, iteration, state)
            if self._session_poller is not None and seen.kind in (Kind.RESULT, Kind.FAILURE):
                self._session_poller.retrieved(promise.request_id)
            bears = seen.status == 402 and self._billing.pauses(time.monotonic(), self._preset.billing_window_s)
            step: Step = next_step(self._preset, state, seen, bears)
            match step:
                case Deliver() if promise.sequence_ids != 1:
                    found = f"expected 1 sample_sequence_id, found {promise.sequence_ids}"
                    run.measures.poll_error("submit: sequence ids", found)
                    return End.FAILED
                case Deliver():
                    return self._deliver(promise.number, promise.seed, promise.lengths.max_tokens, body)
                case GiveUp(end, error_class):
                    example = seen.detail
                    if end == "lost":
                        gap = (
                            "" if answered_s is None else f" It came {asked_s - answered_s:.1f} s after the one before."
                        )
                        example = f"{self._history(promise)} The last was answered {seen.status}: {seen.detail}.{gap}"
                    run.measures.poll_error(error_class, example)
                    if seen.kind is Kind.NOT_A_RESULT:
                        run.broken_contract(seen.detail)
                    return End.LOST if end == "lost" else End.FAILED
                case Resubmit():
                    run.measures.poll_error("poll 410", seen.detail)
                    return None
                case PollAgain(next_state, delay_s, cause):
                    if cause == "error":
                        run.measures.poll_error(_poll_error_class(seen), seen.detail)
                    run.measures.re_poll(cause)
                    if seen.kind is Kind.METADATA:
                        held.enter_context(self._response_bytes.of(seen.payload_bytes))
                    answered_s = time.monotonic()
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
                self._preset.poll_timeout_s,
            )
        except TimedOutError:
            self._fire("poll (abandoned)", sent_s, 0, None)
            return Seen(Kind.TIMED_OUT), b""
        except ConnectionFailedError as error:
            self._fire("poll", sent_s, 0, f"poll: {error}")
            self._run.own_limit(error)
            return Seen(Kind.DISCONNECTED, 0, str(error)), b""
        seen = tinker.seen_in(reply.status, reply.content_type, reply.body)
        if 200 <= reply.status < 300:
            self._poll_rejections.answered()
        elif seen.kind is Kind.REJECTED and not self._poll_rejections.forgives():
            seen = Seen(Kind.STATUS, seen.status)
        elapsed_s = time.monotonic() - sent_s
        self._run.measures.latency("poll", elapsed_s)
        if iteration == 0:
            self._run.measures.latency("first_poll", elapsed_s)
        if seen.kind is Kind.RESULT:
            spent = phases(reply.headers.get("server-timing", ""), time.monotonic() - promise.accepted_s, reply.body_s)
            for phase, seconds in spent.items():
                self._run.measures.latency(phase, seconds)
        again = seen.kind in (Kind.TRY_AGAIN, Kind.METADATA) or seen.status == 408
        failure = None if again or seen.kind is Kind.RESULT else _poll_error_class(seen)
        self._fire("poll (try again)" if again else "poll", sent_s, len(reply.body), failure)
        return seen, reply.body


def _poll_error_class(seen: Seen) -> str:
    if seen.kind in (Kind.STATUS, Kind.REJECTED):
        return f"poll {seen.status}"
    if seen.kind is Kind.DISCONNECTED:
        return f"poll: {seen.detail}"
    return f"poll: {seen.kind.name.lower().replace('_', ' ')}"


def _submit_error_class(status: int, step: object) -> str:
    if isinstance(step, Refused):
        return step.error_class
    return "submit: no answer" if status == NO_ANSWER else f"submit {status}"
