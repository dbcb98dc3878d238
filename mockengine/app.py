"""The engine's HTTP endpoints, as vLLM has them."""

from __future__ import annotations

import asyncio
import functools
import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
import orjson
from aiohttp import web

from mockengine.admin import Admin
from mockengine.admission import Admission
from mockengine.bodies import Renderer
from mockengine.corpus import BodyProfile, Corpus
from mockengine.fanout.inbox import AbortedError, Inbox, WrongAnswerError
from mockengine.faults import KINDS, Moment, Plan, Rule
from mockengine.injection import Host, Injector, refusal
from mockengine.metrics import Metrics
from mockengine.protocol import BadRequestError, CompletionRequest, error_body, parse_completion_request
from mockengine.scheduler import Scheduler, Work
from mockengine.service_time import parse_service_time
from mockengine.sharing import check_faults, check_service_time

MAX_REQUEST_BYTES = 64 * 1024 * 1024
InboxMaker = Callable[[Corpus], Inbox]


@dataclass(frozen=True, kw_only=True)
class Overflow:
    """What a request is told that finds max_waiting others in the queue."""

    max_waiting: int
    status: int
    retry_after_s: float


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """models: names that requests may ask for; the first is meant when they name none. slots: requests served at once.

    service_time: one of service_time.FORMS. overflow: None for an endless queue.
    max_model_len: tokens of prompt and answer together. seed: of service times, faults and requests without a seed.
    own_seeds: the first of the latter, and the step from one to the next. workers: processes that share the port.
    """

    models: Sequence[str]
    max_model_len: int
    slots: int
    service_time: str
    body_profile: BodyProfile
    corpus_seed: int
    seed: int
    own_seeds: tuple[int, int]
    overflow: Overflow | None
    faults: Sequence[Rule]
    workers: int = 1


class Engine:
    """One mock engine: admission, delay, body and faults of every request. inbox: if answers come through a pipeline.

    Raises ServiceTimeError and FaultError for what can't be done with these slots and workers.
    """

    def __init__(self, options: EngineOptions, host: Host, inbox: InboxMaker | None = None) -> None:
        now = time.monotonic()
        self._options = options
        check_faults(options.faults, options.workers)
        service_time = parse_service_time(options.service_time)
        check_service_time(service_time, options.workers)
        self._admission = Admission(options.slots, now)
        self.plan = Plan(options.faults, options.seed, now)
        self.metrics = Metrics(options.models[0], self._admission, self.plan)
        self._scheduler = Scheduler(self._admission, service_time, options.seed, self.metrics)
        self._injector = Injector(self.plan, host)
        corpus = Corpus(options.body_profile, options.corpus_seed)
        self._renderer = Renderer(corpus)
        self._inbox = None if inbox is None else inbox(corpus)
        self._rendering = asyncio.Lock()
        self._own_seeds = itertools.count(*options.own_seeds)
        self._request_numbers = itertools.count()
        self._started_unix = int(time.time())

    def app(self) -> web.Application:
        app = web.Application(client_max_size=MAX_REQUEST_BYTES)
        app.add_routes(
            [
                web.post("/v1/completions", self._completions),
                web.get("/v1/models", self._models),
                web.get("/health", self._health),
                web.get("/metrics", self._show_metrics),
                *Admin(self.plan, self._scheduler, self._options.service_time, self._options.workers).routes(),
            ]
        )
        if self._inbox is not None:
            app.cleanup_ctx.append(self._inbox.run)
            app.router.add_get("/fanout", self._show_fanout)
        return app

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if (end := self._injector.met(request)) is not None:
            return end
        try:
            wanted = parse_completion_request(body, self._options.max_model_len)
        except BadRequestError as error:
            return _json(error_body(str(error), "BadRequestError", 400), status=400)
        model = wanted.model or self._options.models[0]
        if model not in self._options.models:
            text = f"The model `{model}` does not exist."
            return _json(error_body(text, "NotFoundError", 404), status=404)
        self.metrics.request_arrived()
        # Taken in the order of arrival, which repeats; the order of answers does not.
        seed = next(self._own_seeds) if wanted.seed is None else wanted.seed
        fault = self.plan.draw(model, wanted.n, time.monotonic())
        if fault is not None and KINDS[fault.kind].moment is Moment.ARRIVAL:
            if (answer := self._injector.strike(fault)) is not None:
                return answer
            fault = None
        overflow = self._options.overflow
        if overflow is not None and self._admission.is_full and self._admission.waiting >= overflow.max_waiting:
            self.metrics.refused.inc()
            text = f"{self._admission.waiting} requests are waiting, which is all this engine takes."
            return refusal(overflow.status, overflow.retry_after_s, text)
        try:
            await self._scheduler.serve(wanted.max_tokens, self._work(wanted, seed))
            await self._get_ready_for(wanted)
        except WrongAnswerError as error:
            return _json(error_body(str(error), "InternalServerError", 500), status=500)
        except AbortedError:
            self.metrics.refused.inc()
            return refusal(503, 1.0, "The scheduler has aborted the request: it has as many as it takes.")
        except asyncio.CancelledError:
            self.metrics.disconnects.inc()
            raise
        if fault is None:
            return _json(self._body(wanted, model, seed))
        return self._injector.answer(fault, request, lambda: self._body(wanted, model, seed))

    def _work(self, wanted: CompletionRequest, seed: int) -> Work | None:
        """What a slot is occupied with: the way of the answer through the pipeline, if there is one."""
        if self._inbox is None:
            return None
        return functools.partial(self._inbox.generate, seed=seed, choices=wanted.n, tokens=wanted.max_tokens)

    async def _get_ready_for(self, wanted: CompletionRequest) -> None:
        if not self._renderer.is_ready_for(wanted):
            async with self._rendering:
                await asyncio.to_thread(self._renderer.get_ready_for, wanted)

    def _body(self, wanted: CompletionRequest, model: str, seed: int) -> bytes:
        choices, tokens, finish_reason = self._renderer.choices(wanted, seed)
        prompt_tokens = len(wanted.prompt)
        head = b'{"id":"cmpl-%d-%d","object":"text_completion","created":%d,"model":%b,"choices":[' % (
            self._started_unix,
            next(self._request_numbers),
            int(time.time()),
            orjson.dumps(model),
        )
        tail = (
            b'],"service_tier":null,"system_fingerprint":null,"usage":{"prompt_tokens":%d,"total_tokens":%d,'
            b'"completion_tokens":%d,"prompt_tokens_details":null},"kv_transfer_params":null}'
            % (prompt_tokens, prompt_tokens + tokens, tokens)
        )
        self.metrics.finished[finish_reason].inc()
        self.metrics.prompt_tokens.inc(prompt_tokens)
        self.metrics.generation_tokens.inc(tokens)
        return b"".join([head, *choices, tail])

    async def _models(self, _: web.Request) -> web.Response:
        models = [
            {
                "id": model,
                "object": "model",
                "created": self._started_unix,
                "owned_by": "mockengine",
                "max_model_len": self._options.max_model_len,
            }
            for model in self._options.models
        ]
        return _json(orjson.dumps({"object": "list", "data": models}))

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _show_fanout(self, _: web.Request) -> web.Response:
        """Of the process that answers, alone."""
        assert self._inbox is not None
        return _json(orjson.dumps(msgspec.to_builtins(self._inbox.seen())))

    async def _show_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self.metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4"})


def _json(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type="application/json")
