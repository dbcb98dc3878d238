"""What one worker process measured, and how the workers' reports add up to the run's figures.

Everything a worker reports is cumulative since the start of the run and replaces its earlier report, so a lost
message loses nothing.
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import gevent
import msgspec
from hdrh.histogram import HdrHistogram

from locustfiles.polling import Cause
from reports.percentiles import decoded
from reports.schema import ErrorExample, FutureCounts, PollCounts, WorkerUse

# Latencies are recorded in microseconds, from 1 us to 24 h, to three significant digits.
HIGHEST_US = 24 * 3600 * 1_000_000
LATENCIES = (
    *("submit", "work", "unfetched", "delivery", "future"),
    *("first_poll", "poll", "session_poll", "lateness", "future_sdk"),
)

# Names of errors may hold words of the server's, which need not be few.
MAX_ERROR_CLASSES = 100
OTHER_ERRORS = "other errors"

LAG_INTERVAL_S = 0.05
SHORTEST_S = 2.0
_MAXRSS_BYTES = 1 if sys.platform == "darwin" else 1024  # getrusage(2): kilobytes everywhere but on macOS


def new_histogram() -> HdrHistogram:
    return HdrHistogram(1, HIGHEST_US, 3)


@contextmanager
def summed(encoded: Iterable[str]) -> Iterator[HdrHistogram]:
    """The sum of encoded histograms, for as long as the context lasts, for the reason that ``decoded`` has."""
    total = new_histogram()
    for text in encoded:
        with decoded(text) as one:
            total.add(one)
    try:
        yield total
    finally:
        total.encoder = None


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True):
    """Everything one worker knows, cumulative. lag_max_s alone is since the previous report.

    pid: of its process. accepted: submits that the target has answered with an id.
    real_sdk: how many of the real SDK's futures ended in which way.
    finished: nothing more will come. fatal: why this worker can't go on, a sentence.
    """

    worker: int
    pid: int
    futures: FutureCounts
    outstanding: int
    accepted: int
    polls: PollCounts
    re_polls_by_cause: dict[str, int]
    errors: list[ErrorExample]
    delivered_bytes: int
    real_sdk: dict[str, int]
    histograms: dict[str, str]
    use: WorkerUse
    lag_max_s: float
    finished: bool
    fatal: str | None


class Measures:
    """Counters, latencies and errors of one worker."""

    def __init__(self) -> None:
        self._latencies = {name: new_histogram() for name in LATENCIES}
        self._polls = 0
        self._re_polls: dict[str, int] = {"timeout": 0, "try_again": 0, "error": 0}
        self._errors: dict[str, tuple[int, str]] = {}
        self._poll_errors: dict[str, int] = {}
        self._real_sdk: dict[str, int] = {}
        self.delivered_bytes = 0

    def latency(self, name: str, seconds: float) -> None:
        self._latencies[name].record_value(max(1, int(seconds * 1e6)))

    def poll(self) -> None:
        self._polls += 1

    def re_poll(self, cause: Cause) -> None:
        self._re_polls[cause] += 1

    def error(self, name: str, example: str) -> str:
        """Count an error of class ``name``; the first example is kept. Names beyond MAX_ERROR_CLASSES share one.

        Returns the name under which it was counted.
        """
        if len(self._errors) >= MAX_ERROR_CLASSES and name not in self._errors:
            name = OTHER_ERRORS
        count, first = self._errors.get(name, (0, example))
        self._errors[name] = (count + 1, first)
        return name

    def poll_error(self, name: str, example: str) -> None:
        """An error of a poll, whether or not the future survives it."""
        name = self.error(name, example)
        self._poll_errors[name] = self._poll_errors.get(name, 0) + 1

    def real_sdks_end(self, end: str) -> None:
        """A future of the real SDK's has ended so."""
        self._real_sdk[end] = self._real_sdk.get(end, 0) + 1

    def poll_counts(self) -> PollCounts:
        return PollCounts(
            total=self._polls,
            re_polls=sum(self._re_polls.values()),
            timeouts=self._re_polls["timeout"],
            try_again=self._re_polls["try_again"],
            errors_by_class=dict(self._poll_errors),
        )

    def report(
        self,
        worker: int,
        futures: FutureCounts,
        outstanding: int,
        accepted: int,
        use: UseMeter,
        finished: bool,
        fatal: str | None,
    ) -> WorkerReport:
        return WorkerReport(
            worker=worker,
            pid=os.getpid(),
            futures=futures,
            outstanding=outstanding,
            accepted=accepted,
            polls=self.poll_counts(),
            re_polls_by_cause=dict(self._re_polls),
            errors=[ErrorExample(name=k, count=n, example=text) for k, (n, text) in self._errors.items()],
            delivered_bytes=self.delivered_bytes,
            real_sdk=dict(self._real_sdk),
            histograms={name: h.encode().decode("ascii") for name, h in self._latencies.items()},
            use=use.use(),
            lag_max_s=use.take_lag_max_s(),
            finished=finished,
            fatal=fatal,
        )


