"""The observer: a process of its own that samples target, engine and machine once a second until it is told to stop."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, get_args

import msgspec
import psutil

from reports.processes import ProcessNotFoundError, ProcessSample, ProcessSampler, find_process
from reports.rows import RowWriter
from reports.schema import ResourceRow
from reports.scrape import ENGINE_METRICS, TARGET_METRICS, Canary, Question, canary, scrape

# How much of an interval a sample waits for the answers of servers, and how long the last one waits, twice at most.
_WAIT_SHARE = 0.5
_LAST_WAIT_S = 2.0
_LOOK_EVERY_S = 2.0  # for a target that is gone: with many connections, to find a port's owner takes long

# Every Prometheus value is a float; these are counts.
_WHOLE = frozenset(field.name for field in msgspec.structs.fields(ResourceRow) if int in get_args(field.type))


class Observed(msgspec.Struct, frozen=True, kw_only=True):
    """What to watch. Whatever is None is not watched and leaves its cells empty."""

    target: str | None = None  # as find_process takes it
    target_metrics: str | None = None
    canary: str | None = None
    engine_pid: int | None = None
    engine_metrics: str | None = None


def observe(observed: Observed, out: Path, interval_s: float) -> None:
    """Write a ResourceRow every ``interval_s`` seconds to the new file ``out``, the first one at once.

    Ends at SIGTERM, SIGINT or its parent's death, after a last sample. A target or an engine that goes away leaves its
    cells empty, and the other is watched on. Raises ProcessNotFoundError before the first sample, and RunFolderError.
    """
    stop = _StopSignal()
    sampler = Sampler(observed)
    with RowWriter(out, ResourceRow) as rows:
        started = due = time.monotonic()
        started_cpu_s = time.process_time()
        while not stop.wait_until(due):
            rows.write(sampler.sample(_WAIT_SHARE * interval_s))
            if due == started:
                print(f"observer ready, writing {out}", flush=True)
            due += interval_s
            # After a pause of the whole machine, go on with the schedule instead of making up for it.
            due += max(0.0, (time.monotonic() - due) // interval_s * interval_s)
        rows.write(sampler.last_sample())
    elapsed_s, cpu_s = time.monotonic() - started, time.process_time() - started_cpu_s
    print(f"observed for {elapsed_s:.0f} s, with {100 * cpu_s / elapsed_s:.2f} % of a core", file=sys.stderr)


class Sampler:
    """Makes one row after the other. Raises ProcessNotFoundError when a process is gone from the start."""

    def __init__(self, observed: Observed) -> None:
        self._target = _Target(observed.target) if observed.target is not None else None
        self._engine = ProcessSampler(observed.engine_pid) if observed.engine_pid is not None else None
        pages = ((observed.target_metrics, TARGET_METRICS), (observed.engine_metrics, ENGINE_METRICS))
        self._scrapes = [Question(partial(scrape, url, wanted)) for url, wanted in pages if url]
        self._canary = Question(partial(canary, observed.canary)) if observed.canary else None
        self._canary_failures = 0
        psutil.cpu_percent()  # the first call has nothing to compare with

    def sample(self, wait_s: float) -> ResourceRow:
        """One row, with those answers of the servers that come within ``wait_s`` seconds."""
        now = time.monotonic()
        cells: dict[str, Any] = {"monotonic_s": now, "unix_s": time.time()}
        fresh = [question.begin() for question in self._scrapes]
        if self._canary:
            self._canary.begin()
        cells |= self._target.cells() if self._target else {}
        cells |= _process_cells("engine", self._engine)
        cells["machine_cpu_utilisation"] = psutil.cpu_percent() / 100
        cells["machine_available_bytes"] = psutil.virtual_memory().available
        for question, asked_now in zip(self._scrapes, fresh, strict=True):
            metrics = question.answer_by(now + wait_s)
            if metrics and asked_now:  # a late answer says what was so at another moment than this row's
                cells |= {name: round(value) if name in _WHOLE else value for name, value in metrics.items()}
        if self._canary:  # but a late canary is what the canary is for
            cells |= self._canary_cells(self._canary.answer_by(now + wait_s))
        return ResourceRow(**cells)

    def last_sample(self) -> ResourceRow:
        """A row with the final counts: answers still under way are waited for, and the questions asked once more."""
        deadline_s = time.monotonic() + _LAST_WAIT_S
        for question in self._scrapes:
            question.answer_by(deadline_s)
        return self.sample(_LAST_WAIT_S)

    def _canary_cells(self, answer: Canary | None) -> dict[str, Any]:
        if answer is None:
            return {"canary_failures": self._canary_failures}
        self._canary_failures += answer.failed
        return {"canary_s": answer.seconds, "canary_failures": self._canary_failures}


class _Target:
    """The target's process, which is looked for again when it is gone, unless it is known by its id alone."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._sampler = ProcessSampler(find_process(where))
        self._restarts = 0
        self._look_at = 0.0

    def cells(self) -> dict[str, Any]:
        cells = _process_cells("target", self._sampler)
        if not cells and not self._where.startswith("pid:") and time.monotonic() >= self._look_at:
            self._look_at = time.monotonic() + _LOOK_EVERY_S
            with suppress(ProcessNotFoundError):
                self._sampler = ProcessSampler(find_process(self._where))
                self._restarts += 1
                cells = _process_cells("target", self._sampler)
        return cells | {"target_restarts": self._restarts} if cells else {}


def _process_cells(who: str, sampler: ProcessSampler | None) -> dict[str, Any]:
    sample: ProcessSample | None = sampler.sample() if sampler else None
    if sample is None:
        return {}
    cells = {f"{who}_{name}": value for name, value in sample._asdict().items()}
    return {name: value for name, value in cells.items() if name in ResourceRow.__struct_fields__}


class _StopSignal:
    """Waits that SIGTERM, SIGINT and the death of the parent end."""

    def __init__(self) -> None:
        self._parent = os.getppid()
        self._stopped = False
        self._woken, waker = socket.socketpair()
        waker.setblocking(False)
        self._waker = waker  # kept open: the signal number is written to it
        signal.set_wakeup_fd(waker.fileno())
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._stop)

    def _stop(self, *_: object) -> None:
        self._stopped = True

    def wait_until(self, due_s: float) -> bool:
        """Wait for a moment of the monotonic clock; True when it is time to stop."""
        select.select([self._woken], [], [], max(due_s - time.monotonic(), 0.0))
        return self._stopped or os.getppid() != self._parent
