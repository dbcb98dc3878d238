"""From a submitted future to its result: a queue before the engine, the request, the one decoding, the store."""

from __future__ import annotations

import asyncio
import functools
import logging
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Literal, NamedTuple

from server_under_test.decode import BadBodyError, Wanted
from server_under_test.engine_client import EngineClient, EngineError
from server_under_test.futures import Failure, Future
from server_under_test.result_path import ResultPath
from server_under_test.retries import Reason
from server_under_test.store import FutureStore

QueueState = Literal["active", "paused_capacity", "paused_rate_limit"]

log = logging.getLogger(__name__)


class Job(NamedTuple):
    """What the engine has to be asked, as JSON of POST /v1/completions, and what its answer must hold."""

    body: bytes
    wanted: Wanted


class Forwarder:
    """Runs jobs first come first served, ``limit`` at once. A job that waits is an entry in a queue, not a task."""

    def __init__(self, store: FutureStore, engine: EngineClient, limit: int, result_path: ResultPath) -> None:
        self._store = store
        self._engine = engine
        self._limit = limit
        self._result_path = result_path
        self._waiting: OrderedDict[Future, Job] = OrderedDict()
        self._running: dict[Future, asyncio.Task[None]] = {}

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    @property
    def retries(self) -> Mapping[Reason, int]:
        """Requests that were sent to the engine again, by why."""
        return self._engine.retries

    @property
    def running(self) -> int:
        return len(self._running)

    def queue_state(self, future: Future) -> tuple[QueueState, str | None]:
        """Why a pending future has no result yet, in the words of the SDK, and what to tell a person."""
        if self._engine.refusing:
            return "paused_rate_limit", "The engine refuses requests for the moment."
        if future in self._waiting:
            return "paused_capacity", f"{len(self._waiting)} requests wait for one of {self._limit} engine connections."
        return "active", None

    def forward(self, future: Future, job: Job) -> None:
        """See to it that ``future`` ends, ready or failed."""
        self._waiting[future] = job
        self._start_next()

    def abandon(self, future: Future) -> None:
        """The result is not wanted any more; an engine request under way is broken off."""
        if self._waiting.pop(future, None) is None and (task := self._running.get(future)) is not None:
            task.cancel()

    def _start_next(self) -> None:
        while self._waiting and len(self._running) < self._limit:
            future, job = self._waiting.popitem(last=False)
            task = self._running[future] = asyncio.create_task(self._get_result(future, job))
            # A callback rather than a finally: a task that is cancelled before its first step runs none of its code.
            task.add_done_callback(functools.partial(self._done, future))

    def _done(self, future: Future, _: asyncio.Task[None]) -> None:
        del self._running[future]
        self._start_next()

    async def _get_result(self, future: Future, job: Job) -> None:
        try:
            result = await self._engine.complete(job.body, lambda body: self._result_path.keep(body, job.wanted))
        except (EngineError, BadBodyError) as error:
            self._store.fail(future, Failure(str(error), "server"), time.monotonic())
        except Exception:
            # A bug of ours must not leave the future pending, with its clients waiting for an hour.
            log.exception("A result could not be made")
            self._store.fail(future, Failure("The server failed to make the result.", "server"), time.monotonic())
        else:
            self._store.complete(future, result, time.monotonic())

    async def stop(self) -> None:
        """Break off what runs, forget what waits."""
        self._waiting.clear()
        tasks = list(self._running.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
