"""The pipeline under a scheduler that waits for nobody: a batch every so often, and how late each row comes for it.

While the busiest process has time to spare, a saving there only shortens the delay of rows; once it has not
(``busy`` reaches 1), batches queue, and the saving decides how fast tokens come. Delays count from the time at which
the scheduler meant to send, on the monotonic clock that all processes of a machine share.
"""

from __future__ import annotations

import multiprocessing
import random
import signal
import sys
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from mockengine.fanout.batches import Ended, Submitted
from mockengine.fanout.bench import ARMS, ORDER_SEED, BenchError
from mockengine.fanout.journeys import backlogs
from mockengine.fanout.pipeline import Pipeline, PipelineError
from mockengine.fanout.sockets import Sockets
from mockengine.fanout.stages import Account, Delivered
from mockengine.fanout.streams import TOKENS, make_stream, rid_of
from mockengine.fanout.transport import TransportName, transport_named
from mockengine.fanout.vocabulary import text_of

_PATIENCE_S = 120.0


Arrivals = Literal["fixed", "poisson"]
ARRIVALS: tuple[Arrivals, ...] = get_args(Arrivals)


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """rows: of every batch. streams: one after the other, of a batch for each of TOKENS.

    interval_s: between batches, always or on average. seed: of the times of batches.
    """

    transport: TransportName
    rows: int
    streams: int
    interval_s: float
    detokenizers: int
    workers: int
    arrivals: Arrivals = "fixed"
    seed: int = 0

    @property
    def steps(self) -> int:
        return self.streams * len(TOKENS)

    def due_s(self) -> NDArray[np.float64]:
        """When each batch is to be sent, counted from the first."""
        gaps_s = np.full(self.steps - 1, self.interval_s)
        if self.arrivals == "poisson":
            gaps_s = np.random.default_rng(self.seed).exponential(self.interval_s, self.steps - 1)
        return np.concatenate(([0.0], np.cumsum(gaps_s)))


class OpenTrial(msgspec.Struct, frozen=True):
    """Delays of rows in ms. first_row and last_row: medians over batches of the earliest and the latest of each. drain:
    of the very last row. busy: CPU of the process that splits whole batches, as a share of the time between them.
    backlog: the most messages, and for HTTP workers rows, that waited for a kind of process.
    """

    row_p50_ms: float
    row_p95_ms: float
    row_p99_ms: float
    first_row_ms: float
    last_row_ms: float
    drain_ms: float
    busy: float
    scheduler_late_ms: float
    backlog: dict[str, int]


def run(loads: Sequence[Load], rounds: int, output: Path) -> None:
    """Measure all arms under each load, in shuffled order within rounds; writes raw.jsonl into a new folder.

    Raises BenchError when a row is lost, FileExistsError for a folder that exists.
    """
    output.mkdir(parents=True)
    order = random.Random(ORDER_SEED)
    with (output / "raw.jsonl").open("wb") as raw:
        for load in loads:
            cell = f"{load.rows} rows every {1e3 * load.interval_s:g} ms"
            cell += ", Poisson" if load.arrivals == "poisson" else ""
            print(f"{load.transport}: {cell}", file=sys.stderr, flush=True)
            for number in range(rounds):
                of_round = msgspec.structs.replace(load, seed=number)  # all arms of a round have the same times
                names = list(ARMS)
                order.shuffle(names)
                for name in names:
                    line: dict[str, Any] = {"cell": cell, "arm": name, "round": number}
                    raw.write(msgspec.json.encode(line | msgspec.to_builtins(measure(of_round, ARMS[name]))) + b"\n")


