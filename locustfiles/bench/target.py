"""A target that keeps a client in a known state: as many polls held as it is told, the oldest answered first."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import uvloop
from aiohttp import web

from locustfiles.protocols import tinker
from mockengine.corpus import Corpus
from server_under_test.proto import SampledSequence, SampleResponse, StopReason

BACKLOG = 16_384


class _SamplingParams(msgspec.Struct):
    seed: int
    max_tokens: int


class _Asample(msgspec.Struct):
    sampling_params: _SamplingParams


class _Poll(msgspec.Struct):
    request_id: str


class Target:
    """The endpoints of a Tinker-style API. submits and held are read, and held_at_most is set, from another thread.

    A session is opened only once ``let_in`` is set, so that a client can be looked at before it has any future.
    """

    def __init__(self, corpus: Corpus, held_at_most: int) -> None:
        self._corpus = corpus
        self.held_at_most = held_at_most
        self.submits = 0
        self.clients_waiting = 0
        self._let_in = asyncio.Event()
        self._jobs: dict[str, _SamplingParams] = {}
        self._held: dict[str, asyncio.Future[None]] = {}  # by future; the oldest poll first

    @property
    def held(self) -> int:
        return len(self._held)

    def app(self) -> web.Application:
        app = web.Application()
        for path, handler in (
            (tinker.CLIENT_CONFIG, self._ok),
            (tinker.CREATE_SESSION, self._create_session),
            (tinker.CREATE_SAMPLING_SESSION, self._create_sampling_session),
            (tinker.SESSION_HEARTBEAT, self._ok),
            (tinker.ASAMPLE, self._asample),
            (tinker.RETRIEVE_FUTURE, self._retrieve_future),
        ):
            app.router.add_post(path, handler)
        return app

    def let_in(self) -> None:
        self._let_in.set()

    def hold(self, at_most: int) -> None:
        self.held_at_most = at_most
        self._answer_the_oldest()

    def _answer_the_oldest(self) -> None:
        while len(self._held) > self.held_at_most:
            oldest = self._held.pop(next(iter(self._held)))
            if not oldest.done():
                oldest.set_result(None)

    async def _ok(self, _: web.Request) -> web.Response:
        return web.json_response({})

    async def _create_session(self, _: web.Request) -> web.Response:
        self.clients_waiting += 1
        await self._let_in.wait()
        return web.json_response({"session_id": "s"})

    async def _create_sampling_session(self, _: web.Request) -> web.Response:
        return web.json_response({"sampling_session_id": "t"})

    async def _asample(self, request: web.Request) -> web.Response:
        params = msgspec.json.decode(await request.read(), type=_Asample).sampling_params
        name = str(self.submits)
        self.submits += 1
        self._jobs[name] = params
        return web.json_response({"request_id": name})

    async def _retrieve_future(self, request: web.Request) -> web.Response:
        name = msgspec.json.decode(await request.read(), type=_Poll).request_id
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._held.pop(name, None)  # a poll that its client has given up
        self._held[name] = turn
        self._answer_the_oldest()
        await turn
        params = self._jobs[name]
        sequence = SampledSequence(
            stop_reason=StopReason.LENGTH,
            tokens=self._corpus.tokens(params.seed, 0, params.max_tokens),
            logprobs=self._corpus.logprobs(params.seed, 0, params.max_tokens),
        )
        body = SampleResponse(sequences=[sequence]).SerializeToString()
        return web.Response(body=body, content_type=tinker.PROTOBUF)


class RunningTarget:
    """A target served by a thread. url: where."""

    def __init__(self, target: Target, url: str, loop: asyncio.AbstractEventLoop) -> None:
        self.target = target
        self.url = url
        self._loop = loop

    def let_in(self) -> None:
        self._loop.call_soon_threadsafe(self.target.let_in)

    def hold(self, at_most: int) -> None:
        self._loop.call_soon_threadsafe(self.target.hold, at_most)


@contextmanager
def running(corpus: Corpus, held_at_most: int) -> Iterator[RunningTarget]:
    loop = uvloop.new_event_loop()

    async def start() -> tuple[web.AppRunner, Target]:
        target = Target(corpus, held_at_most)
        runner = web.AppRunner(target.app(), access_log=None, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, backlog=BACKLOG).start()
        return runner, target

    async def stop(runner: web.AppRunner) -> None:
        for task in asyncio.all_tasks() - {asyncio.current_task()}:  # polls that are held would be waited for
            task.cancel()
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    runner, target = asyncio.run_coroutine_threadsafe(start(), loop).result()
    try:
        yield RunningTarget(target, f"http://127.0.0.1:{runner.addresses[0][1]}", loop)
    finally:
        asyncio.run_coroutine_threadsafe(stop(runner), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
