"""Answers that break the rules of HTTP: scripts of what to do to the connection, and the response that plays them."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter

_DRIP_INTERVAL_S = 0.05


@dataclass(frozen=True)
class Write:
    data: bytes


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Reset:
    """End the connection with RST, once the bytes before it have gone."""


@dataclass(frozen=True)
class Close:
    """End the connection with FIN."""


Step = Write | Pause | Reset | Close


def answer_head(length: int) -> bytes:
    """The head of a JSON answer that announces ``length`` bytes."""
    return b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % length


def script(kind: str, parameters: Mapping[str, Any], body: bytes) -> Iterable[Step]:
    """What the fault, one of WIRE_KINDS, does to a connection on which ``body`` was due."""
    return WIRE_KINDS[kind](answer_head(len(body)), body, parameters)


Script = Callable[[bytes, bytes, Mapping[str, Any]], Iterable[Step]]

# Each from the head and the body of the answer that was due.
WIRE_KINDS: dict[str, Script] = {
    "wrong_content_length": lambda _, body, words: [Write(answer_head(len(body) + words["by"]) + body), Close()],
    "reset_before_headers": lambda head, body, words: [Reset()],
    "reset_in_headers": lambda head, body, words: [Write(head[: len(head) // 2]), Reset()],
    "reset_in_body": lambda head, body, words: [Write(head + body[: len(body) // 2]), Reset()],
    "stall_before_first_byte": lambda head, body, words: [Pause(words["seconds"]), Write(head + body)],
    "stall_in_body": lambda head, body, words: [
        Write(head + body[: len(body) // 2]),
        Pause(words["seconds"]),
        Write(body[len(body) // 2 :]),
    ],
    "slow_drip": lambda head, body, words: _drip(head, body, words["bytes_per_s"]),
    "duplicate_response": lambda head, body, words: [Write((head + body) * 2)],
}


def _drip(head: bytes, body: bytes, bytes_per_s: int) -> Iterator[Step]:
    yield Write(head)
    size = max(1, int(bytes_per_s * _DRIP_INTERVAL_S))
    for start in range(0, len(body), size):
        piece = body[start : start + size]
        yield Pause(len(piece) / bytes_per_s)
        yield Write(piece)


class Scripted(web.StreamResponse):
    """Plays a script in place of an answer of aiohttp's own. The connection stays open if the script leaves it so."""

    def __init__(self, steps: Iterable[Step]) -> None:
        super().__init__()
        self._steps = steps
        self._connection: asyncio.Transport | None = None

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        self._connection = request.transport
        self._keep_alive = request.keep_alive
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        for step in self._steps:
            transport = self._connection
            if transport is None or transport.is_closing():
                raise ConnectionResetError("The client has gone.")
            match step:
                case Write():
                    transport.write(step.data)
                    while transport.get_write_buffer_size() and not transport.is_closing():
                        await asyncio.sleep(0.001)
                case Pause():
                    await asyncio.sleep(step.seconds)
                case Reset():
                    # Without lingering, closing a socket sends RST.
                    linger = struct.pack("ii", 1, 0)
                    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    transport.abort()
                case Close():
                    transport.close()
