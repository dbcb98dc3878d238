"""What a client's submits pass before they are sent: so many at once, so many bytes, and pauses after a 429."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import gevent
from gevent.lock import BoundedSemaphore

from locustfiles.byte_budget import ByteBudget
from locustfiles.preset import Preset


class SubmitGate:
    """As the SDK's (``lib/internal_client_holder.py``): whoever comes while a 429 is remembered is throttled."""

    def __init__(self, preset: Preset) -> None:
        self._preset = preset
        self._places = BoundedSemaphore(preset.submits_at_once)
        self._throttled_places = BoundedSemaphore(preset.throttled_submits_at_once)
        self._bytes = ByteBudget(preset.submit_bytes)
        self._paused_until_s: float | None = None

    @contextmanager
    def place(self, request_bytes: int) -> Iterator[None]:
        """Have a place for the length of the block, retries and pauses included; waits for its turn."""
        with self._places, ExitStack() as held:
            if self._throttled:
                held.enter_context(self._throttled_places)
            if self._throttled:
                request_bytes *= self._preset.throttled_bytes_factor
            held.enter_context(self._bytes.of(request_bytes))
            yield

    def pause(self, delay_s: float) -> None:
        """The server asked for less."""
        self._paused_until_s = time.monotonic() + delay_s

    def wait_out_pauses(self) -> None:
        """Return when no pause is on; looks once a submit_pause_s, as the SDK does, and not at the pause's end."""
        while self._paused_until_s is not None and time.monotonic() < self._paused_until_s:
            gevent.sleep(self._preset.submit_pause_s)

    @property
    def _throttled(self) -> bool:
        return self._paused_until_s is not None and time.monotonic() - self._paused_until_s < self._preset.throttled_s
