"""Requests to the engine, and a clear error for every way in which it can fail to answer."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import aiohttp

# aiohttp stops reading a socket once twice this much is unread, and the engine's largest bodies are some MB: with the
# default of 64 KiB a body of 356 KB is stopped and resumed several times.
READ_BUFFER_BYTES = 8 * 1024 * 1024

COMPLETIONS = "/v1/completions"


class EngineError(Exception):
    """The engine gave no usable answer; the text is a sentence."""


class EngineClient:
    """One engine. ``async with`` it."""

    def __init__(self, url: str, connections: int) -> None:
        self._url = url.rstrip("/") + COMPLETIONS
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self._connections),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=30.0),  # how long a future may take the store knows
            read_bufsize=READ_BUFFER_BYTES,
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept-Encoding"),
            headers={"Content-Type": "application/json"},
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def complete(self, body: bytes) -> bytes:
        """The body of the engine's answer to a completion request. Raises EngineError unless it is 200 with JSON."""
        assert self._session is not None
        try:
            async with self._session.post(self._url, data=body) as response:
                answer = await response.read()
        except aiohttp.ClientPayloadError as error:
            raise EngineError("The engine's answer broke off in the middle of its body.") from error
        except aiohttp.ServerDisconnectedError as error:
            raise EngineError("The engine closed the connection without an answer.") from error
        except (aiohttp.ClientError, OSError) as error:
            raise EngineError(f"The engine can't be reached or broke the connection: {error}.") from error
        if response.status != 200:
            raise EngineError(f"The engine answered {response.status}: {_beginning(answer)}")
        if "json" not in response.content_type:
            raise EngineError(f"The engine answered 200 with {response.content_type}: {_beginning(answer)}")
        return answer


def _beginning(body: bytes) -> str:
    return body[:200].decode("utf-8", "replace").strip() or "an empty body."
