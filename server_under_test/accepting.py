"""Takes in every connection that waits, in each turn of the event loop.

libuv, under uvloop, accepts one connection a turn (since 1.47). While thousands of requests are answered a turn takes a
tenth of a second, so that of a few hundred connections made at once the last is served after half a minute.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Self

# Enough for any burst within a few turns, and few enough for those who are connected already.
ACCEPTED_IN_A_TURN = 256
PAUSE_S = 1.0  # when there are no more files, as in asyncio

log = logging.getLogger(__name__)


class Listener:
    """Listens on one or more sockets until it is closed; each connection gets a protocol of its own."""

    def __init__(self, sockets: list[socket.socket], make_protocol: Callable[[], asyncio.Protocol]) -> None:
        self._sockets = sockets
        self._make_protocol = make_protocol
        self._loop = asyncio.get_running_loop()
        self._connecting: set[asyncio.Task[object]] = set()
        for listening in sockets:
            self._watch(listening)

    @classmethod
    async def open(cls, make_protocol: Callable[[], asyncio.Protocol], host: str, port: int, backlog: int) -> Self:
        """Listen on every address of ``host``. Raises OSError."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        sockets: list[socket.socket] = []
        try:
            for family, _, _, _, address in dict.fromkeys(found):
                listening = socket.create_server((str(address[0]), port), family=family, backlog=backlog)
                listening.setblocking(False)
                sockets.append(listening)
        except OSError:
            for listening in sockets:
                listening.close()
            raise
        return cls(sockets, make_protocol)

    def close(self) -> None:
        """Listen no more. What has been accepted stays."""
        sockets, self._sockets = self._sockets, []
        for listening in sockets:
            self._loop.remove_reader(listening)
            listening.close()

    def _watch(self, listening: socket.socket) -> None:
        if listening in self._sockets:  # else it was closed during a pause
            self._loop.add_reader(listening, self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_IN_A_TURN):
            try:
                accepted, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                log.error("No connection can be accepted for %g s: %s.", PAUSE_S, error.strerror)
                self._loop.remove_reader(listening)
                self._loop.call_later(PAUSE_S, self._watch, listening)
                return
            accepted.setblocking(False)
            task = self._loop.create_task(self._connect(accepted))
            self._connecting.add(task)
            task.add_done_callback(self._connecting.discard)

    async def _connect(self, accepted: socket.socket) -> None:
        try:
            await self._loop.connect_accepted_socket(self._make_protocol, accepted)
        except OSError:  # the client has gone again
            accepted.close()
