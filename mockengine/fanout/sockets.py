"""ZeroMQ sockets as the pipeline uses them: whoever receives binds, whoever sends connects, and queues have an end.

The server that this follows has queues without an end: there, a sending never fails and never waits, not even when
nobody has bound the address, and frames for a worker that is dead pile up in the sender's memory. Here that is a fault
to choose (``is_bounded``); otherwise a full queue makes its sender wait, and one that nobody empties is an error.
"""

from __future__ import annotations

from types import TracebackType
from typing import Self

import psutil
import zmq

# The server's own rule: half a GiB for the kernel's buffers when there is memory to spare.
_BUFFER_BYTES = 1 << 29
_MIN_TOTAL_BYTES = 32 << 30
_MIN_FREE_BYTES = 16 << 30
# How long closing waits for frames that a receiver has not taken: one that is dead never will.
_LINGER_MS = 2_000
# At either end of an address.
_MAX_FRAMES = 10_000
_PATIENCE_MS = 5_000


class SendError(Exception):
    """A frame that nobody takes; the text is a sentence."""


class Sockets:
    """The sockets of a process, closed together; a sender's are connected when it first sends to an address."""

    def __init__(self, *, is_bounded: bool = True) -> None:
        self._max_frames = _MAX_FRAMES if is_bounded else 0
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._senders: dict[str, zmq.Socket[bytes]] = {}
        self._receivers: list[zmq.Socket[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._context.destroy(linger=_LINGER_MS)

    def receiver(self, address: str) -> zmq.Socket[bytes]:
        """A socket that receives what others send to this address. Raises zmq.ZMQError when it can't be bound."""
        socket = self._context.socket(zmq.PULL)
        socket.setsockopt(zmq.RCVHWM, self._max_frames)
        if size := _kernel_buffer_bytes():
            socket.setsockopt(zmq.RCVBUF, size)
        socket.bind(address)
        self._receivers.append(socket)
        return socket

    def send(self, address: str, frame: bytes) -> None:
        """Frames to one address arrive in the order in which they are sent. Raises SendError."""
        socket = self._senders.get(address)
        if socket is None:
            socket = self._senders[address] = self._context.socket(zmq.PUSH)
            socket.setsockopt(zmq.SNDHWM, self._max_frames)
            socket.setsockopt(zmq.SNDTIMEO, _PATIENCE_MS)
            if size := _kernel_buffer_bytes():
                socket.setsockopt(zmq.SNDBUF, size)
            socket.connect(address)
        try:
            socket.send(frame)
        except zmq.Again as error:
            raise SendError(
                f"{self._max_frames} frames wait for {address}, and none was taken for {_PATIENCE_MS / 1e3:.0f} s: "
                "the process there has died or stands still; look for what it printed."
            ) from error


def _kernel_buffer_bytes() -> int | None:
    memory = psutil.virtual_memory()
    return _BUFFER_BYTES if memory.total > _MIN_TOTAL_BYTES and memory.free > _MIN_FREE_BYTES else None
