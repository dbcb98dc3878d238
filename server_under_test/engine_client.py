"""Requests to the engine over keep-alive connections, and a clear error for every way in which it fails to answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar, cast
from urllib.parse import urlsplit

from server_under_test.http_answer import AnswerReader, BadAnswerError, Body, Buffers

T = TypeVar("T")

COMPLETIONS = "/v1/completions"
CONNECT_TIMEOUT_S = 30.0


class EngineError(Exception):
    """The engine gave no usable answer; the text is a sentence."""


class EngineClient:
    """One engine. As many requests are under way at once as there are callers; each has a connection to itself."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._head = (
            f"POST {parts.path.rstrip('/')}{COMPLETIONS} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
            "Content-Type: application/json\r\nAccept: application/json\r\nContent-Length: "
        ).encode("ascii")
        self._buffers = Buffers()
        self._idle: list[_Connection] = []

    async def complete(self, body: bytes, decode: Callable[[Body], T]) -> T:
        """What ``decode`` makes of the body of the engine's answer, which it must not keep.

        Raises EngineError unless the engine answers 200 with JSON, and what decode raises.
        """
        connection = await self._connection()
        try:
            answer = await connection.request(b"%b%d\r\n\r\n%b" % (self._head, len(body), body))
        except BaseException:
            connection.close()
            raise
        try:
            if answer.keep_alive:
                self._idle.append(connection)
            else:
                connection.close()
            if answer.status != 200:
                raise EngineError(f"The engine answered {answer.status}: {_beginning(answer.body)}")
            if "json" not in answer.content_type:
                content_type = answer.content_type or "no content type"
                raise EngineError(f"The engine answered 200 with {content_type}: {_beginning(answer.body)}")
            return decode(answer.body)
        finally:
            answer.release()

    async def _connection(self) -> _Connection:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, protocol = await loop.create_connection(lambda: _Connection(self._buffers), self._host, self._port)
        except TimeoutError as error:
            raise EngineError(f"The engine did not accept a connection within {CONNECT_TIMEOUT_S:.0f} s.") from error
        except OSError as error:
            raise EngineError(f"The engine can't be reached: {error.strerror or error}.") from error
        return protocol

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()


class _Connection(asyncio.BufferedProtocol):
    """One connection, one request at a time."""

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers
        self._transport: asyncio.Transport | None = None
        self._reader: AnswerReader | None = None
        self._done: asyncio.Future[AnswerReader] | None = None
        self.usable = True

    async def request(self, request: bytes) -> AnswerReader:
        """The complete answer; the caller releases it. Raises EngineError."""
        assert self._transport is not None
        self._done = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        try:
            return await self._done
        finally:
            self._done = None

    def close(self) -> None:
        self.usable = False
        if self._transport is not None:
            self._transport.close()

    def _fail(self, sentence: str) -> None:
        self.close()
        if self._done is not None and not self._done.done():
            self._done.set_exception(EngineError(sentence))

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._reader is None:  # taken only now: a connection that waits for the engine holds no memory
            self._reader = AnswerReader(self._buffers)
        return self._reader.room()

    def buffer_updated(self, nbytes: int) -> None:
        assert self._reader is not None
        if self._done is None or self._done.done():
            self._drop_reader()
            self._fail("The engine sent bytes that nobody had asked for.")
            return
        try:
            self._reader.received(nbytes)
        except BadAnswerError as error:
            self._drop_reader()
            self._fail(f"The engine's answer can't be read. {error}")
            return
        if self._reader.complete:
            self._hand_over()

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
                self._fail("The engine's answer broke off in the middle.")
                return
        self._fail("The engine closed the connection without an answer.")

    def _hand_over(self) -> None:
        reader, self._reader = self._reader, None
        assert reader is not None
        if self._done is not None and not self._done.done():
            self._done.set_result(reader)
        else:  # nobody waits any more
            reader.release()

    def _drop_reader(self) -> None:
        if self._reader is not None:
            self._reader.release()
            self._reader = None


def _beginning(body: Body) -> str:
    return bytes(body.whole()[:200]).decode("utf-8", "replace").strip() or "an empty body."
