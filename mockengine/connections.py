"""What an earlier answer has in store for a keep-alive connection: to be closed when idle, or at its next request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from weakref import WeakKeyDictionary


class Connections:
    """Connections that a fault has marked, for as long as they exist."""

    def __init__(self) -> None:
        self._timers: WeakKeyDictionary[asyncio.BaseTransport, asyncio.TimerHandle] = WeakKeyDictionary()
        self._closing_on_reuse: WeakKeyDictionary[asyncio.BaseTransport, Callable[[], None]] = WeakKeyDictionary()

    def close_when_idle(self, connection: asyncio.Transport, seconds: float, closes: Callable[[], None]) -> None:
        """Close it unless a request comes within ``seconds``; ``closes`` is called at that moment."""

        def close() -> None:
            if not connection.is_closing():
                closes()
                connection.close()

        self._timers[connection] = asyncio.get_running_loop().call_later(seconds, close)

    def close_on_reuse(self, connection: asyncio.Transport, closes: Callable[[], None]) -> None:
        """Close it in place of an answer to the next request that comes."""
        self._closing_on_reuse[connection] = closes

    def request_has_come(self, connection: asyncio.Transport) -> bool:
        """Whether the request gets an answer; if not, the caller closes the connection."""
        if (timer := self._timers.pop(connection, None)) is not None:
            timer.cancel()
        if (closes := self._closing_on_reuse.pop(connection, None)) is not None:
            closes()
            return False
        return True
