"""One arm of the benchmark: a pipeline whose HTTP workers are this process' own endpoints, timed on streams.

Inside the timing: the map of routes, encoding and sending, detokenizing, the fan-out, polling, receiving and decoding
rows, unwrapping both opaque fields, and checks of rid and route. Outside: making streams and expected rows, verifying
every row, and the fence, a stream of one plain request an endpoint which shows that nothing was left over.
"""

from __future__ import annotations

import gc
import signal
import tempfile
import time
from multiprocessing.connection import Connection

import msgspec
import numpy as np
import zmq

from mockengine.fanout.batches import FreezeGc, TextBatch
from mockengine.fanout.pipeline import Pipeline, PipelineError
from mockengine.fanout.sockets import Sockets
from mockengine.fanout.streams import Stream, make_stream
from mockengine.fanout.transport import Transport, TransportName, transport_named
from mockengine.fanout.verification import Arrival, WrongRowError, verify

ENDPOINTS = 4
_PATIENCE_MS = 60_000


class Arm(msgspec.Struct, frozen=True):
    """name: of the arm; two arms may have the same splitter, to see what the same differs from itself by."""

    name: str
    splitter: str
    transport: TransportName
    detokenizers: int


class Command(msgspec.Struct, frozen=True):
    """One round of an arm: so many repetitions of a stream of this many rows."""

    rows: int
    is_rich: bool
    round: int
    repetitions: int


class Trial(msgspec.Struct, frozen=True):
    """One repetition. complete_ms: from sending the first batch to the last row of the last one; first_ms: to the first
    row; the others: of rows, each from the sending of its batch, the last row's being the mean over batches.
    """

    repetition: int
    complete_ms: float
    first_ms: float
    row_median_ms: float
    row_p95_ms: float
    row_last_ms: float
    output_rows: int
    fence_rows: int


def stream_seed(rows: int, is_rich: bool, round_number: int, repetition: int) -> int:
    """The same for all arms, and another for every stream. Of the published protocol."""
    return 10_000 + 100 * rows + 100_000 * is_rich + 10 * round_number + repetition


_FENCE_SEED = 1_000_000


def run_arm(link: Connection, arm: Arm) -> None:
    """The life of an arm's process: a list of trials for every command; after None, the accounts of its pipeline.

    A sentence in place of either says what went wrong, and is the last.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent ends this one
    with tempfile.TemporaryDirectory(prefix="fanout-") as folder, Sockets() as sockets:
        endpoints = [f"ipc://{folder}/endpoint{number}" for number in range(ENDPOINTS)]
        inboxes = [sockets.receiver(endpoint) for endpoint in endpoints]
        with Pipeline(
            transport=arm.transport, splitter=arm.splitter, detokenizers=arm.detokenizers, workers=endpoints
        ) as pipeline:
            bench = _Bench(pipeline, inboxes, transport_named(arm.transport))
            pipeline.send(pipeline.entry, FreezeGc())
            gc.collect()
            gc.freeze()
            try:
                while (command := link.recv()) is not None:
                    link.send(bench.trials(command))
                link.send(pipeline.shut_down())
            except (EOFError, BrokenPipeError):
                return  # whoever asked is gone
            except (WrongRowError, PipelineError) as error:
                link.send(f"The arm {arm.name} is wrong: {error}")


class _Bench:
    def __init__(self, pipeline: Pipeline, inboxes: list[zmq.Socket[bytes]], transport: Transport) -> None:
        self._pipeline = pipeline
        self._transport = transport
        self._endpoint_of = {inbox: endpoint for endpoint, inbox in enumerate(inboxes)}
        self._poller = zmq.Poller()
        for inbox in inboxes:
            self._poller.register(inbox, zmq.POLLIN)

    def trials(self, command: Command) -> list[Trial]:
        """Raises WrongRowError for a row that is not as it must be, PipelineError when none comes."""
        done = [self._trial(command, repetition) for repetition in range(command.repetitions)]
        if self._poller.poll(0):
            raise WrongRowError("After the last repetition there was a row too many.")
        return done

    def _trial(self, command: Command, repetition: int) -> Trial:
        seed = stream_seed(command.rows, command.is_rich, command.round, repetition)
        stream = self._stream(command.rows, command.is_rich, seed)
        gc.collect()
        arrivals, sent_s, at_s = self._pass(stream)
        verify(arrivals, stream, ENDPOINTS)
        fence = self._stream(ENDPOINTS, False, seed + _FENCE_SEED)
        fenced, _, _ = self._pass(fence)
        verify(fenced, fence, ENDPOINTS)
        first_s = sent_s[0]
        of_rows_ms = [1e3 * (at - sent_s[arrival.step]) for arrival, at in zip(arrivals, at_s, strict=True)]
        last_ms = [
            max(ms for arrival, ms in zip(arrivals, of_rows_ms, strict=True) if arrival.step == step)
            for step in range(len(sent_s))
        ]
        return Trial(
            repetition=repetition,
            complete_ms=1e3 * (at_s[-1] - first_s),
            first_ms=1e3 * (at_s[0] - first_s),
            row_median_ms=float(np.median(of_rows_ms)),
            row_p95_ms=float(np.percentile(of_rows_ms, 95)),
            row_last_ms=float(np.mean(last_ms)),
            output_rows=len(arrivals),
            fence_rows=len(fenced),
        )

    def _stream(self, rows: int, is_rich: bool, seed: int) -> Stream:
        owners = self._pipeline.workers
        return make_stream(rows, is_rich=is_rich, seed=seed, owners=owners, transport=self._transport)

    def _pass(self, stream: Stream) -> tuple[list[Arrival], list[float], list[float]]:
        """Send each batch when all rows of the one before are there. Arrivals, sending times, times of arrivals."""
        arrivals: list[Arrival] = []
        sent_s: list[float] = []
        at_s: list[float] = []
        for step, batch in enumerate(stream.batches):
            sent_s.append(time.perf_counter())
            endpoint_of_rid = {rid: row % ENDPOINTS for row, rid in enumerate(batch.rids or [])}
            self._pipeline.send(self._pipeline.entry, batch)
            missing = len(endpoint_of_rid)
            while missing:
                ready = self._poller.poll(_PATIENCE_MS)
                if not ready or self._pipeline.is_failed:
                    raise PipelineError(f"{missing} rows of batch {step} never came.")
                for inbox, _ in ready:
                    arrival = self._receive(inbox, step, endpoint_of_rid)
                    at_s.append(time.perf_counter())
                    arrivals.append(arrival)
                missing -= len(ready)
        return arrivals, sent_s, at_s

    def _receive(self, inbox: zmq.Socket[bytes], step: int, endpoint_of_rid: dict[str, int]) -> Arrival:
        message = self._transport.decode(inbox.recv())
        endpoint = self._endpoint_of[inbox]
        if not isinstance(message, TextBatch) or message.rids is None or len(message.rids) != 1:
            raise WrongRowError(f"Endpoint {endpoint} got something that is no row.")
        if endpoint_of_rid.get(message.rids[0]) != endpoint:
            raise WrongRowError(f"Endpoint {endpoint} got a row of {message.rids[0]}, which is not its own.")
        time_stats = self._transport.unwrap(message.time_stats)
        customized_info = self._transport.unwrap(message.customized_info)
        return Arrival(step, endpoint, message, time_stats, customized_info)
