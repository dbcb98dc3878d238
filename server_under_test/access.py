"""Who may ask, how much they may send, and how long that may take."""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections import Counter

import zstandard
from aiohttp import HttpVersion11, web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.typedefs import Handler, Middleware

from server_under_test.answers import RefusedError
from server_under_test.messages import MalformedError

MAX_BODY_BYTES = 64 * 1024 * 1024  # as it is sent, and also once it is decompressed
BODY_TIMEOUT_S = 60.0
# Headers have the keep-alive time, within which aiohttp wants the next whole request.
MAX_HEADERS = 100
MAX_HEADER_BYTES = 8190


async def read_body(request: web.Request) -> bytes:
    """The request's body, decompressed. Raises RefusedError when it is too large, too slow, or in another coding."""
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            body = await _received(request)
    except TimeoutError as error:
        raise RefusedError(408, f"The body did not come within {BODY_TIMEOUT_S:.0f} s.") from error
    coding = request.headers.get("Content-Encoding", "identity").lower()
    if coding == "identity":
        return body
    if coding != "zstd":
        raise RefusedError(415, f"A body may be sent as it is or as zstd, found Content-Encoding '{coding}'.")
    return _decompressed(body)


async def _received(request: web.Request) -> bytes:
    """Like request.read(), which would keep the body until the next request comes on this connection."""
    pieces, size = [], 0
    while piece := await request.content.readany():
        pieces.append(piece)
        size += len(piece)
        if size > MAX_BODY_BYTES:
            raise _too_large()
    return b"".join(pieces)


def _too_large() -> RefusedError:
    return RefusedError(413, f"The body has more than {MAX_BODY_BYTES} bytes, which is the limit.")


def _decompressed(body: bytes) -> bytes:
    decompressor = zstandard.ZstdDecompressor().decompressobj(read_across_frames=True)
    pieces, size = [], 0
    try:
        # Bounded input makes bounded output: a block of zstd holds 128 KiB at most, and takes 4 bytes at least.
        for start in range(0, len(body), _STEP_BYTES):
            piece = decompressor.decompress(body[start : start + _STEP_BYTES])
            pieces.append(piece)
            size += len(piece)
            if size > MAX_BODY_BYTES:
                raise _too_large()
    except zstandard.ZstdError as error:
        raise RefusedError(422, f"The body is not zstd, as its Content-Encoding says: {error}.") from error
    return b"".join(pieces)


_STEP_BYTES = 1024


def refuse_other_keys(api_key: str) -> Middleware:
    """A middleware that answers 401 to whoever has not this key; it takes as long whatever is wrong with theirs."""
    expected = api_key.encode()

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        found = request.headers.get("X-API-Key", "").encode("utf-8", "surrogateescape")
        if not hmac.compare_digest(found, expected):
            return RefusedError(401, "The X-API-Key header is missing or not the key of this server.").answer()
        return await handler(request)

    return check


@web.middleware
async def say_what_is_refused(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turns what handlers and the router raise into answers."""
    try:
        return await handler(request)
    except RefusedError as error:
        return error.answer()
    except MalformedError as error:
        return RefusedError(422, str(error)).answer()
    except web.HTTPMethodNotAllowed as error:
        allowed = ", ".join(sorted(error.allowed_methods))
        answer = RefusedError(405, f"{request.path} takes {allowed}, found {request.method}.").answer()
        answer.headers["Allow"] = allowed
        error.__traceback__ = None  # its frames hold the error, and the request
        return answer
    except web.HTTPNotFound as error:
        error.__traceback__ = None
        return RefusedError(404, f"There is no endpoint {request.path}.").answer()


async def meet_expectations(request: web.Request) -> web.StreamResponse | None:
    """Tells a client that waits with its body to send it; whoever expects anything else is refused."""
    expected = request.headers["Expect"]
    if request.version < HttpVersion11:
        return None
    if expected.lower() != "100-continue":
        return RefusedError(417, f"Expect should be 100-continue, found '{expected}'.").answer()
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0  # the answer has not begun
    return None


def keep_requests_out_of_the_log() -> None:
    """aiohttp logs what it can't parse, and with it whatever a client has sent."""
    logging.getLogger("aiohttp.server").addFilter(
        lambda record: not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))
    )


class Connections:
    """Counts connections by address, and makes the protocols that serve them. limit: for one address, None for none."""

    def __init__(self, server: web.Server, limit: int | None, keep_alive_s: float) -> None:
        self._server = server
        self._limit = limit
        self._keep_alive_s = keep_alive_s
        self._count: Counter[str] = Counter()
        self.refused = 0

    def __call__(self) -> web.RequestHandler:
        return _Connection(self, self._server, self._keep_alive_s)

    def came(self, address: str) -> bool:
        """Whether one more connection from this address may stay."""
        self._count[address] += 1
        if self._limit is None or self._count[address] <= self._limit:
            return True
        self.refused += 1
        return False

    def went(self, address: str) -> None:
        self._count[address] -= 1
        if not self._count[address]:
            del self._count[address]


class _Connection(web.RequestHandler):
    __slots__ = ("_address", "_connections")

    def __init__(self, connections: Connections, server: web.Server, keep_alive_s: float) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            keepalive_timeout=keep_alive_s,
            access_log=None,  # type: ignore[arg-type]  # none at all
            max_headers=MAX_HEADERS,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            auto_decompress=False,  # which knows no limit
        )
        self._connections = connections
        self._address = ""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Logs as aiohttp does, and answers as we do: to what is no HTTP, and to what we failed to handle."""
        if isinstance(exc, ConnectionError):  # the client has gone: nothing to log, and nobody to answer
            raise exc
        super().handle_error(request, status, exc, message)
        if exc is not None:
            exc.__traceback__ = None  # the parser's frames hold the error, and the connection
        reason = " ".join((message or "the server failed").split())
        answer = RefusedError(status, f"The request could not be handled: {reason}.").answer()
        answer.force_close()
        return answer

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._address = (transport.get_extra_info("peername") or [""])[0]
        if not self._connections.came(self._address):
            transport.close()

    def connection_lost(self, error: BaseException | None) -> None:
        self._connections.went(self._address)
        super().connection_lost(error)
