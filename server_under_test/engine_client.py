"""Requests to the engine over keep-alive connections, and a clear error for every way in which it fails to answer."""

from __future__ import annotations

import asyncio
import email.utils
import socket
import time
from collections.abc import Callable
from typing import TypeVar, cast
from urllib.parse import urlsplit

from server_under_test.http_answer import AnswerReader, BadAnswerError, Body, Buffers
from server_under_test.receiving import Intake, Pace
from server_under_test.retries import Reason, Retries

T = TypeVar("T")

COMPLETIONS = "/v1/completions"
CONNECT_TIMEOUT_S = 30.0
# A keep-alive connection that the engine closes for being idle, just as it is used again, ends well within this. Later,
# the engine may have been at work on the request.
KEEP_ALIVE_RACE_S = 1.0
_REFUSALS = (429, 503)
RECEIVED_AT_ONCE = 8
RECEIVE_BUFFER_BYTES = 256 * 1024
STALL_S = 0.1
DECODE_BUDGET_S = 0.01


class EngineError(Exception):
    """The engine gave no usable answer; the text is a sentence."""


class _NotExecutedError(EngineError):
    """The request may be sent again, after retry_after_s if the engine said so."""

    def __init__(self, sentence: str, reason: Reason, retry_after_s: float | None = None) -> None:
        super().__init__(sentence)
        self.reason = reason
        self.retry_after_s = retry_after_s


class EngineClient:
    """One engine. As many requests are under way at once as there are callers; each has a connection to itself.

    timeout_s: for a whole request, attempts and pauses included. connect_deadline_s: how long to try to connect.
    retries: requests that were sent again, by why.
    """

    def __init__(self, url: str, timeout_s: float = 3600.0, connect_deadline_s: float = 30.0) -> None:
        self._timeout_s = timeout_s
        self._connect_deadline_s = connect_deadline_s
        self.retries = dict.fromkeys(Reason, 0)
        self._refused = 0
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._head = (
            f"POST {parts.path.rstrip('/')}{COMPLETIONS} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            "Content-Type: application/json\r\nAccept: application/json\r\nContent-Length: "
        ).encode("ascii")
        self._buffers = Buffers()
        self._intake = Intake(RECEIVED_AT_ONCE, STALL_S)
        self._pace = Pace(DECODE_BUDGET_S)
        self._idle: list[_Connection] = []

    async def complete(self, body: bytes, decode: Callable[[Body], T]) -> T:
        """What ``decode`` makes of the body of the engine's answer, which it must not keep.

        Raises EngineError unless the engine answers 200 with JSON, and what decode raises.
        """
        retries = Retries(self._connect_deadline_s)
        new_connection = False
        try:
            async with asyncio.timeout(self._timeout_s):
                while True:
                    try:
                        return await self._attempt(body, decode, new_connection)
                    except _NotExecutedError as error:
                        reason = error.reason
                        pause_s = retries.pause_s(reason, error.retry_after_s, time.monotonic())
                        if pause_s is None:
                            raise
                        self.retries[reason] += 1
                        # An engine that closes one idle connection is about to close the others.
                        new_connection |= reason is Reason.KEEP_ALIVE
                    await self._pause(reason, pause_s)
        except TimeoutError as error:
            raise EngineError(f"The engine gave no result within {self._timeout_s:g} s.") from error

    @property
    def refusing(self) -> bool:
        """Whether a request waits because the engine refused it."""
        return self._refused > 0

    async def _pause(self, reason: Reason, seconds: float) -> None:
        self._refused += reason is Reason.REFUSED
        try:
            await asyncio.sleep(seconds)
        finally:
            self._refused -= reason is Reason.REFUSED

    async def _attempt(self, body: bytes, decode: Callable[[Body], T], new_connection: bool) -> T:
        connection = await (self._connect() if new_connection else self._connection())
        try:
            answer = await connection.request(b"%b%d\r\n\r\n%b" % (self._head, len(body), body))
        except BaseException:
            connection.close()
            raise
        try:
            if answer.keep_alive and connection.has_sent_everything:
                self._idle.append(connection)
            else:
                connection.close()
            if answer.status != 200:
                sentence = f"The engine answered {answer.status}: {_beginning(answer.body)}"
                if answer.status in _REFUSALS:
                    raise _NotExecutedError(sentence, Reason.REFUSED, _seconds(answer.retry_after))
                raise EngineError(sentence)
            if "json" not in answer.content_type:
                content_type = answer.content_type or "no content type"
                raise EngineError(f"The engine answered 200 with {content_type}: {_beginning(answer.body)}")
            return await self._pace.do(lambda: decode(answer.body))
        finally:
            answer.release()
            self._intake.done(answer)

    async def _connection(self) -> _Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        return await self._connect()

    async def _connect(self) -> _Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, protocol = await loop.create_connection(
                    lambda: _Connection(self._buffers, self._intake), self._host, self._port
                )
        except TimeoutError as error:
            sentence = f"The engine did not accept a connection within {CONNECT_TIMEOUT_S:.0f} s."
            raise _NotExecutedError(sentence, Reason.CONNECT) from error
        except OSError as error:
            sentence = f"The engine can't be reached: {error.strerror or error}."
            raise _NotExecutedError(sentence, Reason.CONNECT) from error
        return protocol

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()


