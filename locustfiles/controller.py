"""One run, seen from the process that leads it: starts what is needed, follows the workers, ends and judges the run."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Literal, NamedTuple, cast

import gevent
from gevent.event import AsyncResult, Event

from locustfiles import facts, preflight
from locustfiles.measures import Totals, WorkerReport, given_up, merged_histograms, total
from locustfiles.processes import ProcessError, kill_fork
from locustfiles.settings import Settings, default_run_dir
from locustfiles.stack import Stack
from reports import formats
from reports.aborting import stopped_by
from reports.conclude import conclude
from reports.restarts import RestartWatch
from reports.run_folder import RunFolder, RunFolderError
from reports.schema import Ended, InjectedFault, LoadFacts, ResourceRow, RunDocument, RunEvent, TimelineRow

TICK_S = 1.0
CHECKPOINT_EVERY_TICKS = 5
LAST_REPORTS_WITHIN_S = 10.0  # of the end of the drain
MAX_EVENTS = 1000  # a run of days whose engine restarts each minute has more, and nobody reads them
RUN_TIME_SLACK_S = 1.0  # of timers that are not ours
RUNS = Path("runs")


class Tick(NamedTuple):
    """What is known of a run once a second.

    reported_s: when the workers said it, on average, of the monotonic clock. resource: the observer's latest sample;
    None before its first.
    """

    previous: TimelineRow | None
    row: TimelineRow
    reported_s: float
    resource: ResourceRow | None
    reports: Collection[WorkerReport]


class Controller:
    """A run from its folder to its verdict.

    begin_drain(timeout_s): tells all workers to submit nothing more, and to abandon what is still outstanding after
    timeout_s. stop_test(): stops Locust's test, which in turn calls ``finish``. show(tick): tells a person how far the
    run is. run_time_s: --run-time, after which a run is complete whatever its count. command: what repeats it.

    Making one starts the run's processes. Raises PreflightError, RunFolderError and ProcessError.
    """

    def __init__(
        self,
        settings: Settings,
        workers: int,
        *,
        begin_drain: Callable[[float], None],
        stop_test: Callable[[], None],
        show: Callable[[Tick], None] | None,
        run_time_s: float | None,
        command: str,
    ) -> None:
        self._settings = settings
        self._workers = workers
        self._begin_drain = begin_drain
        self._stop_test = stop_test
        self._show = show
        self._run_time_s = run_time_s
        self._command = command
        self._started_utc = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        preflight.check(settings)
        default = _unused(default_run_dir(RUNS, self._started_utc, settings.run_name))
        self.folder = RunFolder.create(Path(settings.run_dir) if settings.run_dir else default)
        self._reports: dict[int, WorkerReport] = {}
        self._cut_reason: str | None = None
        self._abort_reason: str | None = None
        self._notes: list[str] = []
        self._events: list[RunEvent] = []
        self._injected: list[InjectedFault] | None = None
        self._engine_held = settings.hold_engine
        self._hurry = Event()
        self._ending = self._finishing = False
        self._drains_until_s = self._settles_until_s = -math.inf
        self._drained = Event()
        self._document: AsyncResult[RunDocument] = AsyncResult()
        self._started_s = self._made_s = time.monotonic()
        self._ended_s: float | None = None
        self.folder.checkpoint(self._facts(None))
        self._stack = Stack(settings, self.folder)
        self._first_resource = self.folder.last_resource()
        self._started_s = time.monotonic()  # the processes are up: from here on it counts
        self._heard_s = dict.fromkeys(range(workers), self._started_s)
        self._greenlet = gevent.spawn(self._keep_records)

    @property
    def document(self) -> RunDocument | None:
        """The verdict; None until there is one."""
        return self._document.value

    @property
    def draining(self) -> bool:
        """Whether the run has been told to end and has no verdict yet."""
        return self._finishing and self.document is None

    @property
    def waits_for(self) -> str:
        """What keeps a run that has been told to end from its verdict, a sentence or two; empty when nothing does."""
        if not self.draining:
            return ""
        now_s = time.monotonic()
        outstanding = self._totals().outstanding
        if now_s < self._drains_until_s and outstanding:
            left = formats.duration(self._drains_until_s - now_s)
            return f"Draining: {formats.count(outstanding)} futures are left, for up to {left}."
        if now_s < self._settles_until_s:
            return f"The target is watched for {formats.duration(self._settles_until_s - now_s)} more."
        return "The reports are being written."

    @property
    def started_s(self) -> float:
        """The start of the run, of the monotonic clock."""
        return self._started_s

    @property
    def events(self) -> list[RunEvent]:
        """What has happened so far, the oldest first."""
        return self._events

    def note_event(self, kind: Literal["fault", "restart", "engine", "drain"], text: str) -> None:
        """Something has just happened that the run folder and the charts should show, up to MAX_EVENTS of them."""
        if len(self._events) >= MAX_EVENTS:
            return
        if len(self._events) == MAX_EVENTS - 1:
            text += " No more events are kept."
        self._events.append(RunEvent(monotonic_s=time.monotonic(), unix_s=time.time(), kind=kind, text=text))

    def receive(self, report: WorkerReport) -> None:
        """A worker's latest report; it replaces the one before. After the drain it comes too late."""
        if self._drained.is_set():
            return
        self._reports[report.worker] = report
        self._heard_s[report.worker] = time.monotonic()
        if self._ended_s is None and self._all_workers_finished():
            self._ended_s = time.monotonic()  # not when the next tick finds it

    def _totals(self) -> Totals:
        return total(self._reports.values())

    def _keep_records(self) -> None:
        try:
            self._follow()
        except (RunFolderError, ProcessError) as error:  # a full disk, or an engine that stays held
            self._cut_reason = str(error)
            self._end_test()

    def _end_test(self) -> None:
        if not self._ending:
            self._ending = True
            gevent.spawn(self._stop_test)

    def _follow(self) -> None:
        """Once a second: a row of the timeline, a line for the user, and whether the run is over."""
        previous: TimelineRow | None = None
        ticks = 0
        restarts = RestartWatch()
        with self.folder.timeline_writer() as timeline:
            while not self._drained.wait(max(0.0, self._started_s + ticks * TICK_S - time.monotonic())):
                totals = self._totals()
                row = facts.timeline_row(totals, time.monotonic(), time.time())
                timeline.write(row)
                resource = self.folder.last_resource()
                for sentence in restarts.seen(resource) if resource else ():
                    self.note_event("restart", sentence)
                self._show_row(previous, row, resource)
                if ticks % CHECKPOINT_EVERY_TICKS == 0:
                    self._checkpoint()
                if self._engine_held and facts.all_accepted(totals, self._settings):
                    self._release_engine(totals)
                if not self._ending and self._over():
                    self._end_test()
                previous = row
                ticks += 1
            row = facts.timeline_row(self._totals(), time.monotonic(), time.time())
            timeline.write(row)
            self._show_row(previous, row, self.folder.last_resource())

    def _show_row(self, previous: TimelineRow | None, row: TimelineRow, resource: ResourceRow | None) -> None:
        if self._show is not None:
            self._show(Tick(previous, row, self._reported_s(), resource, self._reports.values()))

    def _checkpoint(self) -> None:
        now = self._facts(None)
        self.folder.checkpoint(now)
        last = self.folder.last_resource()
        observed = [row for row in (self._first_resource, last) if row is not None]
        if not self._ending and (broken := stopped_by(now, observed)) is not None:
            self._abort_reason = f"The run was stopped after {now.duration_s:.0f} s, as {broken}"
            self._end_test()

    def _release_engine(self, totals: Totals) -> None:
        self._engine_held = False
        self._notes.append(facts.held_note(totals, time.monotonic() - self._started_s, self.folder.resources()))
        self._stack.release_engine()
        self.note_event("engine", "The engine was let go.")

    def _over(self) -> bool:
        """Whether nothing more is to come; when that is before its time, the reason is kept."""
        self._cut_reason = (
            next((report.fatal for report in self._reports.values() if report.fatal), None)
            or self._stack.obituary()
            or next((self._silence_of(worker) for worker in sorted(self._unfinished()) if self._silent(worker)), None)
        )
        time_over = self._run_time_s is not None and time.monotonic() - self._started_s >= self._run_time_s
        return self._cut_reason is not None or time_over or self._all_workers_finished()

    def _unfinished(self) -> set[int]:
        """Workers that have not said that nothing more will come."""
        return set(range(self._workers)) - {worker for worker, report in self._reports.items() if report.finished}

    def _all_workers_finished(self) -> bool:
        return not self._unfinished()

    def _reported_s(self) -> float:
        """Of those workers that still report; now, when there are none."""
        heard_s = [self._heard_s[worker] for worker in self._unfinished()]
        return sum(heard_s) / len(heard_s) if heard_s else time.monotonic()

    def _silent(self, worker: int) -> bool:
        return time.monotonic() - self._heard_s[worker] > self._settings.worker_timeout_s

    def _silence_of(self, worker: int) -> str:
        silent_s = time.monotonic() - self._heard_s[worker]
        return f"Load worker {worker} has said nothing for {silent_s:.0f} s: it has died, or hangs, or is cut off."

    def _give_up_on(self, workers: set[int]) -> None:
        """These will not report any more: their last reports count, with what was outstanding then as abandoned."""
        for worker in sorted(workers):
            silence = self._silence_of(worker)
            self._cut_reason = self._cut_reason or silence
            report = self._reports.get(worker)
            if report is None:
                self._notes.append(f"{silence} It never reported, and nothing that it did is counted.")
                continue
            self._reports[worker] = given_up(report)
            self._notes.append(
                f"{silence} The {report.outstanding:,} futures outstanding in its last report count as abandoned; "
                "what it did later is not counted."
            )
            kill_fork(report.pid)

    def finish(self) -> RunDocument:
        """Drain, stop what was started, judge. A second call meanwhile ends the drain and waits for the first.

        Raises RunFolderError when the verdict can't be written.
        """
        if self._finishing:
            self._hurry.set()
            return cast(RunDocument, self._document.get())
        self._finishing = self._ending = True
        if self._abort_reason is not None:
            self._drain(0.0)
        elif self._cut_reason is None:
            reason = self._reason_of_stop()
            self._drain(self._settings.drain_s)
            if len(self._unfinished()) < self._workers:  # Locust stops a test by itself when all are missing
                self._cut_reason = self._cut_reason or reason
        else:  # something has died, and what is outstanding will not end
            self._drain(0.0)
        self._ended_s = self._ended_s or time.monotonic()
        if self._cut_reason is None and self._abort_reason is None:
            self._settle()
        self._drained.set()
        self._give_up_on(self._unfinished())
        self._greenlet.join()
        if self._settings.real_sdk_percent:
            self._notes.append(facts.real_sdk_note(self._totals(), self._settings.real_sdk_percent))
        self._injected = self._stack.injected_faults()
        self._stack.stop()
        try:
            document = conclude(self.folder, self._facts(self._how_it_ended()))
        except RunFolderError as error:
            self._document.set_exception(error)
            raise
        self._document.set(document)
        return document

    def _how_it_ended(self) -> Ended:
        if self._cut_reason is not None:
            return "cut"
        return "complete" if self._abort_reason is None else "aborted"

    def _reason_of_stop(self) -> str | None:
        """Why a run that is being stopped is cut short; None when it has done what it was asked to do."""
        elapsed_s = time.monotonic() - self._started_s
        # The timer of Locust's web UI starts with the making of this.
        since_made_s = time.monotonic() - self._made_s
        on_time = self._run_time_s is not None and since_made_s >= self._run_time_s - RUN_TIME_SLACK_S
        if on_time or self._all_workers_finished():
            return None
        totals = self._totals()
        return (
            f"The run was stopped after {elapsed_s:.0f} s, when {totals.futures.submitted} of "
            f"{self._settings.requests} futures had been submitted and {totals.outstanding} were outstanding."
        )

    def _drain(self, timeout_s: float) -> None:
        """Wait until every worker has finished, timeout_s and a little at most; a second Ctrl-C ends the wait."""
        if not self._all_workers_finished():
            self.note_event("drain", "The run was told to end, and drains.")
        self._drains_until_s = time.monotonic() + timeout_s
        self._begin_drain(timeout_s)
        try:
            if self._engine_held and timeout_s:  # or nothing that is outstanding could end
                self._release_engine(self._totals())
            self._wait_for_workers(timeout_s + LAST_REPORTS_WITHIN_S)
        except KeyboardInterrupt:
            self._hurry.set()
        except ProcessError as error:
            self._cut_reason = str(error)
            self._hurry.set()
        if self._hurry.is_set():
            self._begin_drain(0.0)
            self._hurry.clear()
            self._wait_for_workers(LAST_REPORTS_WITHIN_S)

    def _settle(self) -> None:
        """Let the observer see what the target gives back when it has nothing more to do; Ctrl-C ends the wait."""
        self._settles_until_s = time.monotonic() + self._settings.settle_s
        with contextlib.suppress(KeyboardInterrupt):
            self._hurry.wait(self._settings.settle_s)

    def _wait_for_workers(self, timeout_s: float) -> None:
        """For those that still speak."""
        deadline_s = time.monotonic() + timeout_s
        while not all(self._silent(worker) for worker in self._unfinished()):
            if time.monotonic() >= deadline_s or self._hurry.wait(0.1):
                return

    def _facts(self, ended: Ended | None) -> LoadFacts:
        totals = self._totals()
        return LoadFacts(
            name=self._settings.run_name,
            command=self._command,
            started_utc=self._started_utc,
            started_monotonic_s=self._started_s,
            duration_s=(self._ended_s or time.monotonic()) - self._started_s,
            workload=facts.workload(self._settings),
            target=facts.target(self._settings),
            engine=facts.engine(self._settings),
            futures=totals.futures,
            polls=totals.polls,
            errors=totals.errors,
            histograms=merged_histograms(self._reports.values()),
            workers=[self._reports[worker].use for worker in sorted(self._reports)],
            verification="shape" if self._settings.corpus is None else "corpus",
            ended=ended,
            cut_reason=self._cut_reason or self._abort_reason,
            notes=self._notes,
            injected=self._injected,
            thresholds=self._settings.thresholds,
            events=list(self._events),
        )


def _unused(path: Path) -> Path:
    """The path, or with a number after it: two runs may begin within a second, where the first was refused."""
    if not path.exists():
        return path
    return next(other for number in count(2) if not (other := path.with_name(f"{path.name}-{number}")).exists())
