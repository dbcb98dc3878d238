"""A small server of completions that speaks three future-polling protocols; it forwards to an engine.

    respond-async  POST /v1/completions with Prefer: respond-async
    operations     POST /v1/completions:submit, POST /v1/operations/ID:wait
    tasks          POST /tasks, GET /tasks/ID

``misbehave(n)`` decides what the n-th future's client is to meet instead of the right answer; see the names used below.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import aiohttp
from aiohttp import web

HOLD_S = 0.02  # how long a wait is held at most


class Future:
    def __init__(self, number: int, work: asyncio.Task[bytes], flaw: str) -> None:
        self.number = number
        self.work = work
        self.flaw = flaw
        self.polls = 0


class FuturesServer:
    """engine_url: a mock engine, or None: every completion is then that of ``canned``."""

    def __init__(self, engine_url: str, misbehave: Callable[[int], str]) -> None:
        self._engine_url = engine_url
        self._misbehave = misbehave
        self._numbers = itertools.count()
        self._futures: dict[str, Future] = {}
        self.submits = 0
        self.fetched = 0

    async def app(self) -> web.Application:
        self._engine = aiohttp.ClientSession(self._engine_url, connector=aiohttp.TCPConnector(limit=0))
        app = web.Application()
        app.add_routes(
            [
                web.post("/v1/completions", self.respond_async),
                web.get("/status/{id}", self.status),
                web.get("/results/{id}", self.result),
                web.post("/v1/completions:submit", self.operation),
                web.post("/v1/operations/{id}:wait", self.wait),
                web.post("/tasks", self.task),
                web.get("/tasks/{id}", self.task_state),
            ]
        )
        app.on_cleanup.append(self._close)
        return app

    async def _close(self, _: web.Application) -> None:
        for future in self._futures.values():
            future.work.cancel()
        await self._engine.close()

    async def _begin(self, request: web.Request) -> tuple[str, Future]:
        body = await request.read()
        number = next(self._numbers)
        flaw = self._misbehave(number)
        self.submits += 1
        future = Future(number, asyncio.ensure_future(self._complete(body)), flaw)
        known = next(iter(self._futures), None)
        if flaw == "same id" and known is not None:
            return known, future
        if flaw == "another's result" and known is not None:
            future.work = self._futures[known].work
        self._futures[str(number)] = future
        return str(number), future

    async def _complete(self, body: bytes) -> bytes:
        async with self._engine.post("/v1/completions", data=body) as response:
            return await response.read()

    async def _held(self, future: Future) -> bool:
        """Whether the work is done, by the end of a short hold."""
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(future.work), HOLD_S)
        future.polls += 1
        return future.work.done()

    # RFC 7240

    async def respond_async(self, request: web.Request) -> web.Response:
        assert "respond-async" in request.headers["Prefer"]
        name, future = await self._begin(request)
        if future.flaw == "at once":
            return web.Response(body=await future.work)
        headers = {} if future.flaw == "no location" else {"Location": f"/status/{name}"}
        return web.Response(status=422 if future.flaw == "refused" else 202, headers=headers)

    async def status(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        future = self._futures[name]
        done = await self._held(future)
        match future.flaw:
            case "error":
                return web.Response(status=500 if future.polls == 1 else 400)
            case "forgotten":
                return web.Response(status=404)
            case "retry-after":
                return web.Response(status=202, headers={"Retry-After": "999999999999"})
            case "303 to nowhere":
                return web.Response(status=303)
            case "303 for ever":
                return web.Response(status=303, headers={"Location": request.path})
        if not done:
            in_a_moment = format_datetime(datetime.now(UTC) + timedelta(seconds=-5), usegmt=True)
            return web.Response(status=202, headers={"Retry-After": "0" if future.number % 2 else in_a_moment})
        if future.number % 2:
            host = f"http://{request.host}" if future.number % 4 == 1 else ""
            return web.Response(status=303, headers={"Location": f"{host}/results/{name}"})
        self.fetched += 1
        return web.Response(body=future.work.result())

    async def result(self, request: web.Request) -> web.Response:
        self.fetched += 1
        return web.Response(body=self._futures[request.match_info["id"]].work.result())

    # Operations

    async def operation(self, request: web.Request) -> web.Response:
        name, future = await self._begin(request)
        if future.flaw == "refused":
            return web.Response(status=400)
        if future.flaw == "no location":
            return web.json_response({"done": False})
        if future.flaw == "at once":
            response = json.loads(await future.work)
            return web.json_response({"name": f"operations/{name}", "done": True, "response": response})
        return web.json_response({"name": f"operations/{name}"})

    async def wait(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        assert (await request.json())["timeout"] == "30s"
        future = self._futures[name]
        operation: dict[str, Any] = {"name": f"operations/{name}", "done": await self._held(future)}
        match future.flaw:
            case "error":
                operation |= {"done": True, "error": {"code": 13, "message": f"engine 7 broke: future {name}"}}
            case "cancelled":
                operation |= {"done": True, "error": {"code": 1, "message": "by its owner"}}
            case "forgotten":
                return web.Response(status=404)
            case "retry-after":
                operation["done"] = False
                return web.json_response(operation, headers={"Retry-After": "-1"})
            case "done without an end":
                operation["done"] = True
            case "another operation":
                operation["name"] = "operations/another"
            case _ if operation["done"]:
                self.fetched += 1
                operation["response"] = json.loads(future.work.result())
        return web.json_response(operation)

    # Tasks: queued, running, succeeded or failed; the result inline

    async def task(self, request: web.Request) -> web.Response:
        name, _ = await self._begin(request)
        return web.json_response({"id": name, "status": "queued"}, status=201)

    async def task_state(self, request: web.Request) -> web.Response:
        name = request.match_info["id"]
        future = self._futures[name]
        if future.flaw == "error":
            return web.json_response({"id": name, "status": "failed", "error": "out of memory"})
        if not await self._held(future):
            return web.json_response({"id": name, "status": "running"})
        self.fetched += 1
        return web.json_response({"id": name, "status": "succeeded", "output": json.loads(future.work.result())})


@contextmanager
def futures_server(
    engine_url: str, misbehave: Callable[[int], str] = lambda _: ""
) -> Iterator[tuple[str, FuturesServer]]:
    """The server's URL and itself, served by a thread for the length of the block."""
    loop = asyncio.new_event_loop()
    server = FuturesServer(engine_url, misbehave)

    async def start() -> tuple[web.AppRunner, str]:
        runner = web.AppRunner(await server.app(), access_log=None, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        return runner, f"http://127.0.0.1:{runner.addresses[0][1]}"

    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    runner, url = asyncio.run_coroutine_threadsafe(start(), loop).result(30)
    try:
        yield url, server
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