def measure(load: Load, splitter: str) -> OpenTrial:
    """Raises BenchError when a row is lost, or the pipeline fails."""
    pipeline = Pipeline(
        transport=load.transport,
        splitter=splitter,
        detokenizers=load.detokenizers,
        workers=load.workers,
        is_traced=True,
    )
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    with pipeline:
        scheduler = context.Process(target=_schedule, args=(theirs, load, pipeline.entry, pipeline.workers))
        scheduler.start()
        try:
            _submit(pipeline, load)
            ours.recv()  # the scheduler has made its batches
            ours.send("go")
            for _ in range(load.rows * load.streams):
                if not isinstance(pipeline.receive(_PATIENCE_S), Ended):
                    raise BenchError("An HTTP worker told something that was not asked for.")
            start_s, late_s = ours.recv()
            accounts = pipeline.shut_down()
        except PipelineError as error:
            raise BenchError(str(error)) from error
        finally:
            scheduler.kill()
            scheduler.join()
    delays_ms = 1e3 * delays_s(load, {rid: one for of in accounts for rid, one in of.delivered.items()}, start_s)
    ready_s = [at for one in accounts for request in one.delivered.values() for at in request.at_s]
    stages = [one for one in accounts if not one.name.startswith("worker")]
    waited = backlogs([start_s + float(at) for at in load.due_s()], stages, ready_s)
    return trial(load, delays_ms, accounts[0], late_s, waited)


def delays_s(load: Load, delivered: dict[str, Delivered], start_s: float) -> NDArray[np.float64]:
    """How long after its batch was due each row was ready: [step, row]. Raises BenchError when a text is not whole."""
    ready_s = np.empty((load.streams, load.rows, len(TOKENS)))
    for stream in range(load.streams):
        for row in range(load.rows):
            request = delivered.get(rid_of(stream, row))
            if request is None or request.text != text_of(TOKENS) or len(request.at_s) != len(TOKENS):
                raise BenchError(f"Request {rid_of(stream, row)} did not get its text once and whole.")
            ready_s[stream, row] = request.at_s
    due_s = start_s + load.due_s()
    delays: NDArray[np.float64] = ready_s.transpose(0, 2, 1).reshape(load.steps, load.rows) - due_s[:, np.newaxis]
    return delays


def trial(
    load: Load, delays_ms: NDArray[np.float64], splitting: Account, late_s: float, backlog: dict[str, int]
) -> OpenTrial:
    p50, p95, p99 = (float(value) for value in np.percentile(delays_ms, [50, 95, 99]))
    return OpenTrial(
        row_p50_ms=p50,
        row_p95_ms=p95,
        row_p99_ms=p99,
        first_row_ms=float(np.median(delays_ms.min(axis=1))),
        last_row_ms=float(np.median(delays_ms.max(axis=1))),
        drain_ms=float(delays_ms[-1].max()),
        busy=splitting.cpu_s / (load.steps * load.interval_s),
        scheduler_late_ms=1e3 * late_s,
        backlog=backlog,
    )


def _submit(pipeline: Pipeline, load: Load) -> None:
    """Each HTTP worker learns which requests are its own."""
    for number, worker in enumerate(pipeline.workers):
        rows = range(number, load.rows, len(pipeline.workers))
        pipeline.send(worker, Submitted([rid_of(stream, row) for stream in range(load.streams) for row in rows]))
    for _ in pipeline.workers:
        pipeline.receive()


def _schedule(link: Connection, load: Load, entry: str, workers: list[str]) -> None:
    """The scheduler's process: everything is encoded beforehand, then sent at its time. Gives start and most late."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the parent ends this one
    transport = transport_named(load.transport)
    frames = [
        transport.encode(batch)
        for seed in range(load.streams)
        for batch in make_stream(load.rows, is_rich=True, seed=seed, owners=workers, transport=transport).batches
    ]
    link.send("ready")
    link.recv()
    late_s = 0.0
    with Sockets() as sockets:
        start_s = time.monotonic() + 0.1
        for frame, at_s in zip(frames, load.due_s().tolist(), strict=True):
            due_s = start_s + at_s
            time.sleep(max(0.0, due_s - time.monotonic()))
            late_s = max(late_s, time.monotonic() - due_s)
            sockets.send(entry, frame)
        link.send((start_s, late_s))
        link.recv()  # until everything has arrived, and this process is ended
