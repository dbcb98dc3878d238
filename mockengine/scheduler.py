"""A request's time in the engine: a place in the queue, a slot for a service time, and the gate before it may leave."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable

from mockengine.admission import Admission
from mockengine.delays import TickedDelays
from mockengine.gate import Gate
from mockengine.metrics import Metrics
from mockengine.service_time import Barrier, ServiceTime, ServiceTimeError

Work = Callable[[float], Awaitable[None]]


class Scheduler:
    """Serves as many requests at once as ``admission`` has slots. seed: of the service times.

    Raises ServiceTimeError for a barrier of more requests than there are slots.
    """

    def __init__(self, admission: Admission, service_time: ServiceTime, seed: int, metrics: Metrics) -> None:
        self._admission = admission
        self._metrics = metrics
        self._random = random.Random(seed)
        self._delays = TickedDelays()
        self._gate = Gate()
        self._gate_timer: asyncio.TimerHandle | None = None
        self.set_service_time(service_time)

    @property
    def held(self) -> bool:
        return self._gate.held

    @property
    def waiting_at_the_gate(self) -> int:
        return self._gate.waiting

    def set_service_time(self, service_time: ServiceTime) -> None:
        """From now on, requests that get a slot draw from this model. Raises ServiceTimeError."""
        size, self._gate_timeout_s = 1, math.inf
        if isinstance(service_time, Barrier):
            size, self._gate_timeout_s = service_time.size, service_time.timeout_s
        if size > self._admission.slots:
            raise ServiceTimeError(
                f"A barrier of {size} requests never fills, for only {self._admission.slots} can be in slots at once."
            )
        self._service_time = service_time
        self._gate.resize(size)

    def hold(self) -> None:
        """Keep requests whose service time is over in their slots."""
        self._gate.hold()

    def release(self) -> None:
        """Let all go that wait, in one burst, and hold no more."""
        self._stop_gate_timer()
        self._gate.release()

    async def serve(self, max_tokens: int, work: Work | None = None) -> None:
        """Wait for a slot, and occupy it for a service time. The slot is free again however this ends.

        work: takes that time, in seconds, and as much longer as it must; without it, the time just passes.
        """
        admitted: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        arrived_s = time.monotonic()

        def admit() -> None:
            if not admitted.done():  # the client may have gone at the very moment at which its turn comes
                admitted.set_result(self._draw(max_tokens))

        place = self._admission.enter(admit, arrived_s)
        try:
            service_time_s = await admitted
            admitted_s = time.monotonic()
            self._metrics.queue_time_s.observe(admitted_s - arrived_s)
            if work is not None:
                await work(service_time_s)
            elif service_time_s > 0:
                if (ticks_s := self._delays.ticks(service_time_s)) > 0:  # even a sleep of 0 s is a turn of the loop
                    await asyncio.sleep(ticks_s)
                self._delays.slept(service_time_s, time.monotonic() - admitted_s)
            await self._pass_the_gate()
            self._metrics.inference_time_s.observe(time.monotonic() - admitted_s)
        finally:
            self._admission.leave(place, time.monotonic())

    def _draw(self, max_tokens: int) -> float:
        service_time_s = self._service_time.draw(self._random, max_tokens, self._admission.running)
        self._metrics.service_time_drawn_s.observe(service_time_s)
        return service_time_s

    async def _pass_the_gate(self) -> None:
        released: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def release() -> None:
            if not released.done():
                released.set_result(None)

        if self._gate.arrive(release):
            self._stop_gate_timer()
            return
        if self._gate.waiting == 1 and self._gate_timeout_s < math.inf:
            self._stop_gate_timer()
            self._gate_timer = asyncio.get_running_loop().call_later(self._gate_timeout_s, self._gate.time_out)
        try:
            await released
        finally:
            self._gate.leave(release)

    def _stop_gate_timer(self) -> None:
        if self._gate_timer is not None:
            self._gate_timer.cancel()
            self._gate_timer = None
