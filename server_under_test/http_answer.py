"""Reads one HTTP/1.1 answer out of the bytes of a connection, its body into memory that is used again. No I/O.

aiohttp's client collects a body as many small objects and joins them; for bodies of 0.4 to 3 MB that was a third of the
server's CPU (measured), much of it page faults of memory that is used once. Here a body whose length is known is
received in place, in one of a few buffers. httptools (llhttp) parses the head, and the whole of the rarer answers whose
length is not known beforehand.
"""

from __future__ import annotations

from typing import NamedTuple

import httptools

# Enough for the headers, and for all of a short answer. A longer one gets a buffer of its size when it is received.
FIRST_BYTES = 16 * 1024
BUFFER_BYTES = 256 * 1024
SPARE_FIRST_BUFFERS = 64
SPARE_BUFFERS = 16  # twice as many as answers are received at once; more are in use only while some of these stall
MAX_HEAD_BYTES = 64 * 1024
# The longest answers of use here (131,072 tokens, ten choices, all that can be asked for) have a tenth of this.
MAX_BODY_BYTES = 1 << 30
SPARE_BYTES = 256 * 1024 * 1024
_WITHOUT_A_BODY = (204, 304)  # RFC 9112, 6.3


class BadAnswerError(Exception):
    """The bytes are no HTTP answer; the text is a sentence."""


class Body(NamedTuple):
    """A body where it was received: ``buffer[start:stop]``. It is lent, so nothing of it may be kept."""

    buffer: bytearray
    start: int
    stop: int

    def part(self, start: int, stop: int) -> memoryview:
        """``buffer[start:stop]``, not copied."""
        return memoryview(self.buffer)[start:stop]

    def whole(self) -> memoryview:
        return self.part(self.start, self.stop)


class Buffers:
    """Memory to receive into. What was given back last goes out first: it is warm, and large enough for its kind."""

    def __init__(self) -> None:
        self._first: list[bytearray] = []
        self._spare: list[bytearray] = []
        self._spare_bytes = 0

    def take_first(self) -> bytearray:
        """A buffer of FIRST_BYTES."""
        return self._first.pop() if self._first else bytearray(FIRST_BYTES)

    def take(self, at_least: int = BUFFER_BYTES) -> bytearray:
        """A buffer of ``at_least`` bytes; what is in it is of no meaning."""
        while self._spare:
            buffer = self._spare.pop()
            self._spare_bytes -= len(buffer)
            if len(buffer) >= at_least:
                return buffer  # smaller ones are dropped: kept beside larger ones, they would only become more
        return bytearray(max(at_least, BUFFER_BYTES))

    def give_back(self, buffer: bytearray) -> None:
        if len(buffer) == FIRST_BYTES:
            if len(self._first) < SPARE_FIRST_BUFFERS:
                self._first.append(buffer)
            return
        self._spare.append(buffer)
        self._spare_bytes += len(buffer)
        while len(self._spare) > SPARE_BUFFERS or self._spare_bytes > SPARE_BYTES:
            self._spare_bytes -= len(self._spare.pop(0))


