"""An HTTP worker's end of the pipeline: answers asked for, rows taken in, and each answer compared with the corpus."""

from __future__ import annotations

import asyncio
import itertools
import os
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import zmq
from aiohttp import web

from mockengine.corpus import Corpus
from mockengine.fanout.batches import AbortRequest, Generate, Message, TextBatch
from mockengine.fanout.sockets import Sockets
from mockengine.fanout.timing import Timing
from mockengine.fanout.transport import Transport, TransportName, transport_named
from mockengine.fanout.vocabulary import FIRST_OF_CORPUS
from mockengine.stopping import text_of

# Rows taken in at a time, so that the event loop also comes to its other work.
_AT_A_TIME = 200


class WrongAnswerError(Exception):
    """An answer that came otherwise than the scheduler sent it; the text is a sentence."""


class AbortedError(Exception):
    """The scheduler has aborted a request, for it has as many as it takes."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where an HTTP worker stands in a pipeline. step_interval_s: of the scheduler."""

    transport: TransportName
    scheduler: str
    step_interval_s: float
    is_traced: bool = False


class Seen(msgspec.Struct, kw_only=True):
    """What an HTTP worker has seen. ready_s: when each row of a request was ready, in a pipeline that is traced.

    wrong: answers that were not what they had to be. unknown: rows of requests that are not known, or have ended.
    queue_time_s: the longest in the scheduler, as timing objects say. since_sent_s: the longest since the sending of an
    answer, which no timing object on its way knows yet: 0.0.
    """

    process: str
    cpu_s: float
    rows: int = 0
    wrong: int = 0
    aborted: int = 0
    unknown: int = 0
    queue_time_s: float = 0.0
    since_sent_s: float = 0.0
    ready_s: dict[str, list[float]] = {}


@dataclass(slots=True)
class _Open:
    ended: asyncio.Future[None]
    ids: bytearray = field(default_factory=bytearray)  # of 8 bytes
    texts: list[str] = field(default_factory=list)
    has_shape: bool = True  # of the customized info


class Inbox:
    """Asks the scheduler for answers, and waits for their rows. name: of this process; address: where rows come to."""

    def __init__(self, name: str, address: str, place: Place, corpus: Corpus) -> None:
        self._address = address
        self._place = place
        self._corpus = corpus
        self._transport: Transport = transport_named(place.transport)
        self._sockets = Sockets()
        self._open: dict[str, _Open] = {}
        self._numbers = itertools.count()
        self._seen = Seen(process=name, cpu_s=0.0)

    async def run(self, _: web.Application) -> AsyncIterator[None]:
        """For ``cleanup_ctx`` of an application: rows are taken in while it runs."""
        self._inbox = self._sockets.receiver(self._address)
        asyncio.get_running_loop().add_reader(self._inbox.FD, self._take_in)
        yield
        asyncio.get_running_loop().remove_reader(self._inbox.FD)

    def seen(self) -> Seen:
        self._seen.cpu_s = time.process_time()
        return self._seen

    async def generate(self, service_time_s: float, *, seed: int, choices: int, tokens: int) -> None:
        """Wait until all choices have come through the pipeline, in the steps that a service time has room for.

        Raises WrongAnswerError and AbortedError.
        """
        steps = min(max(1, round(service_time_s / self._place.step_interval_s)), tokens)
        rids = [f"{self._seen.process}-{next(self._numbers)}" for _ in range(choices)]
        opened = {rid: _Open(asyncio.get_running_loop().create_future()) for rid in rids}
        self._open |= opened
        try:
            for choice, rid in enumerate(rids):
                self._tell(Generate(rid, self._address, seed, choice, tokens, steps))
            await asyncio.gather(*(one.ended for one in opened.values()))
        finally:
            for rid in rids:
                if self._open.pop(rid, None) is not None:  # the client has gone, or another choice was aborted
                    self._tell(AbortRequest(rid, self._address))
        for choice, one in enumerate(opened.values()):
            self._compare(one, self._corpus.tokens(seed, choice, tokens))

    def _compare(self, one: _Open, tokens: bytes) -> None:
        if not one.has_shape:
            self._seen.wrong += 1
            raise WrongAnswerError("The pipeline delivered a customized info of another shape than the row's tokens.")
        wanted = np.frombuffer(tokens, "<i4")
        found = np.frombuffer(bytes(one.ids), np.int64) - FIRST_OF_CORPUS
        if not np.array_equal(found, wanted) or "".join(one.texts) != text_of(wanted):
            self._seen.wrong += 1
            common = min(len(found), len(wanted))
            first = next(iter(np.flatnonzero(found[:common] != wanted[:common])), common)
            raise WrongAnswerError(
                f"The pipeline delivered {len(found)} tokens where the scheduler sent {len(wanted)}; they are the "
                f"same up to token {first}, and perhaps their text is not."
            )

    def _tell(self, message: Message) -> None:
        self._sockets.send(self._place.scheduler, self._transport.encode(message))

    def _take_in(self) -> None:
        """All that is there, or the socket would not become readable again: it says so once only."""
        for _ in range(_AT_A_TIME):
            try:
                frame = self._inbox.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            try:
                self._handle(self._transport.decode(frame))
            except Exception as error:  # as in any other process of the pipeline: it says why, and ends
                sentence = f"The {self._seen.process} ends: {type(error).__name__}: {error}"
                print(f"mockengine.fanout: error: {sentence}", file=sys.stderr, flush=True)
                os._exit(1)
        asyncio.get_running_loop().call_soon(self._take_in)

    def _handle(self, message: Message) -> None:
        match message:
            case TextBatch():
                timings = self._transport.unwrap(message.time_stats)
                info = self._transport.unwrap(message.customized_info) or {}
                for row, rid in enumerate(message.rids or ()):
                    self._note_times(timings[row])
                    self._take(rid, message, row, [rows[row] for rows in info.values() if row < len(rows)])
            case AbortRequest():
                if (one := self._open.pop(message.rid, None)) and not one.ended.done():
                    self._seen.aborted += 1
                    one.ended.set_exception(AbortedError())

    def _note_times(self, timing: Timing) -> None:
        self._seen.queue_time_s = max(self._seen.queue_time_s, timing.forward_entry_time - timing.queue_entry_time)
        if timing.response_sent_time:
            self._seen.since_sent_s = max(self._seen.since_sent_s, time.monotonic() - timing.response_sent_time)

    def _take(self, rid: str, batch: Any, row: int, infos: list[list[Any] | None]) -> None:
        """infos: of each key, with an entry for each token of the row; None where the row has no such key."""
        one = self._open.get(rid)
        if one is None:
            self._seen.unknown += 1
            return
        self._seen.rows += 1
        one.ids += batch.output_ids[row].tobytes()
        one.texts.append(batch.output_strs[row])
        one.has_shape &= all(info is None or len(info) == len(batch.output_ids[row]) for info in infos)
        if self._place.is_traced:
            self._seen.ready_s.setdefault(rid, []).append(time.monotonic())
        if batch.finished_reasons[row] is not None:
            del self._open[rid]
            if not one.ended.done():
                one.ended.set_result(None)
