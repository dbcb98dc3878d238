"""The process around an engine: its port, the signals that end it, and the faults that hit all of it."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
import time
from typing import Any

import msgspec
from aiohttp import web

from mockengine.app import Engine
from mockengine.metrics import summary
from mockengine.samples import parse_samples
from mockengine.sharing import Worker
from mockengine.siblings import Siblings

# The kernel cuts this to net.core.somaxconn.
LISTEN_BACKLOG = 16_384
_RESUME = "MOCKENGINE_RESUME"
# Reference counts free what requests leave; full passes over thousands of live requests would only delay answers.
_GC_THRESHOLDS = (5_000, 10, 1_000)


def tune_collector() -> None:
    """Set the garbage collector for a process that is about to serve."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


class Process:
    """Serves an engine on host and port (0: any that is free) until SIGTERM or SIGINT.

    worker: which of several this is, if there are several. Raises OSError when the port can't be had.
    """

    def __init__(self, host: str, port: int, worker: Worker | None) -> None:
        resumed = os.environ.pop(_RESUME, None)
        self._resumed: dict[str, Any] | None = None if resumed is None else msgspec.json.decode(resumed)
        self._host = host
        self._port = self._resumed["port"] if self._resumed else worker.port if worker else port
        self._worker = worker
        self._server: asyncio.Server | None = None
        self._reopening: asyncio.TimerHandle | None = None

    async def run(self, engine: Engine) -> None:
        self._engine = engine
        self._stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        for signum in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(signum, self._stop.set)
        app = engine.app()
        if self._worker is not None:
            # The parent holds the other end of the pipe: whatever ends it, ends this.
            loop.add_reader(sys.stdin.fileno(), self._stop.set)
            Siblings(self._worker).join(app)
        # handler_cancellation: a client that goes away ends its request, which frees the slot.
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True)
        await self._runner.setup()
        if self._resumed is not None:
            await self._wait_to_be_up(self._resumed)
        if not self._stop.is_set():
            await self._open()
            if self._worker is not None:
                assert self._runner.server is not None
                # Kept, for uvloop closes the socket of a server that is garbage.
                self._own_server = await loop.create_unix_server(self._runner.server, self._worker.socket)
            print(f"mockengine ready on http://{self._host}:{self._port}", flush=True)
            await self._stop.wait()
        if self._worker is None:
            print(f"mockengine: {self._summary()}", file=sys.stderr)
        # No runner.cleanup(): it waits for requests under way, and those that end just when its patience does are
        # logged as errors. What is under way is broken off, by the cancelling of all tasks with which the loop ends.

    async def _open(self) -> None:
        assert self._runner.server is not None
        reuse_port = self._worker is not None
        self._server = await asyncio.get_running_loop().create_server(
            self._runner.server, self._host, self._port, backlog=LISTEN_BACKLOG, reuse_port=reuse_port
        )
        self._port = self._server.sockets[0].getsockname()[1]

    def close_port(self, seconds: float) -> None:
        """Refuse connections for a time; those that exist stay. During that time it may be prolonged."""
        loop = asyncio.get_running_loop()
        if self._server is not None:
            self._server.close()
            self._server = None
        if self._reopening is not None:
            self._reopening.cancel()
        self._reopening = loop.call_later(seconds, lambda: loop.create_task(self._reopen()))

    async def _reopen(self) -> None:
        try:
            await self._open()
        except OSError as error:
            print(f"mockengine: error: The port can't be opened again: {error.strerror}.", file=sys.stderr)
            self._stop.set()

    def restart(self, seconds: float) -> None:
        """Become a new process, which opens the port after ``seconds``, or once it is ready if that takes longer.

        The kernel closes all connections. Counts of faults and of finished requests go on, to be compared with
        those of others.
        """
        now = time.monotonic()
        print(f"mockengine: {self._summary()} Restarting.", file=sys.stderr, flush=True)
        state = {
            "port": self._port,
            "up_at_s": now + seconds,
            "plan": self._engine.plan.saved(now),
            "finished": self._engine.metrics.finished_so_far(),
        }
        os.environ[_RESUME] = msgspec.json.encode(state).decode()
        if self._server is not None:
            self._server.close()  # first, or clients whose connections break would still get new ones that break too
        os.execv(sys.executable, sys.orig_argv)

    async def _wait_to_be_up(self, resumed: dict[str, Any]) -> None:
        self._engine.plan.resume(resumed["plan"], time.monotonic())
        self._engine.metrics.resume(resumed["finished"])
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), max(0.0, resumed["up_at_s"] - time.monotonic()))

    def _summary(self) -> str:
        return summary(parse_samples(self._engine.metrics.text().decode()))
