"""The endpoints of sampling: submit, retrieve one future, retrieve what ended in a session, cancel."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from server_under_test.access import read_body
from server_under_test.answers import RefusedError, json_answer
from server_under_test.completions import Completions
from server_under_test.decode import Wanted
from server_under_test.forwarder import Forwarder, Job
from server_under_test.futures import Failure, Future, Identity, Sampler, State
from server_under_test.messages import (
    MalformedError,
    RetrieveFuturesRequest,
    RetrieveRequest,
    SampleRequest,
    completion_body,
    parse,
    parse_sample_request,
    prompt_tokens,
)
from server_under_test.metrics import Metrics
from server_under_test.result_path import ResultPath
from server_under_test.sessions import Sessions
from server_under_test.store import ConflictError, FutureStore, Gone

PROTOBUF = "application/x-protobuf"
# The SDK waits 1 s after any 429, so that no more is asked of it (tinker, lib/internal_client_holder.py).
RETRY_AFTER_S = 1

_retrieve_request = msgspec.json.Decoder(RetrieveRequest)
_retrieve_futures_request = msgspec.json.Decoder(RetrieveFuturesRequest)


@dataclass(frozen=True, kw_only=True)
class FutureOptions:
    """poll_hold_s, session_poll_hold_s: how long a poll waits for its future, or for anything in its session.

    max_outstanding, max_held_bytes: what is held at most, past which submits are refused. inline_limit_bytes: results
    longer than that are announced first, to clients that allow it; None for none.
    """

    poll_hold_s: float
    session_poll_hold_s: float
    max_outstanding: int
    max_held_bytes: int
    inline_limit_bytes: int | None


class FuturesApi:
    def __init__(
        self,
        options: FutureOptions,
        store: FutureStore,
        completions: Completions,
        sessions: Sessions,
        forwarder: Forwarder,
        result_path: ResultPath,
        metrics: Metrics,
    ) -> None:
        self._options = options
        self._store = store
        self._completions = completions
        self._sessions = sessions
        self._forwarder = forwarder
        self._result_path = result_path
        self._metrics = metrics
        self.closing = False

    def posts(self) -> dict[str, Handler]:
        return {
            "asample": self._asample,
            "retrieve_future": self._retrieve_future,
            "retrieve_futures": self._retrieve_futures,
            "cancel_future": self._cancel_future,
        }

    async def _asample(self, request: web.Request) -> web.Response:
        body = await read_body(request)
        wanted = parse_sample_request(body)
        prompt = prompt_tokens(wanted.prompt)
        model = self._model(wanted)
        # All that can be wrong with a request is found before there is a future: one that nobody works on never ends.
        job = Job(completion_body(model, wanted, prompt), _result_of(wanted, prompt))
        identity = _identity(wanted)
        if not self._store.knows(identity):
            self._refuse_what_is_too_much()
        try:
            future, new = self._store.submit(identity, hashlib.blake2b(body, digest_size=16).digest(), time.monotonic())
        except ConflictError as error:
            raise RefusedError(409, str(error)) from error
        if new:
            self._forwarder.forward(future, job)
        sequence_ids = [f"{future.id}-{number}" for number in range(wanted.samples)]
        return json_answer({"request_id": future.id, "sample_sequence_ids": sequence_ids})

    def _model(self, wanted: SampleRequest) -> str:
        model = wanted.base_model or wanted.model_path
        if wanted.sampling_session_id is not None:
            model = self._sessions.model_of(wanted.sampling_session_id)
            if model is None:
                raise RefusedError(404, f"There is no sampling session '{wanted.sampling_session_id}'.")
        if model is None:
            raise MalformedError("base_model, model_path or sampling_session_id is missing.")
        return model

    def _refuse_what_is_too_much(self) -> None:
        store, options = self._store, self._options
        if self.closing:
            raise RefusedError(503, "The server is about to stop.", RETRY_AFTER_S)
        if store.outstanding >= options.max_outstanding:
            sentence = f"{store.outstanding} futures are outstanding, which is all this server takes."
            raise RefusedError(429, sentence, RETRY_AFTER_S)
        if store.held_bytes >= options.max_held_bytes:
            sentence = f"{store.held_bytes} bytes of results are held, which is all this server takes."
            raise RefusedError(429, sentence, RETRY_AFTER_S)

    async def _retrieve_future(self, request: web.Request) -> web.StreamResponse:
        wanted = parse(await read_body(request), _retrieve_request)
        future = self._store.find(wanted.request_id)
        match future:
            case Gone.NEVER_ISSUED:
                raise RefusedError(404, f"There is no future '{wanted.request_id}'.")
            case Gone.EXPIRED:
                raise RefusedError(410, f"The future '{wanted.request_id}' is gone: submit the request again.")
        if future.state is State.PENDING:
            await self._hold(self._options.poll_hold_s, future.watchers.add, future.watchers.discard)
        if future.state is State.PENDING:
            state, reason = self._forwarder.queue_state(future)
            again = {"type": "try_again", "request_id": future.id, "queue_state": state, "queue_state_reason": reason}
            return json_answer(again, status=408)
        if future.failure is not None:
            return await self._deliver(request, future, _failure_json(future.failure), "application/json")
        if wanted.allow_metadata_only and self._is_to_be_announced(future):
            future.announced = True
            return json_answer({"status": "complete_metadata", "response_payload_size": len(future.result)})
        if PROTOBUF in request.headers.get("Accept", ""):
            return await self._deliver(request, future, await self._result_path.protobuf(future.result), PROTOBUF)
        if future.json is None:
            self._store.keep_json(future, await self._result_path.json(future.result))
        return await self._deliver(request, future, future.json or b"", "application/json")

    def _is_to_be_announced(self, future: Future) -> bool:
        """Once: an SDK that is told twice gives the future up."""
        limit = self._options.inline_limit_bytes
        return limit is not None and len(future.result) > limit and not future.announced

    async def _retrieve_futures(self, request: web.Request) -> web.Response:
        wanted = parse(await read_body(request), _retrieve_futures_request)
        target = wanted.target
        if self._sessions.model_of(target.sampling_session_id) is None:
            raise RefusedError(404, f"There is no sampling session '{target.sampling_session_id}'.")
        if self._sessions.began_before(target.sampling_session_id):
            # Nothing will ever be told of the futures that were lost, and their client would wait for ever.
            raise RefusedError(
                410, f"The server was started again, and what it had of '{target.sampling_session_id}' is gone."
            )
        sampler = Sampler(target.sampling_session_id, target.cloned_sampler_id)
        for request_id in wanted.retrieved_request_ids:
            future = self._store.find(request_id)
            if isinstance(future, Future) and future.identity is not None and future.identity.sampler == sampler:
                self._store.acknowledge(future)
        ended, cursor = self._completions.after(sampler, wanted.prev_cursor)
        hold_s = self._options.session_poll_hold_s
        if wanted.timeout is not None:
            hold_s = min(hold_s, max(0.0, wanted.timeout))
        if not ended and hold_s > 0:
            await self._hold(
                hold_s,
                lambda wake: self._completions.watch(sampler, wake),
                lambda wake: self._completions.unwatch(sampler, wake),
            )
            ended, cursor = self._completions.after(sampler, wanted.prev_cursor)
        return json_answer({"completions": [_completion(future) for future in ended], "cursor": cursor})

    async def _hold(self, seconds: float, watch: Watch, unwatch: Watch) -> None:
        """Let a poll wait until what it watches calls, or the time is over."""
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()

        def wake() -> None:
            if not over.done():
                over.set_result(None)

        watch(wake)
        timer = loop.call_later(seconds, wake)
        self._metrics.waiting_polls += 1
        try:
            await over
        finally:
            self._metrics.waiting_polls -= 1
            timer.cancel()
            unwatch(wake)

    async def _deliver(self, request: web.Request, future: Future, body: bytes, content_type: str) -> web.Response:
        """Write the answer; it counts as delivered once the kernel has taken its last byte."""
        response = web.Response(body=body, content_type=content_type)
        if future.ended_s is not None:
            response.headers["Server-Timing"] = f"unfetched;dur={1000 * (time.monotonic() - future.ended_s):.3f}"
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
            response.body = None  # aiohttp keeps the response until the next request comes on this connection
        if future.state is State.READY:
            self._metrics.results_served.inc()
            self._metrics.result_bytes_served.inc(len(body))
        return response

    async def _cancel_future(self, request: web.Request) -> web.Response:
        wanted = parse(await read_body(request), _retrieve_request)
        future = self._store.find(wanted.request_id)
        if isinstance(future, Future):
            self._store.fail(future, Failure("The future was cancelled.", "user"), time.monotonic())
            self._forwarder.abandon(future)
        return web.Response(status=204)


Watch = Callable[[Callable[[], None]], None]


def _result_of(request: SampleRequest, prompt: bytes) -> Wanted:
    """Raises MalformedError when it has to look at the token ids, and one is no such number."""
    of_the_prompt = bool(request.prompt_logprobs or request.topk_prompt_logprobs)
    try:
        tokens = orjson.loads(prompt) if of_the_prompt else None
    except orjson.JSONDecodeError as error:
        raise MalformedError(f"prompt.chunks holds a number that is no token id: {error}.") from error
    return Wanted(
        samples=request.samples,
        max_tokens=request.sampling_params.max_tokens,
        prompt=tokens,
        prompt_logprobs=bool(request.prompt_logprobs),
        topk=request.topk_sample_logprobs or 0,
        prompt_topk=request.topk_prompt_logprobs or 0,
    )


def _identity(request: SampleRequest) -> Identity | None:
    if request.sampling_session_id is None or request.seq_id is None:
        return None
    return Identity(request.sampling_session_id, request.seq_id)


def _failure_json(failure: Failure) -> bytes:
    return orjson.dumps({"error": failure.message, "category": failure.category})


def _completion(future: Future) -> dict[str, object]:
    if future.state is State.FAILED:
        return {"state": "failed", "request_id": future.id}
    size = len(future.result)
    return {"state": "finished", "request_id": future.id, "response_payload_uncompressed_size": size}
