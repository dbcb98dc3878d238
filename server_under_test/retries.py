"""Which requests to the engine are sent again, and after what pause: only those that it did not execute. No I/O.

Sampling changes nothing at the engine, so that sending a request again does no harm but for the work. It is done all
the same only where the request was refused, or where a connection that was used before was closed too soon.
"""

from __future__ import annotations

import random
from enum import StrEnum

# How often a refused request is sent again, and how long at most one pause is, whatever the engine asks for.
MAX_REFUSALS = 5
MAX_PAUSE_S = 30.0
DEFAULT_PAUSE_S = 1.0
_CONNECT_PAUSES_S = (0.1, 2.0)  # the first and the longest; each is twice the one before


class Reason(StrEnum):
    """Why a request was not executed."""

    CONNECT = "connect"  # there was no connection
    REFUSED = "refused"  # 429 or 503
    KEEP_ALIVE = "keep_alive"  # a connection was closed just as it was used again (RFC 9112, 9.3.1)


class Retries:
    """The attempts of one request. connect_deadline_s: how long to try to get a connection, from the first failure."""

    def __init__(self, connect_deadline_s: float) -> None:
        self._connect_deadline_s = connect_deadline_s
        self._first_failure_s: float | None = None
        self._counts = dict.fromkeys(Reason, 0)

    def pause_s(self, reason: Reason, retry_after_s: float | None, now: float) -> float | None:
        """How long to wait before the next attempt, None for none. retry_after_s: what the engine asked for."""
        self._counts[reason] += 1
        count = self._counts[reason]
        match reason:
            case Reason.KEEP_ALIVE:
                return 0.0 if count == 1 else None
            case Reason.REFUSED:
                pause_s = DEFAULT_PAUSE_S if retry_after_s is None else retry_after_s
                return min(pause_s, MAX_PAUSE_S) if count <= MAX_REFUSALS else None
            case Reason.CONNECT:
                if self._first_failure_s is None:
                    self._first_failure_s = now
                first_s, longest_s = _CONNECT_PAUSES_S
                pause_s = min(first_s * 2 ** min(count - 1, 10), longest_s) * random.uniform(0.5, 1.0)
                return pause_s if now + pause_s <= self._first_failure_s + self._connect_deadline_s else None
