"""A run as people watch it: the figures of this second, and the series since its start."""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple, TypeVar

from locustfiles import facts
from locustfiles.controller import Tick
from locustfiles.settings import Settings
from locustfiles.web.history import History, Sample
from locustfiles.web.recent import RecentPercentiles
from reports import formats
from reports.retention import predicted_retention
from reports.schema import ResourceRow, TimelineRow

CALM_S = 10.0  # rates are over this time: one second's wander too much to be read
_PERCENTILES = (50.0, 90.0, 99.0)
_RETENTION_ROWS = 600  # within the time-to-live: enough to predict from, however long it is

Row = TypeVar("Row", TimelineRow, ResourceRow)


class Figure(NamedTuple):
    """A line of the tab: what it is, its value, and a remark."""

    figure: str
    value: str
    remark: str = ""


class LiveRun:
    """Takes a run's ticks as they come. Its memory does not grow with the run's length.

    run_time_s: after which the run ends whatever its count; None where only the count ends it.
    """

    def __init__(self, settings: Settings, run_time_s: float | None = None) -> None:
        self._settings = settings
        self._run_time_s = run_time_s
        self._target = facts.target(settings)
        self.forget()
        self._idle_bytes: int | None = None
        self._started_s: float | None = None
        self._retention_bytes: float | None = None

    @property
    def settings(self) -> Settings:
        return self._settings

    def add(self, tick: Tick) -> None:
        """The run's figures of this second."""
        row, resource = tick.row, tick.resource
        if self._started_s is None:
            self._started_s = row.monotonic_s
        _keep(self._rows, row, CALM_S)
        if len(self._kept) > 2 and row.monotonic_s - self._kept[-2].monotonic_s < self._kept_s() / _RETENTION_ROWS:
            self._kept.pop()
        _keep(self._kept, row, self._kept_s())
        if resource is not None:
            if not self._resources or resource.monotonic_s > self._resources[-1].monotonic_s:
                _keep(self._resources, resource, CALM_S)
            if self._idle_bytes is None:
                self._idle_bytes = resource.target_rss_bytes
        retention = predicted_retention(self._kept, self._target)
        self._retention_bytes = None if retention is None else float(retention[-1])
        self.history.add(self._sample(tick))

    def forget(self) -> None:
        """Let go of what only watching needs: another run is what people watch from now on."""
        self.history = History()
        self._rows: deque[TimelineRow] = deque()
        self._kept: deque[TimelineRow] = deque()
        self._resources: deque[ResourceRow] = deque()
        self._latencies = RecentPercentiles(_PERCENTILES)

    def _kept_s(self) -> float:
        return (self._target.retrieved_ttl_s or 0.0) + (self._target.sweep_interval_s or 0.0)

    def _percentiles(self, tick: Tick) -> list[float | None]:
        return self._latencies.of(report.histograms["future"] for report in tick.reports)

    def _sample(self, tick: Tick) -> Sample:
        row, seen = tick.row, tick.resource or _NOTHING
        p50_s, p90_s, p99_s = self._percentiles(tick)
        return Sample(
            t_s=round(self._since_start_s(row.monotonic_s), 1),
            reported_s=round(self._since_start_s(tick.reported_s), 2),
            seen_s=None if tick.resource is None else round(self._since_start_s(seen.monotonic_s), 2),
            delivered=row.delivered,
            failed=row.failed,
            lost=row.lost,
            outstanding=row.outstanding,
            running=seen.engine_running,
            waiting=seen.engine_waiting,
            rss_bytes=seen.target_rss_bytes,
            expected_bytes=self._expected_bytes(),
            target_cpu_s=seen.target_cpu_s,
            load_cpu_s=row.load_cpu_s,
            engine_cpu_s=seen.engine_cpu_s,
            target_lag_s=seen.target_loop_lag_max_s,
            load_lag_s=row.load_lag_max_s,
            fds=seen.target_fds,
            p50_s=p50_s,
            p90_s=p90_s,
            p99_s=p99_s,
        )

    def _since_start_s(self, monotonic_s: float) -> float:
        return monotonic_s - (self._started_s or 0.0)

    def _expected_bytes(self) -> float | None:
        if self._retention_bytes is None or self._idle_bytes is None:
            return None
        return self._idle_bytes + self._retention_bytes

    def figures(self) -> list[Figure]:
        """What the tab shows; empty before the first tick."""
        if not self._rows:
            return []
        row = self._rows[-1]
        seen = self._resources[-1] if self._resources else _NOTHING
        rate = _growth_per_s(self._rows, "delivered")
        return [
            Figure("delivered", f"{formats.count(row.delivered)} of {formats.count(self._settings.requests)}"),
            Figure("rate", formats.rate(rate), f"over {CALM_S:.0f} s"),
            self._time_left(row, rate),
            Figure(
                "outstanding",
                formats.count(row.outstanding),
                f"{formats.count(self._settings.outstanding)} at most",
            ),
            Figure(
                "re-polls",
                formats.count(row.re_polls),
                f"time-out {formats.count(row.re_polls_timeout)}, 408 or try again "
                f"{formats.count(row.re_polls_try_again)}, error {formats.count(row.re_polls_error)}",
            ),
            Figure("failed", formats.count(row.failed)),
            Figure("lost", formats.count(row.lost)),
            Figure("server memory (RSS)", formats.size(seen.target_rss_bytes)),
            Figure(
                "retention predicted",
                formats.size(self._retention_bytes),
                f"with {formats.size(self._idle_bytes)} at rest: {formats.size(self._expected_bytes())}",
            ),
            Figure("server CPU", _cores(_growth_per_s(self._resources, "target_cpu_s")), f"over {CALM_S:.0f} s"),
            Figure("open files", formats.count(seen.target_fds), "of the server"),
            Figure("loop lag", formats.seconds(self._lag_s()), "the server's worst of the last 5 s"),
            Figure("engine occupancy", *self._occupancy(seen)),
        ]

    def _lag_s(self) -> float | None:
        """The last that the server said: a busy one may be late with its metrics."""
        said = (row.target_loop_lag_max_s for row in reversed(self._resources))
        return next((lag_s for lag_s in said if lag_s is not None), None)

    def _time_left(self, row: TimelineRow, rate: float | None) -> Figure:
        """Until the count is reached or the run time is over, whichever comes first."""
        futures = max(self._settings.requests - row.delivered - row.failed - row.lost, 0)
        by_count_s = futures / rate if rate else math.inf
        by_time_s = math.inf
        if self._run_time_s is not None:
            by_time_s = max(self._run_time_s - self._since_start_s(row.monotonic_s), 0.0)
        if by_time_s < by_count_s:
            return Figure("time left", formats.duration(by_time_s), "of the run time")
        return Figure("time left", formats.duration(by_count_s if rate else None), "at this rate")

    def _occupancy(self, seen: ResourceRow) -> tuple[str, str]:
        if self._settings.engine is None:
            return formats.NOT_MEASURED, "the engine is not ours"
        slots = self._settings.engine.slots
        share = None if seen.engine_running is None else seen.engine_running / slots
        return (
            formats.percent(share),
            f"{formats.count(seen.engine_running)} of {formats.count(slots)} slots, "
            f"{formats.count(seen.engine_waiting)} waiting",
        )


_NOTHING = ResourceRow(monotonic_s=0.0, unix_s=0.0)


def _keep(rows: deque[Row], row: Row, seconds: float) -> None:
    """Append a row, and drop those that are not needed to know what was so ``seconds`` ago."""
    rows.append(row)
    while len(rows) > 2 and rows[1].monotonic_s <= row.monotonic_s - seconds:
        rows.popleft()


def _growth_per_s(rows: deque[TimelineRow] | deque[ResourceRow], name: str) -> float | None:
    """A counter's growth a second over the last CALM_S; None where it was not measured, or started anew."""
    if not rows:
        return None
    last = rows[-1]
    first = next(row for row in rows if row is last or row.monotonic_s >= last.monotonic_s - CALM_S - 0.5)
    now, then = getattr(last, name), getattr(first, name)
    elapsed_s = last.monotonic_s - first.monotonic_s
    if now is None or then is None or now < then or elapsed_s <= 0:
        return None
    return float((now - then) / elapsed_s)


def _cores(value: float | None) -> str:
    return formats.NOT_MEASURED if value is None else f"{value:.2f} cores"
