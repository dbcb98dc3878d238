"""A client that asks for a server's health, again and again, while others load it."""

from __future__ import annotations

import http.client
import threading
import time

PACE_S = 0.02


class Canary:
    """Asks again and again, each time over a new connection."""

    def __init__(self, port: int) -> None:
        self.times_s: list[float] = []
        self.failures = 0
        self._port = port
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(PACE_S):
            began_s = time.monotonic()
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
            try:
                connection.request("GET", "/api/v1/healthz")
                connection.getresponse().read()
            except OSError:
                self.failures += 1
            connection.close()
            self.times_s.append(time.monotonic() - began_s)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
