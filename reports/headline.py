"""The numbers that a reader looks for first, each with what puts it into proportion."""

from __future__ import annotations

from typing import NamedTuple

from reports import formats
from reports.schema import RunDocument


class Figure(NamedTuple):
    """A headline number."""

    label: str
    value: str
    beside: str


def headline(document: RunDocument) -> list[Figure]:
    """Eight figures, in the order of the page."""
    return [
        _throughput(document),
        _delivered(document),
        _latency(document),
        _re_polls(document),
        _memory(document),
        _cpu(document),
        _load(document),
        Figure("Duration", formats.duration(document.run.duration_s), f"started {document.run.started_utc}"),
    ]


def _throughput(document: RunDocument) -> Figure:
    throughput = document.throughput
    overall = formats.rate(throughput.overall_per_s)
    if throughput.steady_per_s is None:
        why = "the load changes by stages" if document.workload.stages else "too short for a steady window"
        return Figure("Throughput, whole run", overall, why)
    beside = f"{overall} over the whole run"
    if throughput.engine_ceiling_per_s is not None:
        share = formats.percent(throughput.steady_per_s / throughput.engine_ceiling_per_s)
        beside = f"{share} of the engine ceiling, {formats.rate(throughput.engine_ceiling_per_s)}; {beside}"
    return Figure("Steady throughput", formats.rate(throughput.steady_per_s), beside)


def _delivered(document: RunDocument) -> Figure:
    futures = document.futures
    how = "byte for byte" if document.facts.verification == "corpus" else "by their shape"
    asked = futures.submitted if document.workload.stages else document.workload.requests  # at most, in stages
    beside = f"of {formats.count(asked)}; {formats.count(futures.verified)} verified {how}"
    return Figure("Delivered", formats.count(futures.delivered), beside)


def _latency(document: RunDocument) -> Figure:
    future = document.latency_s.get("future")
    if future is None:
        return Figure("Future, median", formats.NOT_MEASURED, "no future ended")
    beside = f"99 % within {formats.seconds(future.p99)}, slowest {formats.seconds(future.max)}"
    return Figure("Future, median", formats.seconds(future.p50), beside)


def _re_polls(document: RunDocument) -> Figure:
    polls = document.polls
    beside = f"of {formats.count(polls.total)} polls; {formats.count(polls.timeouts)} after a time-out"
    return Figure("Re-polls", formats.count(polls.re_polls), beside)


def _memory(document: RunDocument) -> Figure:
    target = document.target
    peak = formats.size(target.rss_peak_bytes)
    if target.rss_peak_bytes is None or target.rss_idle_bytes is None or target.retention_predicted_bytes is None:
        return Figure("Target's peak RSS", peak, "retention not known")
    expected = target.rss_idle_bytes + target.retention_predicted_bytes
    idle, retention = formats.size(target.rss_idle_bytes), formats.size(target.retention_predicted_bytes)
    beside = f"{target.rss_peak_bytes / expected:.2f} × (idle {idle} + predicted retention {retention})"
    return Figure("Target's peak RSS", peak, beside)


def _cpu(document: RunDocument) -> Figure:
    engine, load = (formats.seconds(use.cpu_s_per_result) for use in (document.engine, document.load))
    beside = f"engine {engine}, load {load}"
    return Figure("Target's CPU per result", formats.seconds(document.target.cpu_s_per_result), beside)


def _load(document: RunDocument) -> Figure:
    load = document.load
    state = "saturated" if load.saturated else "not saturated"
    beside = f"{state}; wake-ups late by {formats.seconds(load.lag_p99_s)} at the 99th percentile"
    lateness = document.latency_s.get("lateness")
    if lateness is not None:
        beside = f"{beside}, starts of futures by {formats.seconds(lateness.p99)}"
    return Figure("Load's busiest process", f"{load.cpu_utilisation:.2f} cores", beside)
