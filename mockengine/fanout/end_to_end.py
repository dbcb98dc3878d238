"""Requests over HTTP through a whole engine with each way of splitting: what the saving is of a served request's time.

Each trial starts an engine whose scheduler makes a batch every so often, waiting for nobody, and sends waves of as many
requests as a batch has rows, each answered in so many steps. What an arm saves shows as delay of rows while the process
that splits batches has time to spare (``busy`` below 1), and as time between tokens once it has not.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import msgspec

from mockengine.fanout.bench import ARMS, BenchError
from mockengine.fanout.journeys import EndToEndTrial, Wave, trial
from mockengine.fanout.serving import StageTimes
from mockengine.fanout.sweep import Plan, SweepFolder
from mockengine.fanout.transport import TransportName
from mockengine.testing import EngineError, running

# Some twenty times as long as a trial of the longest cell takes; one that needs more has come to a stop.
_PATIENCE_S = 300.0


class Cell(msgspec.Struct, frozen=True, kw_only=True):
    """rows: requests at once. steps: of an answer, each a token. waves: after one that warms up."""

    transport: TransportName
    rows: int
    interval_s: float
    steps: int
    waves: int
    detokenizers: int
    http_workers: int

    def __str__(self) -> str:
        return f"{self.rows} rows every {1e3 * self.interval_s:g} ms"


def run(cells: Sequence[Cell], rounds: int, output: Path) -> None:
    """Measure all arms in each cell, in shuffled order within rounds; a folder of the same sweep is gone on with.

    Raises BenchError for another folder, or at the end, when trials failed.
    """
    named = {str(cell): cell for cell in cells}
    plan = Plan(cells={name: msgspec.to_builtins(cell) for name, cell in named.items()}, arms=list(ARMS), rounds=rounds)
    folder = SweepFolder(output, plan)
    total = rounds * len(plan.cells) * len(plan.arms)
    missing = folder.missing()
    failed = 0
    for number, place in enumerate(missing):
        left_s = folder.left_s(missing[number:])
        left = "" if left_s is None else f"; {_rounded(left_s)} left"
        print(
            f"trial {total - len(missing) + number + 1} of {total}: round {place.round + 1} of {rounds}, {place.cell}, "
            f"{place.arm}{left}",
            file=sys.stderr,
            flush=True,
        )
        started_s = time.monotonic()
        try:
            measured = measure(named[place.cell], ARMS[place.arm])
        except Exception as error:  # whatever it is, the trials after it may go well
            reason = str(error) if isinstance(error, BenchError) else f"{type(error).__name__}: {error}"
            print(f"failed: {reason}", file=sys.stderr, flush=True)
            folder.add_failed(place, reason)
            failed += 1
        else:
            folder.add(place, time.monotonic() - started_s, msgspec.to_builtins(measured))
    if failed:
        raise BenchError(
            f"{failed} of {len(missing)} trials failed, as {output / 'failed.jsonl'} says; the same command measures "
            "them again."
        )


def _rounded(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"


def measure(cell: Cell, splitter: str) -> EndToEndTrial:
    """Raises BenchError."""
    interval_us = round(1e6 * cell.interval_s)
    with tempfile.TemporaryDirectory(prefix="fanout-") as folder:
        stage_times = Path(folder, "times.json")
        options = {
            "fanout": splitter,
            "transport": cell.transport,
            "http_workers": cell.http_workers,
            "detokenizers": cell.detokenizers,
            "step_interval": f"{interval_us}us",
            "service_time": f"fixed:{interval_us * cell.steps}us",
            "slots": cell.rows * cell.http_workers,  # the kernel may give one worker all connections
            "body_profile": "seed-equivalent",
            "stage_times": stage_times,
        }
        try:
            with running(**options) as engine:
                waves = asyncio.run(asyncio.wait_for(_waves(engine.url, cell), _PATIENCE_S))
                said = engine.stop()
            return trial(msgspec.json.decode(stage_times.read_bytes(), type=StageTimes), waves, cell.interval_s)
        except (EngineError, aiohttp.ClientError) as error:
            raise BenchError(f"The engine with {splitter} failed: {error}") from error
        except TimeoutError as error:
            raise BenchError(f"The engine with {splitter} has not answered for {_PATIENCE_S:.0f} s.") from error
        except FileNotFoundError as error:
            raise BenchError(f"The engine with {splitter} left no times; it said: {said}") from error


async def _waves(url: str, cell: Cell) -> list[Wave]:
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), timeout=timeout) as session:
        return [await _wave(session, url, cell, number) for number in range(cell.waves + 1)]


async def _wave(session: aiohttp.ClientSession, url: str, cell: Cell, number: int) -> Wave:
    async def ask(row: int) -> float:
        body = {"prompt": [1], "max_tokens": cell.steps, "seed": number * cell.rows + row, "return_token_ids": True}
        started_s = time.monotonic()
        async with session.post(f"{url}/v1/completions", json=body) as answer:
            text = await answer.text()
            if answer.status != 200:  # as the HTTP worker answers what did not come as it was sent
                raise BenchError(f"A request was answered {answer.status}: {text}")
        return time.monotonic() - started_s

    started_s = time.monotonic()
    return Wave(started_s, list(await asyncio.gather(*(ask(row) for row in range(cell.rows)))))
