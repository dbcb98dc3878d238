"""The processes of the pipeline: what each does with a message, and what becomes of it when it fails.

An exception ends the process: it says why, closes its sockets and sends SIGQUIT to its parent, as the server's do. What
it had sent before stays sent; nothing is sent again.
"""

from __future__ import annotations

import gc
import itertools
import math
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Protocol, runtime_checkable

import msgspec
import zmq

from mockengine.fanout.batches import (
    AbortRequest,
    EmbeddingBatch,
    Ended,
    FreezeGc,
    Message,
    Shutdown,
    Submitted,
    TextBatch,
    TokenBatch,
)
from mockengine.fanout.delivery import Send, fan_out, route
from mockengine.fanout.detokenizer import MAX_STATES, Detokenizer
from mockengine.fanout.faults import FEW_STATES, faulty_send, faulty_splitter, prepare_timing
from mockengine.fanout.sockets import Sockets
from mockengine.fanout.sources import shared_sha256, splitter_sha256
from mockengine.fanout.splitting import SPLITTERS
from mockengine.fanout.transport import Transport, TransportName, transport_named

HEALTH_CHECK = "HEALTH_CHECK"  # rids that begin so belong to no client

_LOOKS_FOR_PARENT_EVERY_MS = 1_000


class Common(msgspec.Struct, frozen=True, kw_only=True):
    """What every process is told. account: where it leaves its Account when it ends as asked. is_traced: whether that
    says when each row passed. fault: one of ``faults``, None for none.
    """

    name: str
    address: str
    transport: TransportName
    splitter: str
    account: Connection
    is_traced: bool = False
    fault: str | None = None


class Passed(msgspec.Struct, frozen=True):
    """A message on its way through a process, on the monotonic clock that all processes of a machine share.

    received_s: when the message was read from which it was made; of a scheduler's batch, when its step began.
    """

    rids: list[str]
    received_s: float
    sent_s: float


class Account(msgspec.Struct, frozen=True, kw_only=True):
    """What a process did, and with which code. cpu_s and wall_s: since it was ready. delivered: an HTTP worker's
    requests. decoded: tokens that a detokenizer made text of. passed: every row, in a pipeline that is traced.
    """

    name: str
    received: int
    sent: int
    decodes: int
    cpu_s: float
    wall_s: float
    transport: TransportName
    splitter: str
    splitter_sha256: str
    shared_sha256: str
    delivered: dict[str, Delivered]
    unknown: int
    decoded: int
    passed: list[Passed]

    @property
    def utilisation(self) -> float:
        """CPU time as a share of the time since the process was ready."""
        return self.cpu_s / self.wall_s


class Delivered(msgspec.Struct):
    """What an HTTP worker got for a request. at_s: when each row was ready, on the monotonic clock of this machine."""

    text: str = ""
    at_s: list[float] = msgspec.field(default_factory=list)
    is_finished: bool = False
    is_aborted: bool = False


class _Stage(Protocol):
    def handle(self, message: Message, transport: Transport, send: Send) -> None: ...


@runtime_checkable
class Clocked(Protocol):
    """A stage that also does something by the clock. due_s: when next, on the monotonic clock; None for not now."""

    due_s: float | None

    def step(self, transport: Transport, send: Send) -> None: ...


class Router:
    """Splits batches among detokenizers."""

    def __init__(self, common: Common, detokenizers: list[str]) -> None:
        self._splitter = faulty_splitter(common.fault, SPLITTERS[common.splitter])
        self._detokenizers = detokenizers
        self._in_turn = itertools.cycle(detokenizers) if common.fault == "not_sticky" else None

    def handle(self, message: Message, transport: Transport, send: Send) -> None:
        route(message, self._detokenizers, self._splitter, transport, self._dealing(send))

    def _dealing(self, send: Send) -> Send:
        """Faulty or not: where rows go."""
        if (in_turn := self._in_turn) is None:
            return send
        return lambda address, message: send(next(in_turn) if isinstance(message, TokenBatch) else address, message)


class DetokenizerStage:
    """Makes text of tokens and splits batches among HTTP workers; if there is only one, it gets them whole."""

    def __init__(self, common: Common, only_worker: str | None, max_states: int = MAX_STATES) -> None:
        self._splitter = faulty_splitter(common.fault, SPLITTERS[common.splitter])
        self._only_worker = only_worker
        self._fault = common.fault
        if common.fault == "few_states":
            max_states = FEW_STATES
        self._detokenizer = Detokenizer(max_states, commits=common.fault != "never_commits")
        self._send: Send | None = None

    @property
    def decoded(self) -> int:
        return self._detokenizer.decoded

    def handle(self, message: Message, transport: Transport, send: Send) -> None:
        if isinstance(message, FreezeGc | Shutdown):
            return
        if isinstance(message, TokenBatch):
            message = self._detokenizer.text_batch(message)
        if self._send is None:
            self._send = faulty_send(self._fault, send)
        send = self._send
        if self._only_worker is not None:
            send(self._only_worker, message)
        else:
            fan_out(message, self._splitter, transport, send)


