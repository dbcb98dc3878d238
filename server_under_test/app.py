"""The server: its endpoints, what is behind them, and how it stops."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from aiohttp import web

from server_under_test.access import meet_expectations, refuse_other_keys, say_what_is_refused
from server_under_test.answers import json_answer
from server_under_test.collecting import Collector, Scope
from server_under_test.completions import Completions
from server_under_test.engine_client import EngineClient
from server_under_test.forwarder import Forwarder
from server_under_test.futures import Failure
from server_under_test.futures_api import FutureOptions, FuturesApi
from server_under_test.memory import Trimmer
from server_under_test.metrics import Metrics
from server_under_test.result_path import ResultPath
from server_under_test.sessions import Sessions
from server_under_test.sessions_api import SessionsApi
from server_under_test.store import FutureStore, KeepFor

PREFIX = "/api/v1/"
METRICS = "/metrics"
_DRAIN_INTERVAL_S = 0.05
LAST_WORDS_S = 1.0  # past the deadline, for answers that say so


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """engine_connections: requests at the engine at once. session_polling: what clients are told to do.

    metrics_apart: /metrics has an application of its own.
    """

    engine_connections: int
    futures: FutureOptions
    keep_for: KeepFor
    sweep_interval_s: float
    session_polling: bool
    metrics_apart: bool
    api_key: str | None


class Server:
    """boot: distinguishes this process's ids from those of any other."""

    def __init__(self, options: ServerOptions, engine: EngineClient, result_path: ResultPath, boot: str) -> None:
        self._options = options
        # Microseconds since 1970: no boot gives out so many cursors that the next one would begin below its last.
        completions = Completions(first_cursor=time.time_ns() // 1000)
        self._store = FutureStore(options.keep_for, boot, completions)
        self._forwarder = Forwarder(self._store, engine, options.engine_connections, result_path)
        self.metrics = Metrics(self._store, self._forwarder)
        self._trimmer = Trimmer(self.metrics.trim_s.observe)
        self._collector = Collector(self._is_idle, self._garbage_collected)
        sessions = Sessions(boot)
        self._sessions_api = SessionsApi(sessions, options.session_polling)
        self._futures_api = FuturesApi(
            options.futures, self._store, completions, sessions, self._forwarder, result_path, self.metrics
        )

    def app(self) -> web.Application:
        keys = [refuse_other_keys(self._options.api_key)] if self._options.api_key else []
        app = web.Application(middlewares=[*keys, say_what_is_refused])
        posts = self._sessions_api.posts() | self._futures_api.posts()
        for path, handler in posts.items():
            app.router.add_post(PREFIX + path, handler, expect_handler=meet_expectations)
        app.router.add_get(PREFIX + "healthz", self._healthz)
        app.router.add_get(PREFIX + "get_server_capabilities", self._capabilities)
        if not self._options.metrics_apart:
            app.router.add_get(METRICS, self._show_metrics)
        return app

    def metrics_app(self) -> web.Application:
        """Only the metrics, and without a key, which scrapers seldom have."""
        app = web.Application(middlewares=[say_what_is_refused])
        app.router.add_get(METRICS, self._show_metrics)
        return app

    async def run_background(self) -> None:
        """Expire what has been kept long enough, collect garbage, and watch the loop's lag, for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.metrics.lag_monitor.run())
            tasks.create_task(self._sweep())
            tasks.create_task(self._collector.run())

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self._options.sweep_interval_s)
            for overdue in self._store.expire(time.monotonic()):
                self._forwarder.abandon(overdue)
            self._trimmer.freed(self._store.freed_bytes)

    def _garbage_collected(self, scope: Scope, seconds: float, objects: int) -> None:
        self.metrics.garbage_collected(scope, seconds, objects)
        if scope == "everything":  # nobody waits
            self._trimmer.trim()

    def _is_idle(self) -> bool:
        return not (self._store.outstanding or self._store.deliveries or self.metrics.waiting_polls)

    async def drain(self, deadline_s: float) -> None:
        """Take nothing new, let what is outstanding end and be fetched by those who wait; fail what has not by then."""
        self._futures_api.closing = True
        until_s = time.monotonic() + deadline_s
        while (self._store.outstanding or self._store.deliveries) and time.monotonic() < until_s:
            await asyncio.sleep(_DRAIN_INTERVAL_S)
        await self._forwarder.stop()
        for future in self._store.pending():
            stopped = Failure("The server was stopped before there was a result.", "server")
            self._store.fail(future, stopped, time.monotonic())
        await asyncio.sleep(_DRAIN_INTERVAL_S)  # those who wait are told
        while self._store.deliveries and time.monotonic() < until_s + LAST_WORDS_S:
            await asyncio.sleep(_DRAIN_INTERVAL_S)

    def summary(self) -> str:
        """What became of all futures, and how often the engine had to be asked again, as sentences."""
        store = self._store
        retries = ", ".join(f"{count} {reason}" for reason, count in self._forwarder.retries.items() if count)
        again = f" Requests sent to the engine again: {retries}." if retries else ""
        return f"{store.ready} futures got ready, {store.failed} failed, {store.outstanding} had not ended.{again}"

    async def _capabilities(self, _: web.Request) -> web.Response:
        return json_answer({"supported_models": []})

    async def _healthz(self, _: web.Request) -> web.Response:
        return json_answer({"status": "ok"})

    async def _show_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self.metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4"})
