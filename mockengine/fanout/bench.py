"""The benchmark: arms in shuffled order within paired rounds, every row verified, raw trials written down.

All arms are up for the whole run, and one is active at a time. ``reference-again`` has the splitter of ``reference``:
what these two differ by is noise. Statistics are made of raw.jsonl by ``python -m reports.rounds``.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import random
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
import zmq

from mockengine.fanout.measuring import Arm, Command, Trial, run_arm
from mockengine.fanout.sources import shared_sha256, splitter_sha256
from mockengine.fanout.stages import Account
from mockengine.fanout.streams import TOKENS
from mockengine.fanout.transport import TransportName

ARMS = {"reference": "reference", "reference-again": "reference", "reuse": "reuse", "sliced-once": "sliced-once"}
PUBLISHED = ("reference", "reuse")  # the arms of the published figures
REPETITIONS = 3
_WARM_UP = -1
ORDER_SEED = 20261002  # of the published protocol
_OPAQUE_FIELDS = 2
# How often a splitter unwraps a field of a batch of n rows.
_DECODES: dict[str, Callable[[int], int]] = {
    "reference": lambda rows: rows,
    "reuse": lambda rows: min(rows, 2),
    "sliced-once": lambda rows: min(rows, 1),
}


class BenchError(Exception):
    """The benchmark is worth nothing; the text is a sentence."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is measured: so many rounds after a warm-up, of batches of each size, with and without opaque metadata."""

    transport: TransportName
    rounds: int
    rows: Sequence[int]
    arms: Sequence[str]
    detokenizers: int

    @property
    def cells(self) -> list[tuple[int, bool]]:
        return [(rows, is_rich) for rows in self.rows for is_rich in (False, True)]


def run(plan: Plan, output: Path) -> dict[str, Any]:
    """Measure, and write raw.jsonl and result.json into a new folder; gives what result.json says.

    Raises BenchError when rows, hashes or counts are not what they must be, FileExistsError for a folder that exists.
    """
    output.mkdir(parents=True)
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # inherited by what is started from here
    output_rows, fence_rows = dict.fromkeys(plan.arms, 0), dict.fromkeys(plan.arms, 0)
    with _Arms(plan) as arms, (output / "raw.jsonl").open("wb") as raw:
        order = random.Random(ORDER_SEED)
        for cell_number, (rows, is_rich) in enumerate(plan.cells):
            cell = f"{rows} rows, {'metadata' if is_rich else 'plain'}"
            print(f"{plan.transport}: {cell} ({cell_number + 1} of {len(plan.cells)})", file=sys.stderr, flush=True)
            for number in range(_WARM_UP, plan.rounds):
                names = list(plan.arms)
                order.shuffle(names)
                for name in names:
                    trials = arms.ask(name, Command(rows, is_rich, number, REPETITIONS))
                    for trial in trials:
                        output_rows[name] += trial.output_rows
                        fence_rows[name] += trial.fence_rows
                        line = {"cell": cell, "arm": name, "round": number} | msgspec.to_builtins(trial)
                        raw.write(msgspec.json.encode(line) + b"\n")
        accounts = arms.end()
    check(plan, accounts, output_rows)
    result = {
        "plan": msgspec.to_builtins(plan),
        "repetitions": REPETITIONS,
        "output_rows": output_rows,
        "fence_rows": fence_rows,
        "decodes": {name: {one.name: one.decodes for one in of_arm} for name, of_arm in accounts.items()},
        "decodes_of_32_rows": {name: _decodes_of(name, plan.transport, 32) for name in plan.arms},
        "splitter_sha256": {name: splitter_sha256(ARMS[name]) for name in plan.arms},
        "shared_sha256": shared_sha256(),
        "python": platform.python_version(),
        "machine": f"{platform.platform()}, {os.cpu_count()} cores",
        "zeromq": zmq.zmq_version(),
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "scope": "one sender, one machine, closed loop; no model, GPU or HTTP",
    }
    (output / "result.json").write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")
    return result


