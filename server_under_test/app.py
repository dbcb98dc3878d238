"""The HTTP endpoints of the sampling API."""

from __future__ import annotations

import asyncio
import hmac
import time
from dataclasses import dataclass

import msgspec
import orjson
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from server_under_test.engine_client import EngineClient
from server_under_test.forwarder import Forwarder, Job
from server_under_test.messages import (
    CreateSamplingSessionRequest,
    MalformedError,
    RetrieveRequest,
    SampleRequest,
    SamplingSessionRequest,
    SessionRequest,
    completion_body,
    parse,
    parse_sample_request,
    prompt_tokens,
)
from server_under_test.metrics import Metrics
from server_under_test.results_json import sample_response_json
from server_under_test.sessions import Sessions
from server_under_test.store import Failure, Future, FutureStore, Gone, Identity, KeepFor, State

PREFIX = "/api/v1/"
PROTOBUF = "application/x-protobuf"
MAX_REQUEST_BYTES = 64 * 1024 * 1024
SDK_MAX_OUTSTANDING = 2000

_retrieve_request = msgspec.json.Decoder(RetrieveRequest)
_session_request = msgspec.json.Decoder(SessionRequest)
_sampling_session_request = msgspec.json.Decoder(SamplingSessionRequest)
_create_sampling_session_request = msgspec.json.Decoder(CreateSamplingSessionRequest)


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """engine_connections: requests at the engine at once; poll_hold_s: how long a poll waits for its future."""

    engine_connections: int
    poll_hold_s: float
    max_outstanding: int
    keep_for: KeepFor
    sweep_interval_s: float
    api_key: str | None