class AnswerReader:
    """One answer: ask for ``room``, put bytes there, say how many were ``received``, until it is ``complete``.

    status, content_type, retry_after and keep_alive hold once it is complete; body is lent until ``release``.
    """

    def __init__(self, buffers: Buffers) -> None:
        self.status = 0
        self.content_type = ""
        self.retry_after = ""
        self.keep_alive = False
        self.complete = False
        self._buffers = buffers
        self._buffer = buffers.take_first()
        self._filled = 0
        self._body_start: int | None = None
        self._length: int | None = None
        self._chunked = False
        self._parser = httptools.HttpResponseParser(self)
        self._parsed_body: bytearray | None = None

    @property
    def begun(self) -> bool:
        """Whether anything has come."""
        return self._filled > 0 or self._body_start is not None

    @property
    def body(self) -> Body:
        if self._parsed_body is not None:
            return Body(self._parsed_body, 0, len(self._parsed_body))
        start = self._body_start or 0
        return Body(self._buffer, start, self._filled if self._length is None else start + self._length)

    @property
    def is_long(self) -> bool:
        """Whether its headers have come and the rest of it needs another buffer."""
        return self._length is not None and len(self._buffer) < (self._body_start or 0) + self._length

    def room(self) -> memoryview:
        """Where the next bytes go, never empty while the answer is incomplete."""
        if self.is_long:
            self._move_to(self._buffers.take((self._body_start or 0) + (self._length or 0)))
        elif self._filled == len(self._buffer):  # headers that do not end
            self._move_to(self._buffers.take(2 * MAX_HEAD_BYTES))
        return memoryview(self._buffer)[self._filled :]

    def received(self, count: int) -> None:
        """The first ``count`` bytes of the room have been filled. Raises BadAnswerError."""
        self._filled += count
        if self._body_start is None:
            self._look_for_the_body(max(0, self._filled - count - 3))
        elif self._parsed_body is not None:
            self._parse(0)
            if len(self._parsed_body) > MAX_BODY_BYTES:
                raise BadAnswerError(f"Its body has more than {MAX_BODY_BYTES} bytes.")
        if self._length is not None and self._body_start is not None:
            missing = self._body_start + self._length - self._filled
            self.complete = missing <= 0
            self.keep_alive &= missing >= 0  # more than was announced: nobody knows what that is

    def closed(self) -> None:
        """The connection is closed, which is where a body of neither length nor chunks ends."""
        self.keep_alive = False
        self.complete |= self._parsed_body is not None and not self._chunked

    def release(self) -> None:
        """The answer is not needed any more."""
        self._buffers.give_back(self._buffer)
        self._buffer = bytearray()
        # The parser refers to this reader: without this, only the collector would free the two.
        del self._parser

    def _look_for_the_body(self, start: int) -> None:
        end = self._buffer.find(b"\r\n\r\n", start, self._filled)
        if end < 0:
            if self._filled >= MAX_HEAD_BYTES:
                raise BadAnswerError(f"The headers do not end within {MAX_HEAD_BYTES} bytes.")
            return
        body_start = end + 4
        self._feed(memoryview(self._buffer)[:body_start])
        self.status = self._parser.get_status_code()
        if self.status < 200:
            self._skip_interim(body_start)
            return
        self._body_start = body_start
        if self.status in _WITHOUT_A_BODY:
            self._length = 0
        elif self._chunked or self._length is None:
            self._length, self._parsed_body = None, bytearray()
            self._parse(self._body_start)
        elif self._length > MAX_BODY_BYTES:
            raise BadAnswerError(f"It announces {self._length} bytes, and at most {MAX_BODY_BYTES} are read.")

    def _skip_interim(self, end: int) -> None:
        """An answer such as 100 Continue comes before the one that counts."""
        self._filled -= end
        self._buffer[: self._filled] = self._buffer[end : end + self._filled]
        self._length, self._chunked = None, False
        self._parser = httptools.HttpResponseParser(self)
        if self._filled:
            self._look_for_the_body(0)

    def _move_to(self, larger: bytearray) -> None:
        larger[: self._filled] = memoryview(self._buffer)[: self._filled]
        self._buffers.give_back(self._buffer)
        self._buffer = larger

    def _parse(self, start: int) -> None:
        """Let the parser have what the buffer holds from ``start`` on; the buffer is free again."""
        filled, self._filled = self._filled, 0
        if filled > start:
            self._feed(memoryview(self._buffer)[start:filled])

    def _feed(self, data: memoryview) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as error:
            raise BadAnswerError("It switches to another protocol, which nobody asked for.") from error
        except httptools.HttpParserError as error:
            raise BadAnswerError(f"It is not HTTP: {error}.") from error

    # What the parser calls

    def on_header(self, name: bytes, value: bytes) -> None:
        match name.lower():
            case b"content-length":
                self._length = int(value)  # digits, or the parser would have refused it
            case b"content-type":
                self.content_type = value.decode("latin-1")
            case b"retry-after":
                self.retry_after = value.decode("latin-1")
            case b"transfer-encoding":
                self._chunked = True

    def on_headers_complete(self) -> None:
        self.keep_alive = self._parser.should_keep_alive()

    def on_body(self, data: bytes) -> None:
        assert self._parsed_body is not None
        self._parsed_body += data

    def on_message_complete(self) -> None:
        if self._parsed_body is not None or self._length == 0:
            self.complete = True