class _Connection(asyncio.BufferedProtocol):
    """One connection, one request at a time. intake: says when a long answer is received."""

    def __init__(self, buffers: Buffers, intake: Intake) -> None:
        self._buffers = buffers
        self._intake = intake
        self._has_turn = False
        self._transport: asyncio.Transport | None = None
        self._reader: AnswerReader | None = None
        self._done: asyncio.Future[AnswerReader] | None = None
        self._used_before = False
        self._sent_s = 0.0
        self.usable = True

    @property
    def has_sent_everything(self) -> bool:
        """An answer may come before the request has gone; the rest of it would be taken for the next one."""
        return self._transport is not None and self._transport.get_write_buffer_size() == 0

    async def request(self, request: bytes) -> AnswerReader:
        """The complete answer; the caller releases it. Raises EngineError."""
        assert self._transport is not None
        done: asyncio.Future[AnswerReader] = asyncio.get_running_loop().create_future()
        self._done = done
        self._sent_s = time.monotonic()
        self._transport.write(request)
        try:
            answer = await done
        except asyncio.CancelledError:
            if done.done() and not done.cancelled() and done.exception() is None:
                done.result().release()  # it came at the very moment at which nobody wanted it any more
                self._intake.done(done.result())
            raise
        finally:
            self._done = None
            del done  # an error would hold this frame, and this frame the error
        self._used_before = True
        return answer

    def close(self) -> None:
        self.usable = False
        if self._transport is not None:
            self._transport.close()

    def _fail(self, error: EngineError) -> None:
        self.close()
        if self._done is not None and not self._done.done():
            self._done.set_exception(error)

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        # A burst waits in the kernel until its turn comes. Buffers that tune themselves grow to megabytes for each
        # connection, and all of them together past the kernel's limit for TCP, where packets are dropped (tcp_mem).
        self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._reader is None:  # taken only now: a connection that waits for the engine holds no memory
            self._reader = AnswerReader(self._buffers)
        return self._reader.room()

    def buffer_updated(self, nbytes: int) -> None:
        assert self._reader is not None
        if self._done is None or self._done.done():
            self._drop_reader()
            self._fail(EngineError("The engine sent bytes that nobody had asked for."))
            return
        try:
            self._reader.received(nbytes)
        except BadAnswerError as error:
            self._drop_reader()
            self._fail(EngineError(f"The engine's answer can't be read. {error}"))
            return
        if self._reader.complete:
            self._hand_over()
        elif self._has_turn:
            self._intake.progress(self._reader)
        elif self._reader.is_long:
            self._has_turn = self._intake.ask(self._reader, self._begin)
            if not self._has_turn and self._transport is not None:
                self._transport.pause_reading()

    def _begin(self) -> None:
        self._has_turn = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.usable = False
        if self._reader is not None:
            if error is None:
                self._reader.closed()
            if self._reader.complete:
                self._hand_over()
                return
            begun = self._reader.begun
            self._drop_reader()
            if begun:
                self._fail(EngineError("The engine's answer broke off in the middle."))
                return
        sentence = "The engine closed the connection without an answer."
        if self._used_before and time.monotonic() - self._sent_s < KEEP_ALIVE_RACE_S:
            self._fail(_NotExecutedError(sentence, Reason.KEEP_ALIVE))
        else:
            self._fail(EngineError(sentence))

    def _hand_over(self) -> None:
        reader, self._reader = self._reader, None
        self._has_turn = False
        assert reader is not None
        if self._done is not None and not self._done.done():
            self._done.set_result(reader)
        else:  # nobody waits any more
            reader.release()
            self._intake.done(reader)

    def _drop_reader(self) -> None:
        if self._reader is not None:
            self._reader.release()
            self._intake.done(self._reader)
            self._reader = None
            self._has_turn = False


def _seconds(retry_after: str) -> float | None:
    """A Retry-After, which is a number of seconds or a date (RFC 9110, 10.2.3); None for none, or for neither."""
    if retry_after.isdecimal():
        return float(retry_after)
    try:
        then = email.utils.parsedate_to_datetime(retry_after).timestamp()
    except (ValueError, OverflowError):
        return None
    return max(0.0, then - time.time())


def _beginning(body: Body) -> str:
    return bytes(body.whole()[:200]).decode("utf-8", "replace").strip() or "an empty body."
