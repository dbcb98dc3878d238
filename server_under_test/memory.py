"""Giving freed memory back to the system, which glibc does not do by itself for blocks among others in use."""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable

TRIM_AFTER_BYTES = 64 * 1024 * 1024


class Trimmer:
    """Trims the heap each time that so many bytes of results have been freed, and when it is told to.

    observe: told how long it took, in s.
    """

    def __init__(self, observe: Callable[[float], None]) -> None:
        self._observe = observe
        self._trimmed_at_bytes = 0
        try:
            self._malloc_trim: Callable[[int], int] | None = ctypes.CDLL(None).malloc_trim
        except AttributeError:  # another C library, which may give memory back by itself
            self._malloc_trim = None

    def freed(self, freed_bytes: int) -> None:
        """freed_bytes: of all that was freed so far."""
        if freed_bytes - self._trimmed_at_bytes >= TRIM_AFTER_BYTES:
            self._trimmed_at_bytes = freed_bytes
            self.trim()

    def trim(self) -> None:
        if self._malloc_trim is None:
            return
        began_s = time.monotonic()
        self._malloc_trim(0)
        self._observe(time.monotonic() - began_s)
