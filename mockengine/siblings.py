"""Workers on one port speak to each other where a client means all of them: for metrics and for the admin endpoints."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from mockengine.samples import add_up
from mockengine.sharing import Worker


class Siblings:
    """Lets whichever worker a client has reached answer for all, itself included, over the workers' own sockets."""

    def __init__(self, worker: Worker) -> None:
        self._sockets = worker.all_sockets

    def join(self, app: web.Application) -> None:
        """Answer for all in this application."""
        app.middlewares.append(self._answer_for_all)

    @property
    def _answer_for_all(self) -> Any:
        @web.middleware
        async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
            for_all = request.path == "/metrics" or request.path.startswith("/admin/")
            if not for_all or _is_from_a_worker(request):
                return await handler(request)
            body = await request.read()
            answers = await asyncio.gather(*(self._ask(socket, request, body) for socket in self._sockets))
            if request.path == "/metrics":
                text = add_up(text.decode() for _, text in answers)
                return web.Response(body=text, headers={"Content-Type": "text/plain; version=0.0.4"})
            status = max(status for status, _ in answers)
            documents = [orjson.loads(text) for _, text in answers]
            return web.Response(body=orjson.dumps(_merged(documents)), status=status, content_type="application/json")

        return answer

    async def _ask(self, socket: str, request: web.Request, body: bytes) -> tuple[int, bytes]:
        async with (
            aiohttp.ClientSession(connector=aiohttp.UnixConnector(socket)) as session,
            session.request(request.method, f"http://worker{request.path}", data=body) as answer,
        ):
            return answer.status, await answer.read()


def _is_from_a_worker(request: web.Request) -> bool:
    """Only the workers' own sockets have a name that is a path."""
    return request.transport is not None and isinstance(request.transport.get_extra_info("sockname"), str | bytes)


def _merged(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """Workers are set alike, so the first one's answer is all workers', except for what they count."""
    merged = dict(documents[0])
    if "injected" in merged:
        kinds = {kind for document in documents for kind in document["injected"]}
        merged["injected"] = {kind: sum(document["injected"].get(kind, 0) for document in documents) for kind in kinds}
    if "waiting_at_the_gate" in merged:
        merged["waiting_at_the_gate"] = sum(document["waiting_at_the_gate"] for document in documents)
    return merged
