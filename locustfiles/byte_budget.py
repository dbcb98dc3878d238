"""A budget of bytes that a client's greenlets share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gevent.event import Event


class ByteBudget:
    """Whoever comes while anything is left may take what it needs, even more than is left; the next one waits.

    So a need above the whole budget is served too, as in the SDK (``lib/internal_client_holder.py``, BytesSemaphore).
    """

    def __init__(self, size_bytes: int) -> None:
        self._left = size_bytes
        self._open = Event()
        self._open.set()

    @contextmanager
    def of(self, size_bytes: int) -> Iterator[None]:
        """Have size_bytes of the budget for the length of the block; waits for its turn."""
        while self._left < 0:
            self._open.wait()
        self._take(size_bytes)
        try:
            yield
        finally:
            self._take(-size_bytes)

    def _take(self, size_bytes: int) -> None:
        self._left -= size_bytes
        if self._left < 0:
            self._open.clear()
        else:
            self._open.set()
