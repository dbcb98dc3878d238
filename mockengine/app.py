"""The engine's HTTP endpoints, as vLLM has them."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from dataclasses import dataclass

import orjson
from aiohttp import web

from mockengine.admission import Admission
from mockengine.bodies import Renderer
from mockengine.corpus import BodyProfile, Corpus
from mockengine.metrics import Metrics
from mockengine.protocol import BadRequestError, CompletionRequest, error_body, parse_completion_request
from mockengine.service_time import ServiceTime

MAX_REQUEST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """slots: requests served at once; seed: of service times and of requests that bring no seed.

    max_model_len: tokens of prompt and answer together.
    """

    model: str
    max_model_len: int
    slots: int
    service_time: ServiceTime
    body_profile: BodyProfile
    corpus_seed: int
    seed: int


class Engine:
    """One mock engine: admission, delay and body of every request."""

    def __init__(self, options: EngineOptions) -> None:
        self._options = options
        self._admission = Admission(options.slots, time.monotonic())
        self._renderer = Renderer(Corpus(options.body_profile, options.corpus_seed))
        self._random = random.Random(options.seed)
        self._own_seeds = itertools.count(options.seed)
        self._request_numbers = itertools.count()
        self._started_unix = int(time.time())
        self.metrics = Metrics(options.model, self._admission)

    def app(self) -> web.Application:
        app = web.Application(client_max_size=MAX_REQUEST_BYTES)
        app.add_routes(
            [
                web.post("/v1/completions", self._completions),
                web.get("/v1/models", self._models),
                web.get("/health", self._health),
                web.get("/metrics", self._show_metrics),
            ]
        )
        return app

    async def _completions(self, request: web.Request) -> web.Response:
        try:
            wanted = parse_completion_request(await request.read(), self._options.max_model_len)
        except BadRequestError as error:
            return _json(error_body(str(error), "BadRequestError", 400), status=400)
        if wanted.model and wanted.model != self._options.model:
            text = f"The model `{wanted.model}` does not exist."
            return _json(error_body(text, "NotFoundError", 404), status=404)
        # Taken in the order of arrival, which repeats; the order of answers does not.
        seed = next(self._own_seeds) if wanted.seed is None else wanted.seed
        try:
            await self._serve()
        except asyncio.CancelledError:
            self.metrics.disconnects.inc()
            raise
        return self._answer(wanted, seed)

    async def _serve(self) -> None:
        """Wait for a slot, and occupy it for a service time. The slot is free again however this ends."""
        admitted: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        arrived_s = time.monotonic()

        def admit() -> None:
            if not admitted.done():  # the client may have gone at the very moment at which its turn comes
                admitted.set_result(self._draw_service_time())

        place = self._admission.enter(admit, arrived_s)
        try:
            service_time_s = await admitted
            admitted_s = time.monotonic()
            self.metrics.queue_time_s.observe(admitted_s - arrived_s)
            if service_time_s > 0:  # even a sleep of 0 s is a turn of the loop
                await asyncio.sleep(service_time_s)
            self.metrics.inference_time_s.observe(time.monotonic() - admitted_s)
        finally:
            self._admission.leave(place, time.monotonic())

    def _draw_service_time(self) -> float:
        service_time_s = self._options.service_time.draw(self._random)
        self.metrics.service_time_drawn_s.observe(service_time_s)
        return service_time_s

    def _answer(self, wanted: CompletionRequest, seed: int) -> web.Response:
        prompt_tokens, completion_tokens = len(wanted.prompt), wanted.n * wanted.max_tokens
        head = b'{"id":"cmpl-%d-%d","object":"text_completion","created":%d,"model":%b,"choices":[' % (
            self._started_unix,
            next(self._request_numbers),
            int(time.time()),
            orjson.dumps(self._options.model),
        )
        usage = (
            b'],"usage":{"prompt_tokens":%d,"total_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":null}}'
            % (prompt_tokens, prompt_tokens + completion_tokens, completion_tokens)
        )
        body = b"".join([head, *self._renderer.choices(wanted, seed), usage])
        self.metrics.finished.inc()
        self.metrics.prompt_tokens.inc(prompt_tokens)
        self.metrics.generation_tokens.inc(completion_tokens)
        return _json(body)

    async def _models(self, _: web.Request) -> web.Response:
        model = {
            "id": self._options.model,
            "object": "model",
            "created": self._started_unix,
            "owned_by": "mockengine",
            "max_model_len": self._options.max_model_len,
        }
        return _json(orjson.dumps({"object": "list", "data": [model]}))

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _show_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self.metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4"})


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")
