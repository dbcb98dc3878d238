"""Changing the engine while it runs: its faults, its pace, and requests held and released."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import orjson
from aiohttp import web

from mockengine.faults import KINDS, FaultError, Plan, describe, parse_rules
from mockengine.scheduler import Scheduler
from mockengine.service_time import ServiceTimeError, parse_service_time
from mockengine.sharing import check_faults, check_service_time

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Admin:
    """Endpoints under /admin. Each answers with the state that is then in force, and 400 with a sentence."""

    def __init__(self, plan: Plan, scheduler: Scheduler, service_time: str, workers: int) -> None:
        self._plan = plan
        self._scheduler = scheduler
        self._service_time = service_time
        self._workers = workers

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/admin/faults", self._show_faults),
            web.post("/admin/faults", self._set_faults),
            web.delete("/admin/faults", self._clear_faults),
            web.get("/admin/pace", self._show_pace),
            web.post("/admin/pace", self._set_pace),
            web.post("/admin/hold", self._hold),
            web.post("/admin/release", self._release),
        ]

    async def _show_faults(self, _: web.Request) -> web.Response:
        rules = [describe(rule) for rule in self._plan.rules]
        kinds = {name: kind.effect for name, kind in KINDS.items()}
        return _json({"faults": rules, "injected": self._plan.injected, "kinds": kinds})

    async def _set_faults(self, request: web.Request) -> web.Response:
        document = await _document(request)
        try:
            rules = parse_rules(document.get("faults"), "The request's 'faults'")
            check_faults(rules, self._workers)
        except FaultError as error:
            return _bad(str(error))
        self._plan.set(rules, time.monotonic())
        return await self._show_faults(request)

    async def _clear_faults(self, request: web.Request) -> web.Response:
        self._plan.set([], time.monotonic())
        return await self._show_faults(request)

    async def _show_pace(self, _: web.Request) -> web.Response:
        scheduler = self._scheduler
        return _json(
            {
                "service_time": self._service_time,
                "held": scheduler.held,
                "waiting_at_the_gate": scheduler.waiting_at_the_gate,
            }
        )

    async def _set_pace(self, request: web.Request) -> web.Response:
        spec = (await _document(request)).get("service_time")
        if not isinstance(spec, str):
            return _bad('The request should be JSON like {"service_time": "fixed:1s"}.')
        try:
            service_time = parse_service_time(spec)
            check_service_time(service_time, self._workers)
            self._scheduler.set_service_time(service_time)
        except ServiceTimeError as error:
            return _bad(str(error))
        self._service_time = spec
        return await self._show_pace(request)

    async def _hold(self, request: web.Request) -> web.Response:
        self._scheduler.hold()
        return await self._show_pace(request)

    async def _release(self, request: web.Request) -> web.Response:
        self._scheduler.release()
        return await self._show_pace(request)


async def _document(request: web.Request) -> dict[str, Any]:
    """The request's JSON object; an empty one for anything else, which no endpoint takes."""
    try:
        return msgspec.json.decode(await request.read(), type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError):
        return {}


def _json(document: dict[str, object], status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(document), status=status, content_type="application/json")


def _bad(sentence: str) -> web.Response:
    return _json({"error": sentence}, status=400)