class _Arms:
    """The process of each arm, all up for the length of the block."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._links: dict[str, tuple[BaseProcess, Connection]] = {}

    def __enter__(self) -> Self:
        context = multiprocessing.get_context("spawn")
        for name in self._plan.arms:
            ours, theirs = context.Pipe()
            arm = Arm(name, ARMS[name], self._plan.transport, self._plan.detokenizers)
            process = context.Process(target=run_arm, args=(theirs, arm), name=name)
            process.start()
            theirs.close()
            self._links[name] = (process, ours)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for process, link in self._links.values():
            link.close()  # which ends an arm that is still waiting for a command
            process.join(10)
            if process.is_alive():
                process.kill()

    def ask(self, name: str, command: Command) -> list[Trial]:
        """Raises BenchError."""
        trials: list[Trial] = self._answer(name, command)
        return trials

    def end(self) -> dict[str, list[Account]]:
        """The accounts of each arm's processes. Raises BenchError."""
        return {name: self._answer(name, None) for name in self._links}

    def _answer(self, name: str, command: Command | None) -> Any:
        link = self._links[name][1]
        try:
            link.send(command)
            answer = link.recv()
        except (EOFError, OSError):
            answer = f"The arm {name} died; what it printed says why."
        if isinstance(answer, str):
            raise BenchError(answer)
        return answer


def check(plan: Plan, accounts: dict[str, list[Account]], output_rows: dict[str, int]) -> None:
    """Raises BenchError unless all processes ran the code and transport they should have, and counts are exact."""
    hashes: dict[str, str] = {}
    for name, of_arm in accounts.items():
        for one in of_arm:
            ours = (plan.transport, splitter_sha256(ARMS[name]), shared_sha256())
            if (one.transport, one.splitter_sha256, one.shared_sha256) != ours:
                raise BenchError(f"The {one.name} of arm {name} ran other code or transport than this process.")
        hashes[ARMS[name]] = of_arm[0].splitter_sha256
    if len(set(hashes.values())) < len(hashes):
        raise BenchError("Two arms have the same splitter code; what they differ by would be noise.")
    streams = (plan.rounds + 1) * REPETITIONS * len(TOKENS)
    for name, count in output_rows.items():
        if count != (expected := 2 * sum(plan.rows) * streams):
            raise BenchError(f"The arm {name} delivered {count} rows; {expected} were sent.")
        # One process splits whole batches; after a router, detokenizers only see batches of one row.
        splitting, rest = accounts[name][0].decodes, sum(one.decodes for one in accounts[name][1:])
        whole = streams * sum(_decodes_of(name, plan.transport, rows) for rows in plan.rows)
        single = streams * sum(plan.rows) * _decodes_of(name, plan.transport, 1)
        if (splitting, rest) != (whole, single if plan.detokenizers > 1 else 0):
            raise BenchError(
                f"The arm {name} unwrapped fields {splitting} + {rest} times, where {whole} + {single} are due."
            )


def _decodes_of(arm: str, transport: TransportName, rows: int) -> int:
    """How often all opaque fields of a rich batch are unwrapped."""
    return _OPAQUE_FIELDS * _DECODES[ARMS[arm]](rows) if transport == "msgpack" else 0


def summary(result: dict[str, Any]) -> str:
    """The counts, in a few lines."""
    pair = [name for name in PUBLISHED if name in result["output_rows"]]
    counts = [sum(result[kind][name] for name in pair) for kind in ("output_rows", "fence_rows")]
    decodes = ", ".join(f"{name} {count}" for name, count in result["decodes_of_32_rows"].items())
    return (
        f"{' and '.join(pair)}: {counts[0]:,} output rows and {counts[1]:,} fence rows verified; "
        f"all arms {sum(result['output_rows'].values()):,} and {sum(result['fence_rows'].values()):,}\n"
        f"decodes of a batch of 32 rows over {result['plan']['transport']}: {decodes}"
    )
