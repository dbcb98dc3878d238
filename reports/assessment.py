"""From what was recorded to what is concluded: the figures, the limit and the verdict of one run. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from reports.judge import judge
from reports.limits import is_saturated, limit_rules, utilisation
from reports.memory_verdict import memory_verdict
from reports.percentiles import percentiles
from reports.retention import predicted_retention
from reports.schema import (
    SCHEMA_VERSION,
    EngineUse,
    LimitedBy,
    LimitRule,
    LoadFacts,
    LoadUse,
    ResourceRow,
    RunDocument,
    RunInfo,
    TargetUse,
    Throughput,
    TimelineRow,
)
from reports.series import column, growth, measured
from reports.steady import Window, steady_window
from reports.thresholds import judge_thresholds, parse_threshold


def assess(
    facts: LoadFacts,
    timeline: Sequence[TimelineRow],
    resources: Sequence[ResourceRow],
    environment: dict[str, Any],
) -> RunDocument:
    """The whole document. Either series may be empty; what would come of it is then None.

    Raises ThresholdError when one of the facts' thresholds is none.
    """
    observed = _Observed(facts, timeline, resources)
    steady = _steady_window(facts, timeline, observed)
    load = _load_use(facts)
    slots = facts.engine.slots if facts.engine else None
    use = utilisation(resources, steady or observed.run, slots)
    target = _target_use(facts, timeline, resources, observed)
    engine = _engine_use(facts, observed, slots, use.engine)
    rules = limit_rules(load, use, facts.workload.arrivals)
    limited_by, why = _first_that_holds(rules)
    document = RunDocument(
        schema_version=SCHEMA_VERSION,
        run=RunInfo(
            name=facts.name,
            started_utc=facts.started_utc,
            duration_s=facts.duration_s,
            command=facts.command,
            verdict="invalid",
            reasons=["Not judged yet."],
        ),
        workload=facts.workload,
        futures=facts.futures,
        polls=facts.polls,
        throughput=_throughput(facts, timeline, steady, observed.mean_service_time_s, slots),
        latency_s={
            name: figures for name, encoded in facts.histograms.items() if (figures := percentiles(encoded)) is not None
        },
        target=target,
        load=load,
        engine=engine,
        limited_by=limited_by,
        limited_by_why=why,
        limits=rules,
        environment=environment,
        facts=facts,
        memory=memory_verdict(facts, timeline, resources, steady, target.rss_idle_bytes),
    )
    return _judged(document)


def _steady_window(facts: LoadFacts, timeline: Sequence[TimelineRow], observed: _Observed) -> Window | None:
    """None for a load that changes by stages: it is not meant to be steady."""
    if facts.workload.stages:
        return None
    is_open = facts.workload.arrivals != "closed"
    return steady_window(timeline, observed.mean_service_time_s or 0.0, open_arrivals=is_open)


def _judged(document: RunDocument) -> RunDocument:
    """Thresholds speak of the figures of a document, so it is judged when it has all of them."""
    thresholds = judge_thresholds(map(parse_threshold, document.facts.thresholds), document)
    verdict, reasons = judge(document.facts, document.load, document.target, document.engine, thresholds)
    run = msgspec.structs.replace(document.run, verdict=verdict, reasons=reasons)
    return msgspec.structs.replace(document, run=run, thresholds=thresholds)


class _Observed:
    """The resource samples of one run."""

    def __init__(self, facts: LoadFacts, timeline: Sequence[TimelineRow], resources: Sequence[ResourceRow]) -> None:
        self._rows = resources
        self._times = column(resources, "monotonic_s")
        self.run = Window(facts.started_monotonic_s, facts.started_monotonic_s + facts.duration_s)
        delivering = [row.monotonic_s for row in timeline if row.delivered >= facts.futures.delivered]
        self._last_delivery = delivering[0] if delivering else self.run.end

    def samples(self, name: str) -> list[float]:
        """The measured values of one field, from first to last."""
        return [float(value) for value in measured(self._times, column(self._rows, name))[1]]

    def growth(self, name: str) -> float | None:
        """What a counter grew by from the start of the run to the last sample."""
        grown = growth(self._times, column(self._rows, name), self.run.start, math.inf)
        return grown[0] if grown else None

    def exact_growth(self, name: str) -> int | None:
        """The same, or None when the samples do not reach from the start of the run to its last delivery.

        None also when the target was started anew: what it counted after the last sample before that is not known.
        """
        times, _ = measured(self._times, column(self._rows, name))
        if not times.size or times[0] > self.run.start or times[-1] < self._last_delivery:
            return None
        if self.peak("target_restarts"):
            return None
        grown = self.growth(name)
        return None if grown is None else round(grown)

    def idle(self, name: str) -> int | None:
        """The last value before the run started, else the first there is."""
        times, values = measured(self._times, column(self._rows, name))
        if not times.size:
            return None
        return int(values[max(int(np.searchsorted(times, self.run.start, side="right")) - 1, 0)])

    def peak(self, name: str) -> float | None:
        return max(self.samples(name), default=None)

    @property
    def mean_service_time_s(self) -> float | None:
        """Of the service times that the engine drew during the run."""
        total_s, count = self.growth("engine_service_time_sum_s"), self.growth("engine_service_time_count")
        return total_s / count if total_s is not None and count else None


def _throughput(
    facts: LoadFacts,
    timeline: Sequence[TimelineRow],
    steady: Window | None,
    mean_service_time_s: float | None,
    slots: int | None,
) -> Throughput:
    delivered = growth(column(timeline, "monotonic_s"), column(timeline, "delivered"), *steady) if steady else None
    return Throughput(
        overall_per_s=facts.futures.delivered / facts.duration_s if facts.duration_s else 0.0,
        steady_per_s=delivered[0] / delivered[1] if delivered else None,
        engine_ceiling_per_s=slots / mean_service_time_s if slots and mean_service_time_s else None,
        steady_from_s=steady.start - facts.started_monotonic_s if steady else None,
        steady_to_s=steady.end - facts.started_monotonic_s if steady else None,
    )


def _load_use(facts: LoadFacts) -> LoadUse:
    cpu_s = sum(worker.cpu_s for worker in facts.workers)
    busiest = max((worker.cpu_utilisation for worker in facts.workers), default=0.0)
    lag_p99_s = max((worker.lag_p99_s for worker in facts.workers), default=0.0)
    return LoadUse(
        cpu_s=cpu_s,
        cpu_s_per_result=_per_result(cpu_s, facts),
        cpu_utilisation=busiest,
        lag_p99_s=lag_p99_s,
        saturated=is_saturated(busiest, lag_p99_s),
    )


def _target_use(
    facts: LoadFacts, timeline: Sequence[TimelineRow], resources: Sequence[ResourceRow], observed: _Observed
) -> TargetUse:
    retention = predicted_retention(timeline, facts.target, resources)
    cpu_s = observed.growth("target_cpu_s")
    canaries = observed.samples("canary_s")
    canary_failures = observed.growth("canary_failures")
    return TargetUse(
        rss_idle_bytes=observed.idle("target_rss_bytes"),
        rss_peak_bytes=_whole(observed.peak("target_rss_bytes")),
        retention_predicted_bytes=None if retention is None else int(retention.max()),
        cpu_s=cpu_s,
        cpu_s_per_result=_per_result(cpu_s, facts),
        fds_peak=_whole(observed.peak("target_fds")),
        loop_lag_max_s=observed.peak("target_loop_lag_max_s"),
        canary_p99_s=float(np.percentile(canaries, 99, method="higher")) if canaries else None,
        canary_failures=_whole(canary_failures),
        results_served=observed.exact_growth("target_results_served"),
    )


def _engine_use(facts: LoadFacts, observed: _Observed, slots: int | None, utilisation: float | None) -> EngineUse:
    cpu_s = observed.growth("engine_cpu_s")
    peak = observed.peak("engine_peak_running")  # only the mock keeps it
    return EngineUse(
        slots=slots,
        peak_in_flight=_whole(observed.peak("engine_running") if peak is None else peak),
        utilisation=utilisation,
        finished=observed.exact_growth("engine_finished"),
        cpu_s=cpu_s,
        cpu_s_per_result=_per_result(cpu_s, facts),
    )


def _per_result(cpu_s: float | None, facts: LoadFacts) -> float | None:
    return None if cpu_s is None or not facts.futures.delivered else cpu_s / facts.futures.delivered


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _first_that_holds(rules: Sequence[LimitRule]) -> tuple[LimitedBy | None, str]:
    for rule in rules:
        if rule.holds:
            return rule.limited_by, rule.why
    unknown = (f"{rule.limited_by}: {rule.why}" for rule in rules if rule.holds is None)
    return None, f"Cannot be said. {' '.join(unknown)}"