class _Window:
    """CPU time and greenlet lag from one moment on, until it is closed."""

    def __init__(self) -> None:
        self._began_s = time.monotonic()
        self._cpu_began_s = time.process_time()
        self._closed: tuple[float, float] | None = None
        self._lags = new_histogram()

    def lag(self, seconds: float) -> None:
        if self._closed is None:
            self._lags.record_value(max(1, int(seconds * 1e6)))

    def close(self) -> None:
        self._closed = self._closed or (self.elapsed_s, self.cpu_s)

    @property
    def elapsed_s(self) -> float:
        return self._closed[0] if self._closed else time.monotonic() - self._began_s

    @property
    def cpu_s(self) -> float:
        return self._closed[1] if self._closed else time.process_time() - self._cpu_began_s

    @property
    def utilisation(self) -> float:
        """Of one core. What is shorter than SHORTEST_S counts as that long: a burst saturates nothing."""
        return self.cpu_s / max(self.elapsed_s, SHORTEST_S)

    def lag_percentile_s(self, percentile: float) -> float:
        return float(self._lags.get_value_at_percentile(percentile)) / 1e6


class UseMeter:
    """What this process uses, and how late its greenlets wake up.

    Utilisation and lag are those of the steady phase, between the two marks: filling up to the outstanding futures
    asked for is done as fast as one core can and says nothing of the run. Where there is no steady phase of SHORTEST_S
    they are those of the whole run.
    """

    def __init__(self) -> None:
        self._whole = _Window()
        self._steady: _Window | None = None
        self._lag_max_s = 0.0
        self._greenlet = gevent.spawn(self._watch)

    def mark_steady(self) -> None:
        """The outstanding futures asked for are there."""
        self._steady = self._steady or _Window()

    def mark_drain(self) -> None:
        """The last future was submitted."""
        if self._steady is not None:
            self._steady.close()

    def _watch(self) -> None:
        due = time.monotonic() + LAG_INTERVAL_S
        while True:
            gevent.sleep(max(0.0, due - time.monotonic()))
            now = time.monotonic()
            lag = max(0.0, now - due)
            self._lag_max_s = max(self._lag_max_s, lag)
            for window in filter(None, (self._whole, self._steady)):
                window.lag(lag)
            due = now + LAG_INTERVAL_S

    def take_lag_max_s(self) -> float:
        """The worst lag since the last call."""
        worst, self._lag_max_s = self._lag_max_s, 0.0
        return worst

    def use(self) -> WorkerUse:
        steady = self._steady
        window = steady if steady is not None and steady.elapsed_s >= SHORTEST_S else self._whole
        return WorkerUse(
            cpu_s=self._whole.cpu_s,
            cpu_utilisation=window.utilisation,
            lag_max_s=window.lag_percentile_s(100),
            lag_p99_s=window.lag_percentile_s(99),
            rss_peak_bytes=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_BYTES,
        )

    def stop(self) -> None:
        """The work is done: what this process does from now on is not counted."""
        self._greenlet.kill(block=False)
        self._whole.close()


def given_up(report: WorkerReport) -> WorkerReport:
    """The last report of a worker that will send no more: what is outstanding in it has been abandoned."""
    futures = msgspec.structs.replace(report.futures, abandoned=report.futures.abandoned + report.outstanding)
    return msgspec.structs.replace(report, futures=futures, outstanding=0)


class Totals(msgspec.Struct, frozen=True, kw_only=True):
    """The run's figures: the sum over all workers' latest reports."""

    futures: FutureCounts
    outstanding: int
    accepted: int
    polls: PollCounts
    re_polls_by_cause: dict[str, int]
    errors: list[ErrorExample]
    delivered_bytes: int
    real_sdk: dict[str, int]
    load_cpu_s: float
    lag_max_s: float


def total(reports: Iterable[WorkerReport]) -> Totals:
    reports = list(reports)
    errors: dict[str, ErrorExample] = {}
    for report in reports:
        for error in report.errors:
            known = errors.get(error.name)
            count = error.count + (known.count if known else 0)
            errors[error.name] = ErrorExample(
                name=error.name, count=count, example=known.example if known else error.example
            )
    return Totals(
        futures=msgspec.convert(_added([msgspec.to_builtins(r.futures) for r in reports]), FutureCounts),
        outstanding=sum(r.outstanding for r in reports),
        accepted=sum(r.accepted for r in reports),
        polls=msgspec.convert(_added([msgspec.to_builtins(r.polls) for r in reports]), PollCounts),
        re_polls_by_cause=_added([r.re_polls_by_cause for r in reports]),
        errors=sorted(errors.values(), key=lambda error: -error.count),
        delivered_bytes=sum(r.delivered_bytes for r in reports),
        real_sdk=_added([r.real_sdk for r in reports]),
        load_cpu_s=sum(r.use.cpu_s for r in reports),
        lag_max_s=max((r.lag_max_s for r in reports), default=0.0),
    )


def merged_histograms(reports: Iterable[WorkerReport]) -> dict[str, str]:
    """Name -> the sum of all workers' histograms, encoded."""
    reports = list(reports)
    merged: dict[str, str] = {}
    for name in LATENCIES:
        with summed(report.histograms[name] for report in reports) as histogram:
            merged[name] = histogram.encode().decode("ascii")
    return merged


def _added(dicts: list[dict[str, Any]]) -> dict[str, Any]:
    """The sum, key by key, of dictionaries of numbers (and of such dictionaries)."""
    keys = dict.fromkeys(key for one in dicts for key in one)
    result: dict[str, Any] = {}
    for key in keys:
        values = [one[key] for one in dicts if key in one]
        result[key] = _added(values) if isinstance(values[0], dict) else sum(values)
    return result
