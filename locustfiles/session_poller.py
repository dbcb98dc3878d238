"""The greenlet that polls one sampling session for all futures of its client."""

from __future__ import annotations

import time
from collections.abc import Callable

import gevent
from gevent.event import AsyncResult, Event

from locustfiles.measures import Measures
from locustfiles.polling import Kind, Seen
from locustfiles.protocols import tinker_sessions
from locustfiles.session_polling import Answer, Completion, Request, SessionLost, SessionPolling, error_class
from locustfiles.transport import ConnectionFailedError, TimedOutError, Transport

# name, start of the request (monotonic seconds), bytes of the answer, what went wrong
Fire = Callable[[str, float, int, str | None], None]


class SessionLostError(Exception):
    """The session can't be polled any more. ``str()`` is low-cardinality."""


class SessionPoller:
    """Tells each future's greenlet when its future has ended. ``run`` is the loop, for a greenlet of its own."""

    def __init__(self, transport: Transport, measures: Measures, fire: Fire, sampling_session_id: str) -> None:
        self._transport = transport
        self._measures = measures
        self._fire = fire
        self._sampling_session_id = sampling_session_id
        self._polling = SessionPolling()
        self._waiters: dict[str, AsyncResult[Completion]] = {}
        self._work = Event()
        self._lost: SessionLostError | None = None

    def wait_for(self, request_id: str) -> Completion:
        """Returns when the future has ended. Raises SessionLostError."""
        known = self._polling.wait_for(request_id)
        if known is not None:
            return known
        if self._lost is not None:
            raise self._lost
        waiter = self._waiters[request_id] = AsyncResult()
        self._work.set()
        completion = waiter.get()
        assert completion is not None  # get() is typed for waiters that nobody sets
        return completion

    def retrieved(self, request_id: str) -> None:
        """Its result is here: the next poll says so."""
        self._polling.retrieved(request_id)
        self._work.set()

    def run(self) -> None:
        """Poll until the session is lost."""
        while self._lost is None:
            while self._polling.idle:
                self._work.clear()
                self._work.wait()
            request = self._polling.next_request()
            found = self._poll(request)
            if isinstance(found, Answer):
                for completion in self._polling.answered(request, found):
                    self._waiters.pop(completion.request_id).set(completion)
                continue
            self._measures.error(error_class(found), found.detail)
            step = self._polling.failed(found)
            if isinstance(step, SessionLost):
                self._lose(step.error_class)
            else:
                gevent.sleep(step.delay_s)

    def _lose(self, error_class: str) -> None:
        self._lost = SessionLostError(error_class)
        waiters, self._waiters = self._waiters, {}
        for waiter in waiters.values():
            waiter.set_exception(self._lost)

    def _poll(self, request: Request) -> Answer | Seen:
        body = tinker_sessions.retrieve_futures_body(self._sampling_session_id, request)
        sent_s = time.monotonic()
        try:
            reply = self._transport.post(
                tinker_sessions.RETRIEVE_FUTURES, body, tinker_sessions.HEADERS, request.timeout_s
            )
        except TimedOutError:
            found: Answer | Seen = Seen(Kind.TIMED_OUT, 0, f"no answer within {request.timeout_s:.0f} s")
        except ConnectionFailedError as error:
            found = Seen(Kind.DISCONNECTED, 0, str(error))
        else:
            found = tinker_sessions.answer_in(reply.status, reply.body)
            self._measures.latency("session_poll", time.monotonic() - sent_s)
        if isinstance(found, Answer):
            self._fire("session poll", sent_s, len(reply.body), None)
        else:
            self._fire("session poll", sent_s, 0, error_class(found))
        return found
