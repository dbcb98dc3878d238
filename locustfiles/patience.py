"""What a client bears with for a while, whichever of its requests meet it. Pure: the caller says what time it is."""

from __future__ import annotations

# A 402 that comes so long after the last one noted begins a new pause; they are noted once a minute (tinker,
# lib/internal_client_holder.py).
NEW_AFTER_S = 300.0
NOTED_EVERY_S = 60.0


class BillingPause:
    """Whether a 402 is followed by a pause. It is, until the first of them is window_s ago."""

    def __init__(self) -> None:
        self._first_s: float | None = None
        self._noted_s: float | None = None

    def pauses(self, now_s: float, window_s: float) -> bool:
        """Another 402 has come at now_s, of a monotonic clock."""
        if self._noted_s is not None and now_s - self._noted_s > NEW_AFTER_S:
            self._first_s = self._noted_s = None
        if self._first_s is not None and now_s - self._first_s > window_s:
            return False
        if self._noted_s is None or now_s - self._noted_s > NOTED_EVERY_S:
            self._noted_s = now_s
        if self._first_s is None:
            self._first_s = now_s
        return True


class Rejections:
    """How many more answers 400 without a body count as failed connections."""

    def __init__(self, allowed: int) -> None:
        self._allowed = self._left = allowed

    def answered(self) -> None:
        """A request was answered 2xx."""
        self._left = min(self._left + 1, self._allowed)

    def forgives(self) -> bool:
        """Another one has come: whether it counts as a failed connection."""
        if self._left == 0:
            return False
        self._left -= 1
        return True
