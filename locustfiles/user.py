"""The Locust user: one client, which keeps futures outstanding and follows each in a greenlet of its own."""

from __future__ import annotations

import time
from typing import Any

from gevent.pool import Pool
from locust import User, constant, task
from locust.exception import StopUser

from locustfiles.client import Client
from locustfiles.ledger import End
from locustfiles.protocol_client import ProtocolClient
from locustfiles.real_sdk.client import RealSdkClient
from locustfiles.sdk_client import SdkClient
from locustfiles.worker import Start, WorkerRun, current_run


class FuturesUser(User):
    """Its futures come from the worker's share; it stops when there are no more."""

    wait_time = constant(0)

    def __init__(self, environment: Any) -> None:
        super().__init__(environment)
        self._run: WorkerRun = current_run()
        self._futures = Pool(self._run.settings.in_flight)
        self._client: Client = (
            SdkClient(environment, self._run)
            if self._run.protocol is None
            else ProtocolClient(environment, self._run, self._run.protocol)
        )

        self._real_sdk = RealSdkClient(environment, self._run, self._run.real_sdk) if self._run.real_sdk else None

    @task
    def follow_futures(self) -> None:
        opened = not self._run.finished and self._client.open()  # a run may end before its users begin
        if not opened or not (self._real_sdk is None or self._real_sdk.open()):
            raise StopUser
        while True:
            self._futures.wait_available()
            start = self._run.next_future()
            if start is None:
                break
            self._run.greenlets.add(self._futures.spawn(self._follow, start))
        self._futures.join()
        raise StopUser

    def _follow(self, start: Start) -> None:
        """One future, from its intended start to its end."""
        number = start.number
        end = End.ABANDONED  # unless it gets to another: this greenlet is killed when the run is over
        started_s = time.monotonic()
        if start.due_s is not None:
            self._run.measures.latency("lateness", started_s - start.due_s)
            started_s = start.due_s
        client = self._real_sdk if self._real_sdk is not None and self._run.is_real_sdks(number) else self._client
        try:
            end = client.sample(number, started_s)
            if end is End.DELIVERED:
                elapsed_s = time.monotonic() - started_s
                self._run.measures.latency(client.latency, elapsed_s)
                # Not an event: a row of whole futures must not enter Locust's sum over all requests.
                self.environment.stats.get(client.latency, "FUTURE").log(int(elapsed_s * 1000), 0)
        finally:
            self._run.end(number, end)
