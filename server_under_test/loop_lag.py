"""How late the event loop is: how long a timer that is due has to wait for the loop."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

INTERVAL_S = 0.05
WINDOW_S = 5.0


class LagMonitor:
    """Measures the lag every INTERVAL_S and hands it to ``observe``."""

    def __init__(self, observe: Callable[[float], None]) -> None:
        self._observe = observe
        self._recent: deque[tuple[float, float]] = deque(maxlen=int(WINDOW_S / INTERVAL_S))

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + INTERVAL_S
            await asyncio.sleep(INTERVAL_S)
            lag = max(0.0, loop.time() - due)
            self._observe(lag)
            self._recent.append((time.monotonic(), lag))

    def recent_max(self) -> float:
        """The worst lag of the last WINDOW_S seconds."""
        since = time.monotonic() - WINDOW_S
        return max((lag for at, lag in self._recent if at >= since), default=0.0)