class Server:
    """The endpoints and what is behind them. boot: distinguishes this process's ids from those of any other."""

    def __init__(self, options: ServerOptions, engine: EngineClient, boot: str) -> None:
        self._options = options
        self._store = FutureStore(options.keep_for, boot)
        self._sessions = Sessions(boot)
        self._forwarder = Forwarder(self._store, engine, options.engine_connections)
        self._waiting_polls = 0
        self.metrics = Metrics(self._store, self._forwarder, waiting_polls=lambda: self._waiting_polls)

    def app(self) -> web.Application:
        middlewares = [_refuse_other_keys(self._options.api_key)] if self._options.api_key else []
        app = web.Application(client_max_size=MAX_REQUEST_BYTES, middlewares=middlewares)
        posts: dict[str, Handler] = {
            "client/config": self._client_config,
            "client/dynamic_config": self._dynamic_config,
            "create_session": self._create_session,
            "session_heartbeat": self._session_heartbeat,
            "create_sampling_session": self._create_sampling_session,
            "join_sampling_session": self._join_sampling_session,
            "telemetry": self._telemetry,
            "asample": self._asample,
            "retrieve_future": self._retrieve_future,
            "cancel_future": self._cancel_future,
        }
        app.add_routes([web.post(PREFIX + path, _malformed_is_422(handler)) for path, handler in posts.items()])
        app.router.add_get(PREFIX + "healthz", self._healthz)
        app.router.add_get(PREFIX + "get_server_capabilities", self._capabilities)
        app.router.add_get("/metrics", self._show_metrics)
        return app

    async def run_background(self) -> None:
        """Expire what has been kept long enough, and watch the loop's lag, for ever."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.metrics.lag_monitor.run())
            tasks.create_task(self._sweep())

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(self._options.sweep_interval_s)
            for overdue in self._store.expire(time.monotonic()):
                self._forwarder.abandon(overdue)

    async def stop(self) -> None:
        await self._forwarder.stop()

    def summary(self) -> str:
        """What became of all futures, and how often the engine had to be asked again, as sentences."""
        store = self._store
        retries = ", ".join(f"{count} {reason}" for reason, count in self._forwarder.retries.items() if count)
        again = f" Requests sent to the engine again: {retries}." if retries else ""
        return f"{store.ready} futures got ready, {store.failed} failed, {store.outstanding} had not ended.{again}"

    # Sessions

    async def _client_config(self, _: web.Request) -> web.Response:
        return _json(
            {
                "sample_max_concurrent_requests": SDK_MAX_OUTSTANDING,
                "sample_use_retrieve_futures": False,
                "pjwt_auth_enabled": False,
            }
        )

    async def _dynamic_config(self, _: web.Request) -> web.Response:
        return _json({"refresh_interval_sec": 300, "sample_cancel_enabled": False})

    async def _create_session(self, _: web.Request) -> web.Response:
        return _json({"type": "create_session", "session_id": self._sessions.create()})

    async def _session_heartbeat(self, request: web.Request) -> web.Response:
        wanted = parse(await request.read(), _session_request)
        if not self._sessions.exists(wanted.session_id):
            return _error(410, f"There is no session '{wanted.session_id}'.")
        return _json({"type": "session_heartbeat"})

    async def _create_sampling_session(self, request: web.Request) -> web.Response:
        wanted = parse(await request.read(), _create_sampling_session_request)
        if not self._sessions.exists(wanted.session_id):
            return _error(404, f"There is no session '{wanted.session_id}'.")
        model = wanted.base_model or wanted.model_path
        if model is None:
            raise MalformedError("base_model or model_path is missing.")
        sampling_session_id = self._sessions.create_sampling(wanted.session_id, model)
        return _json({"type": "create_sampling_session", "sampling_session_id": sampling_session_id})

    async def _join_sampling_session(self, request: web.Request) -> web.Response:
        wanted = parse(await request.read(), _sampling_session_request)
        if self._sessions.model_of(wanted.sampling_session_id) is None:
            return _error(404, f"There is no sampling session '{wanted.sampling_session_id}'.")
        return _json({"client_counter": self._sessions.join()})

    async def _telemetry(self, _: web.Request) -> web.Response:
        return _json({"status": "accepted"})

    async def _capabilities(self, _: web.Request) -> web.Response:
        return _json({"supported_models": []})

    async def _healthz(self, _: web.Request) -> web.Response:
        return _json({"status": "ok"})

    async def _show_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self.metrics.text(), headers={"Content-Type": "text/plain; version=0.0.4"})

    # Futures

    async def _asample(self, request: web.Request) -> web.Response:
        wanted = parse_sample_request(await request.read())
        prompt = prompt_tokens(wanted.prompt)
        model = wanted.base_model or wanted.model_path
        if wanted.sampling_session_id is not None:
            model = self._sessions.model_of(wanted.sampling_session_id)
            if model is None:
                return _error(404, f"There is no sampling session '{wanted.sampling_session_id}'.")
        if model is None:
            raise MalformedError("base_model, model_path or sampling_session_id is missing.")
        identity = _identity(wanted)
        if self._store.outstanding >= self._options.max_outstanding and not self._store.knows(identity):
            return _error(429, f"{self._store.outstanding} futures are outstanding, which is all this server takes.")
        future, new = self._store.submit(identity, time.monotonic())
        if new:
            ids: list[int] | None = orjson.loads(prompt) if wanted.prompt_logprobs else None
            body = completion_body(model, wanted, prompt)
            self._forwarder.forward(future, Job(body, wanted.samples, wanted.sampling_params.max_tokens, ids))
        sequence_ids = [f"{future.id}-{number}" for number in range(wanted.samples)]
        return _json({"request_id": future.id, "sample_sequence_ids": sequence_ids})

    async def _retrieve_future(self, request: web.Request) -> web.StreamResponse:
        wanted = parse(await request.read(), _retrieve_request)
        future = self._store.find(wanted.request_id)
        match future:
            case Gone.NEVER_ISSUED:
                return _error(404, f"There is no future '{wanted.request_id}'.")
            case Gone.EXPIRED:
                return _error(410, f"The future '{wanted.request_id}' is gone: submit the request again.")
        if future.state is State.PENDING:
            self._waiting_polls += 1
            try:
                await _ended(future, self._options.poll_hold_s)
            finally:
                self._waiting_polls -= 1
        if future.state is State.PENDING:
            return _json({"type": "try_again", "request_id": future.id, "queue_state": "active"}, status=408)
        if future.failure is not None:
            return await self._deliver(request, future, _failure_json(future), "application/json")
        if PROTOBUF in request.headers.get("Accept", ""):
            return await self._deliver(request, future, future.result, PROTOBUF)
        if future.json is None:
            self._store.keep_json(future, sample_response_json(future.result))
        return await self._deliver(request, future, future.json or b"", "application/json")

    async def _deliver(self, request: web.Request, future: Future, body: bytes, content_type: str) -> web.Response:
        """Write the answer; it counts as delivered once the kernel has taken its last byte."""
        response = web.Response(body=body, content_type=content_type)
        # With the high-water mark at 0, to drain is to wait until the transport holds nothing back.
        if request.transport is not None:
            request.transport.set_write_buffer_limits(high=0)
        complete = False
        self._store.delivery_begins(future)
        try:
            await response.prepare(request)
            await response.write_eof()
            complete = True
        finally:
            self._store.delivery_ends(future, complete, time.monotonic())
        if future.state is State.READY:
            self.metrics.results_served.inc()
            self.metrics.result_bytes_served.inc(len(body))
        return response

    async def _cancel_future(self, request: web.Request) -> web.Response:
        wanted = parse(await request.read(), _retrieve_request)
        future = self._store.find(wanted.request_id)
        if isinstance(future, Future):
            self._store.fail(future, Failure("The future was cancelled.", "user"), time.monotonic())
            self._forwarder.abandon(future)
        return web.Response(status=204)


async def _ended(future: Future, timeout_s: float) -> None:
    """Wait until a future has ended or timeout_s are over."""
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not over.done():
            over.set_result(None)

    future.watchers.add(wake)
    timer = loop.call_later(timeout_s, wake)
    try:
        await over
    finally:
        timer.cancel()
        future.watchers.discard(wake)


def _identity(request: SampleRequest) -> Identity | None:
    if request.sampling_session_id is None or request.seq_id is None:
        return None
    return Identity(request.sampling_session_id, request.seq_id)


def _failure_json(future: Future) -> bytes:
    assert future.failure is not None
    return orjson.dumps({"error": future.failure.message, "category": future.failure.category})


def _json(document: dict[str, object], status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(document), status=status, content_type="application/json")


def _error(status: int, sentence: str) -> web.Response:
    return _json({"detail": sentence}, status)


def _malformed_is_422(handler: Handler) -> Handler:
    async def checked(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except MalformedError as error:
            return _error(422, str(error))

    return checked


def _refuse_other_keys(api_key: str) -> Middleware:
    expected = api_key.encode()

    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        if not hmac.compare_digest(request.headers.get("X-API-Key", "").encode(), expected):
            return _error(401, "The X-API-Key header is missing or not the key of this server.")
        return await handler(request)

    return check
