"""A server that plays one script to one client and writes down what the client does."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from tests.integration.parity.script import JSON, PROTOBUF, Answer, Script, accepted, result
from tests.integration.parity.trace import Request, Trace

# Both players have this one. Who comes without it has mistaken the port.
API_KEY = "tml-parity"
# Further ones of the SDK name itself, its machine and, by chance, each request.
HEADERS = ("accept", "content-type")
API_HEADERS = "x-tinker-"
# A figure of the client's own clock, of which only the presence can agree.
MASKED = ("x-tinker-create-promise-roundtrip-time",)


class ScriptedServer:
    """Listens on a port of its own from ``start`` to ``stop``."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._requests: list[Request] = []
        self._first_s = self._last_s = 0.0
        self._submits = self._polls = 0
        self._accepted = 0
        self._in_flight = self._peak = 0
        self._closing = asyncio.Event()
        app = web.Application(client_max_size=64 * 1024 * 1024, middlewares=[_refuse_strangers])
        app.router.add_post("/api/v1/asample", self._submit)
        app.router.add_post("/api/v1/retrieve_future", self._poll)
        app.router.add_route("*", "/api/v1/{call:.*}", self._other)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)

    async def start(self) -> str:
        """The server's URL."""
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        return f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        self._closing.set()
        await self._runner.cleanup()

    def trace(self, ends: list[str]) -> Trace:
        return Trace(self._requests, ends, self._peak, (self._last_s - self._first_s) * self._script.speed)

    async def _submit(self, request: web.Request) -> web.StreamResponse:
        answers, number = self._script.submits, self._submits
        self._submits += 1
        self._in_flight += 1
        self._peak = max(self._peak, self._in_flight)
        try:
            if number < len(answers):
                return await self._answer(request, "submit", answers[number])
            self._accepted += 1
            body = accepted(self._accepted - 1)
            return await self._answer(request, "submit", Answer("", body=body, hold_s=self._script.accept_in_s))
        finally:
            self._in_flight -= 1

    async def _poll(self, request: web.Request) -> web.StreamResponse:
        answers, number = self._script.polls, self._polls
        self._polls += 1
        if number < len(answers):
            return await self._answer(request, "poll", answers[number])
        if self._script.peeks is not None and (await request.json())["allow_metadata_only"]:
            return await self._answer(request, "poll", self._script.peeks)
        hold_s = self._script.result_in_s
        return await self._answer(request, "poll", Answer("", body=result(), content_type=PROTOBUF, hold_s=hold_s))

    async def _answer(self, request: web.Request, endpoint: str, answer: Answer) -> web.StreamResponse:
        arrived_s = time.monotonic()
        since_s = self._last_s or arrived_s
        self._first_s = self._first_s or arrived_s
        self._last_s = arrived_s
        fields = _fields(request, await request.json())
        self._requests.append(Request(endpoint, (arrived_s - since_s) * self._script.speed, fields))
        await asyncio.sleep(answer.hold_s / self._script.speed)
        try:
            return await self._send(request, answer)
        finally:
            if answer.ending != "silent":
                self._last_s = time.monotonic()

    async def _send(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        transport = request.transport
        if answer.ending == "silent":
            await self._closing.wait()
            return web.Response()
        if answer.ending == "reset" and transport is not None:
            connection: socket.socket = transport.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
            return web.Response()  # which goes nowhere
        response = web.StreamResponse(status=answer.status, headers=dict(answer.headers))
        if answer.content_type is not None:
            response.content_type = answer.content_type
        response.content_length = len(answer.body) + (100 if answer.ending == "truncated" else 0)
        await response.prepare(request)
        await response.write(answer.body)
        if answer.ending == "truncated" and transport is not None:
            transport.close()
        else:
            await response.write_eof()
        return response

    async def _other(self, request: web.Request) -> web.StreamResponse:
        """All that comes before samples and beside them."""
        answers: dict[str, Any] = {
            "client/config": {
                "use_pyqwest_transport": self._script.preset == "sdk-pyqwest",
                **self._script.client_config,
            },
            "client/dynamic_config": {},
            "create_session": {"type": "create_session", "session_id": "session"},
            "create_sampling_session": {"type": "create_sampling_session", "sampling_session_id": "sampling-session"},
            "session_heartbeat": {"type": "session_heartbeat"},
            "telemetry": {"status": "accepted"},
        }
        return web.Response(body=json.dumps(answers.get(request.match_info["call"], {})), content_type=JSON)


@web.middleware
async def _refuse_strangers(request: web.Request, handler: Handler) -> web.StreamResponse:
    return await handler(request) if request.headers.get("X-API-Key") == API_KEY else web.Response(status=401)


def _fields(request: web.Request, body: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        name.lower(): "some" if name.lower() in MASKED else value
        for name, value in request.headers.items()
        if name.lower() in HEADERS or name.lower().startswith(API_HEADERS)
    }
    for chunk in body.get("prompt", {}).get("chunks", []):
        chunk["tokens"] = len(chunk["tokens"])  # which ones is of no account
    return fields | {f"body {name}": value for name, value in body.items()}
