"""One worker process's part of a run: its share of the futures and what its users share."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path
from typing import NamedTuple

import gevent
from gevent.event import Event
from gevent.lock import BoundedSemaphore
from gevent.pool import Group

from locustfiles.arrivals import CLOSED, schedule
from locustfiles.futures_log import FuturesLog, log_path
from locustfiles.ledger import End, Ledger, share
from locustfiles.lengths import JobLengths, parse_lengths
from locustfiles.measures import Measures, UseMeter, WorkerReport
from locustfiles.pacing import Places, Timetable
from locustfiles.protocols.choice import protocol_named
from locustfiles.protocols.interface import Protocol
from locustfiles.real_sdk.process import RealSdk
from locustfiles.settings import Settings, connections, sources
from locustfiles.source_addresses import ephemeral_ports
from locustfiles.stages import length_s, outstanding_at
from locustfiles.transport import ConnectionFailedError, Transport
from locustfiles.verification import CorpusVerifier, ShapeVerifier, Verifier, sample_response
from mockengine.corpus import Corpus

# Tens of thousands of live greenlets make the collector's full passes long; what a future leaves behind is freed by
# reference counts alone, so only young objects are looked at, a few at a time.
GC_THRESHOLDS = (5_000, 10, 1_000)

# So many futures without a result in the beginning are no accident.
CONTRACT_TRIES = 3

# How often a number outstanding that changes is followed.
STAGE_STEP_S = 0.1


class Start(NamedTuple):
    """A future that is to start now. due_s: its intended start, of CLOCK_MONOTONIC; None in closed arrivals."""

    number: int
    due_s: float | None


class WorkerRun:
    """Worker ``index`` of ``workers``: users take futures from it until its share is done or it is told to drain.

    run_dir: the run's folder, or where this worker's part of it is to be.
    """

    def __init__(self, settings: Settings, index: int, workers: int, run_dir: Path) -> None:
        self.settings = settings
        self.protocol = protocol_named(settings.protocol)
        self.preset = settings.preset
        self.ledger = Ledger(share(settings.requests, workers, index))
        self.measures = Measures()
        self.use = UseMeter()
        self.verifier = _verifier(settings, self.protocol)
        self.greenlets = Group()
        outstanding = share(settings.outstanding, workers, index)
        self.transport = Transport(
            settings.target_url,
            connections=connections(settings, outstanding),
            sources=sources(settings, ephemeral_ports()),
            headers={"User-Agent": "repoll", "X-API-Key": os.environ.get("TINKER_API_KEY", "tml-repoll")},
        )
        self.index = index
        self._fatal: str | None = None
        self.real_sdk = (
            RealSdk(settings.target_url, settings.model, run_dir / "logs" / f"real-sdk-{index}.log", self.fail)
            if settings.real_sdk_percent
            else None
        )
        self._log = FuturesLog(log_path(run_dir, workers, index), self.fail) if settings.futures_log else None
        self._workers = workers
        scheduled = schedule(settings.arrivals, settings.stages, settings.requests, settings.seed)
        self._timetable = Timetable(scheduled.share(workers, index)) if scheduled else None
        self._lengths = (scheduled.lengths if scheduled else None) or parse_lengths(
            settings.lengths, settings.prompt_tokens, settings.max_tokens, settings.seed
        )
        self._turn = BoundedSemaphore()
        self._places = Places(outstanding)
        self._outstanding_cap = outstanding
        self._draining = False
        self._all_ended = Event()
        self._not_results = 0
        if self.ledger.size == 0:
            self._set_all_ended()
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        if settings.stages and settings.arrivals == CLOSED:
            self.greenlets.spawn(self._follow_stages)

    def next_future(self) -> Start | None:
        """The next future, now outstanding; waits for a free place and for its time. None when there are no more.

        Users take turns, so that one waits for the next future's time and the others for theirs to wait.
        """
        with self._turn:
            self._places.take()
            due_s = None
            if self._timetable is not None and not self._all_begun:
                due_s = self._timetable.wait(self.ledger.submitted)
            if self._draining or self._all_begun:
                self._places.give_back()
                return None
            number = self.ledger.begin()
            if self._log is not None:
                self._log.begun(self._in_run(number), due_s)
        if not self.settings.stages and (due_s is not None or self.ledger.outstanding == self._outstanding_cap):
            self.use.mark_steady()
        if self._all_begun:
            self.use.mark_drain()
        return Start(number, due_s)

    @property
    def _all_begun(self) -> bool:
        return self.ledger.submitted == self.ledger.size

    def _follow_stages(self) -> None:
        """Keep as many places as the stages say, this worker's share of them, and end with them."""
        stages = self.settings.stages
        started_s = time.monotonic()
        while not self._draining and (at_s := time.monotonic() - started_s) < length_s(stages):
            self._places.resize(share(outstanding_at(stages, at_s), self._workers, self.index))
            gevent.sleep(STAGE_STEP_S)
        self.drain()

    def job(self, number: int) -> tuple[int, JobLengths]:
        """Seed and lengths of this worker's future ``number``."""
        in_run = self._in_run(number)
        return self.settings.seed + in_run, self._lengths.of(in_run)

    def is_real_sdks(self, number: int) -> bool:
        """Whether this worker's future ``number`` is one for the real SDK: so many of each hundred, evenly."""
        percent = self.settings.real_sdk_percent
        return number * percent % 100 < percent

    def _in_run(self, number: int) -> int:
        """Its number among those of all workers, to whom futures are dealt in turn."""
        return number * self._workers + self.index

    def accepted(self, number: int, request_id: str) -> None:
        """The server gave future ``number`` this id."""
        self.ledger.accepted(request_id)
        if self._log is not None:
            self._log.accepted(self._in_run(number))

    def received(self, number: int, result_bytes: int) -> None:
        """Future ``number`` has got a result, right or wrong."""
        self.measures.delivered_bytes += result_bytes
        if self._log is not None:
            self._log.result(self._in_run(number), result_bytes)

    def end(self, number: int, end: End) -> None:
        self.ledger.end(number, end)
        if self.is_real_sdks(number):
            self.measures.real_sdks_end(end.name.lower())
        if self._log is not None:
            self._log.ended(self._in_run(number), end, self.ledger.polls_of(number))
        self._places.give_back()
        if self.ledger.outstanding == 0 and (self._draining or self._all_begun):
            self._set_all_ended()

    def _set_all_ended(self) -> None:
        """The log is whole before anybody hears of the end."""
        if self._log is not None:
            self._log.close()
        self._all_ended.set()

    def fail(self, reason: str) -> None:
        """This worker can't go on."""
        self._fatal = self._fatal or reason

    def broken_contract(self, detail: str) -> None:
        """A future ended with a 200 that holds no result. When the first few all do, the others need not be tried."""
        self._not_results += 1
        if self._not_results >= CONTRACT_TRIES and not self.ledger.counts().delivered:
            self.fail(
                f"The contract is broken: the first {self._not_results} futures were answered 200, with no result that "
                f"this client can read: {detail[:200]!r}."
            )

    def _look_for_the_target(self) -> None:
        gone_s = self.transport.failing_for_s
        if gone_s >= self.settings.target_timeout_s and not self.finished:
            self.fail(
                f"The target is gone: every connection to {self.settings.target_url} has failed for {gone_s:.0f} s. "
                "Where it may be away for longer, raise --target-timeout."
            )

    def own_limit(self, error: ConnectionFailedError) -> None:
        """What this process ran out of says nothing of the target."""
        if error.own_limit is not None:
            self.measures.error(error.own_limit, str(error))

    def drain(self) -> None:
        """Begin no more futures."""
        self._draining = True
        if self._timetable is not None:
            self._timetable.stop()
        self._places.resize(self._outstanding_cap)  # nobody is left waiting for a stage that will not come
        self.use.mark_drain()
        if self.ledger.outstanding == 0:
            self._set_all_ended()

    def finish(self, timeout_s: float) -> None:
        """Wait until all that has begun has ended, timeout_s at most; the rest is abandoned."""
        self.drain()
        self._all_ended.wait(timeout_s)
        self.greenlets.kill()
        for number in self.ledger.still_outstanding():
            self.end(number, End.ABANDONED)
        self._set_all_ended()
        self.use.stop()
        if self.real_sdk is not None:
            self.real_sdk.stop()
        self.transport.close()

    @property
    def finished(self) -> bool:
        return self._all_ended.is_set()

    def wait_until_finished(self, timeout_s: float) -> None:
        self._all_ended.wait(timeout_s)

    def report(self) -> WorkerReport:
        self._look_for_the_target()
        return self.measures.report(
            self.index,
            self.ledger.counts(),
            self.ledger.outstanding,
            self.ledger.accepted_submits,
            self.use,
            self.finished,
            self._fatal,
        )


def _verifier(settings: Settings, protocol: Protocol | None) -> Verifier:
    read = sample_response if protocol is None else protocol.sample
    if settings.corpus is None:
        return ShapeVerifier(read)
    return CorpusVerifier(Corpus(settings.corpus.profile, settings.corpus.seed), read)


_current: WorkerRun | None = None


def begin_run(run: WorkerRun) -> None:
    """From now on, users in this process work for ``run``."""
    global _current
    _current = run


def current_run_or_none() -> WorkerRun | None:
    return _current


def current_run() -> WorkerRun:
    """The run that users in this process work for. Raises RuntimeError outside a test."""
    if _current is None:
        raise RuntimeError("no test has been started in this process")
    return _current