class HttpWorker:
    """Hands rows to the requests it knows, and tells ``observer`` which it has taken in and which have ended."""

    def __init__(self, observer: str) -> None:
        self.delivered: dict[str, Delivered] = {}
        self.unknown = 0
        self._observer = observer

    def handle(self, message: Message, transport: Transport, send: Send) -> None:
        match message:
            case Submitted():
                self.delivered |= {rid: Delivered() for rid in message.rids}
                send(self._observer, message)
            case AbortRequest():
                if request := self._open(message.rid):
                    request.is_aborted = True
                    send(self._observer, Ended(message.rid))
            case TextBatch():
                transport.unwrap(message.time_stats)
                transport.unwrap(message.customized_info)
                rids = message.rids or []
                for rid, text, reason in zip(
                    rids, message.output_strs or [], message.finished_reasons or [None] * len(rids), strict=True
                ):
                    self._take(rid, text, reason is not None, send)
            case EmbeddingBatch():
                for rid in message.rids or []:
                    self._take(rid, "", True, send)

    def _take(self, rid: str, text: str, is_finished: bool, send: Send) -> None:
        if rid.startswith(HEALTH_CHECK):
            return
        if request := self._open(rid):
            request.text += text
            request.at_s.append(time.monotonic())
            request.is_finished = is_finished
            if is_finished:
                send(self._observer, Ended(rid))

    def _open(self, rid: str) -> Delivered | None:
        request = self.delivered.get(rid)
        if request is None or request.is_finished or request.is_aborted:
            self.unknown += 1
            _say(f"error: Request {rid} is not known here, or has ended; its row is skipped.")
            return None
        return request


def run_stage(common: Common, make: Callable[[Common], _Stage]) -> None:
    """The life of a process, until Shutdown, which leaves an account, or an error, which signals the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent ends the others
    parent = multiprocessing.parent_process()
    assert parent is not None
    assert parent.pid is not None
    prepare_timing(common.fault)
    try:
        with Sockets(is_bounded=common.fault != "unbounded_queues") as sockets:
            _serve(common, make(common), sockets, parent)
    except Exception as error:
        _say(f"error: The {common.name} ends: {type(error).__name__}: {error}")
        if parent.is_alive():
            os.kill(parent.pid, signal.SIGQUIT)
        sys.exit(1)


def _serve(common: Common, stage: _Stage, sockets: Sockets, parent: BaseProcess) -> None:
    transport = transport_named(common.transport)
    received = sent = 0
    received_s = 0.0
    passed: list[Passed] = []

    def send(address: str, message: Message) -> None:
        nonlocal sent
        frame = transport.encode(message)
        if common.is_traced and (rids := getattr(message, "rids", None)):
            passed.append(Passed(rids, received_s, time.monotonic()))
        sockets.send(address, frame)
        sent += 1

    inbox = sockets.receiver(common.address)
    clocked = stage if isinstance(stage, Clocked) else None
    inbox.setsockopt(zmq.RCVTIMEO, _LOOKS_FOR_PARENT_EVERY_MS)
    started_s, started_cpu_s = time.monotonic(), time.process_time()
    message: Message | None = None
    while not isinstance(message, Shutdown):
        if clocked is not None:
            now = time.monotonic()
            if clocked.due_s is not None and clocked.due_s <= now:
                received_s = now
                clocked.step(transport, send)
            inbox.setsockopt(zmq.RCVTIMEO, _wait_ms(clocked.due_s))
        try:
            frame = inbox.recv()
        except zmq.Again:
            if not parent.is_alive():
                return  # it was killed, and nobody else will end this process
            continue
        received_s = time.monotonic()
        message = transport.decode(frame)
        received += 1
        if isinstance(message, FreezeGc):
            gc.collect()
            gc.freeze()
        stage.handle(message, transport, send)
    common.account.send(
        Account(
            name=common.name,
            received=received,
            sent=sent,
            decodes=transport.decodes,
            cpu_s=time.process_time() - started_cpu_s,
            wall_s=time.monotonic() - started_s,
            transport=transport.name,
            splitter=common.splitter,
            splitter_sha256=splitter_sha256(common.splitter),
            shared_sha256=shared_sha256(),
            delivered=getattr(stage, "delivered", {}),
            unknown=getattr(stage, "unknown", 0),
            decoded=getattr(stage, "decoded", 0),
            passed=passed,
        )
    )


def _wait_ms(due_s: float | None) -> int:
    if due_s is None:
        return _LOOKS_FOR_PARENT_EVERY_MS
    return min(max(0, math.ceil(1e3 * (due_s - time.monotonic()))), _LOOKS_FOR_PARENT_EVERY_MS)


def _say(sentence: str) -> None:
    print(f"mockengine.fanout: {sentence}", file=sys.stderr, flush=True)
