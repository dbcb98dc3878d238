"""The plots of a report, each with its unit and a sentence that says what to see."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from reports.cpu_by_outstanding import cpu_by_outstanding, fewest_and_most
from reports.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, draw, line
from reports.percentile_axis import PERCENTILES, label_percentiles, percentile_line
from reports.percentiles import curve
from reports.retention import predicted_retention
from reports.schema import ResourceRow, RunDocument, TimelineRow
from reports.series import Column, column, measured
from reports.time_axis import Series, TimeAxis

_GIGABYTE = 1e9
_LEAST_MS = 0.1  # of a delay on a log axis: less is as good as none
MARKED_EVENTS = 40  # more lines than that hide the curves
# What the time of a future is spent on, and what its requests take.
_PHASES = {"submit": GREY, "work": GREEN, "unfetched": ORANGE, "delivery": PURPLE, "future": BLUE}
_REQUESTS = {"first_poll": GREEN, "poll": ORANGE, "session_poll": PURPLE, "lateness": RED}
_PHASE_NAMES = {"work": "queue and engine", "unfetched": "waiting for the next poll"}


class Plot(NamedTuple):
    """One figure: what it shows, what to see in it, and its <svg> element."""

    title: str
    caption: str
    svg: str


def plots(document: RunDocument, timeline: Sequence[TimelineRow], resources: Sequence[ResourceRow]) -> list[Plot]:
    """Every plot for which there are data, in the order of the page."""
    axis = TimeAxis.of(document, timeline)
    load, observed = Series(timeline, axis), Series(resources, axis)
    drawn: list[Plot] = []
    if len(timeline) > 1:
        drawn += [_throughput(document, load), _outstanding(document, load, observed), _re_polls(document, load)]
    if len(resources) > 1:
        drawn += [
            _memory(document, timeline, resources, observed),
            _cpu(document, load, observed),
            _delays(document, load, observed),
        ]
    if len(timeline) > 1 and len(resources) > 1 and (by_outstanding := _cpu_by_outstanding(timeline, resources)):
        drawn.append(by_outstanding)
    if document.latency_s:
        drawn += [_latency(document), _requests(document)]
    if len(resources) > 1:
        drawn.append(_files(document, observed))
    return drawn


def _throughput(document: RunDocument, load: Series) -> Plot:
    throughput = document.throughput

    def fill(axes: Axes) -> None:
        _mark_events(document, load.axis, axes)
        load.rate_line(axes, "delivered", BLUE, "delivered, 10 s average")
        if throughput.engine_ceiling_per_s is not None:
            axes.axhline(
                throughput.engine_ceiling_per_s, color=RED, linestyle="--", linewidth=1, label="engine ceiling"
            )
        if throughput.steady_from_s is not None and throughput.steady_to_s is not None:
            window = (throughput.steady_from_s / load.axis.unit_s, throughput.steady_to_s / load.axis.unit_s)
            axes.axvspan(*window, color=GREY, alpha=0.12, linewidth=0, label="steady window")
        _mark_stages(document, load.axis, axes)
        axes.set_ylim(bottom=0)
        load.axis.label(axes, "futures a second")

    return Plot(
        "Throughput",
        "In the steady window the line should be level, and near the ceiling when the engine is the limit. "
        "Pale: each second by itself.",
        draw("throughput", fill),
    )


def _mark_stages(document: RunDocument, axis: TimeAxis, axes: Axes) -> None:
    """A line where a stage of the load ends and the next begins."""
    ends_s = accumulate(stage.duration_s for stage in document.workload.stages)
    for end_s in ends_s:
        axes.axvline(end_s / axis.unit_s, color=GREY, linestyle=":", linewidth=1)


def _mark_events(document: RunDocument, axis: TimeAxis, axes: Axes) -> None:
    """A numbered line where something happened; the page lists the events under these numbers."""
    events = document.facts.events[:MARKED_EVENTS]
    for number, event in enumerate(events, 1):
        at = (event.monotonic_s - axis.started_s) / axis.unit_s
        axes.axvline(at, color=PURPLE, linestyle="-.", linewidth=0.8)
        axes.annotate(str(number), (at, 1), xycoords=("data", "axes fraction"), color=PURPLE, fontsize=7, ha="center")


def _outstanding(document: RunDocument, load: Series, observed: Series) -> Plot:
    def fill(axes: Axes) -> None:
        _mark_events(document, load.axis, axes)
        load.line(axes, "outstanding", BLUE, "outstanding")
        observed.line(axes, "engine_waiting", ORANGE, "in the engine's queue")
        observed.line(axes, "engine_running", GREEN, "in the engine's slots")
        _mark_stages(document, load.axis, axes)
        axes.set_ylim(bottom=0)
        load.axis.label(axes, "futures")

    return Plot(
        "Outstanding futures",
        "A plateau is the load keeping its number (dotted: its stages); the slope at the end is the drain. What is "
        "outstanding and not at the engine waits in the target, or for its next poll.",
        draw("outstanding", fill),
    )


def _re_polls(document: RunDocument, load: Series) -> Plot:
    def fill(axes: Axes) -> None:
        _mark_events(document, load.axis, axes)
        load.rate_line(axes, "re_polls_timeout", ORANGE, "after the client's time-out")
        load.rate_line(axes, "re_polls_try_again", BLUE, "after 408 or try_again")
        load.rate_line(axes, "re_polls_error", RED, "after an error")
        axes.set_ylim(bottom=0)
        load.axis.label(axes, "re-polls a second")

    return Plot(
        "Re-polls by cause",
        "Time-outs and try-agains are the cost of waiting longer than one poll; errors should be at zero.",
        draw("re-polls", fill),
    )


def _memory(
    document: RunDocument, timeline: Sequence[TimelineRow], resources: Sequence[ResourceRow], observed: Series
) -> Plot:
    retention = predicted_retention(timeline, document.facts.target, resources, observed.monotonic_s)
    idle_bytes = document.target.rss_idle_bytes

    def fill(axes: Axes) -> None:
        _mark_events(document, observed.axis, axes)
        observed.line(axes, "target_rss_bytes", BLUE, "RSS", 1 / _GIGABYTE)
        if retention is not None and idle_bytes is not None:
            line(axes, observed.times, (idle_bytes + retention) / _GIGABYTE, RED, "idle + predicted retention")
        observed.line(axes, "target_held_bytes", GREEN, "results held", 1 / _GIGABYTE)
        memory = document.memory
        if memory is not None and memory.from_s is not None and memory.to_s is not None:
            window = (memory.from_s / observed.axis.unit_s, memory.to_s / observed.axis.unit_s)
            axes.axvspan(*window, color=GREY, alpha=0.12, linewidth=0, label="judged for growth")
        observed.line(axes, "target_cgroup_bytes", PURPLE, "its control group", 1 / _GIGABYTE)
        for restart_s in _restarts(observed):
            axes.axvline(restart_s, color=ORANGE, linestyle=":", linewidth=1)
        axes.set_ylim(bottom=0)
        observed.axis.label(axes, "GB (10⁹ bytes)")

    return Plot(
        "Memory of the target",
        "RSS should follow what the target was idle at plus the results it must still keep. A gap that grows is memory "
        "held for something else. Dotted: the target was started again. A control group also holds other processes "
        "and files that were read or written.",
        draw("memory", fill),
    )


def _restarts(observed: Series) -> Column:
    """When another process was first seen in the target's place."""
    times, restarts = measured(observed.times, column(observed.rows, "target_restarts"))
    moments: Column = times[1:][np.diff(restarts) > 0]
    return moments


def _cpu(document: RunDocument, load: Series, observed: Series) -> Plot:
    cores = document.environment.get("cores")

    def fill(axes: Axes) -> None:
        _mark_events(document, observed.axis, axes)
        observed.rate_line(axes, "target_cpu_s", BLUE, "target")
        observed.rate_line(axes, "engine_cpu_s", GREEN, "engine")
        load.rate_line(axes, "load_cpu_s", ORANGE, "load")
        if isinstance(cores, int):
            observed.line(axes, "machine_cpu_utilisation", GREY, f"machine, of {cores} cores", cores)
        axes.set_ylim(bottom=0)
        observed.axis.label(axes, "cores")

    return Plot(
        "CPU",
        "One event loop cannot use more than one core: a line that stays near 1 is a process at its limit.",
        draw("cpu", fill),
    )


def _cpu_by_outstanding(timeline: Sequence[TimelineRow], resources: Sequence[ResourceRow]) -> Plot | None:
    """None when there are no two points of it."""
    points = cpu_by_outstanding(timeline, resources)
    if len(points.outstanding) < 2:
        return None

    def fill(axes: Axes) -> None:
        axes.scatter(points.outstanding, 1000 * points.cpu_s, s=9, color=BLUE, alpha=0.6, linewidths=0)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("futures outstanding")
        axes.set_ylabel("target's CPU a result (ms)")

    return Plot(
        "CPU per result against outstanding",
        "Level points are a server that does the same for each result, however many wait. Points that rise with the "
        f"number outstanding are one that looks through all that wait, again and again. {fewest_and_most(points)}",
        draw("cpu-by-outstanding", fill),
    )


def _delays(document: RunDocument, load: Series, observed: Series) -> Plot:
    def fill(axes: Axes) -> None:
        _mark_events(document, observed.axis, axes)
        observed.worst_line(axes, "canary_s", GREEN, "canary request", 1000, _LEAST_MS)
        observed.worst_line(axes, "target_loop_lag_max_s", BLUE, "target's loop lag", 1000, _LEAST_MS)
        load.worst_line(axes, "load_lag_max_s", ORANGE, "load's lag", 1000, _LEAST_MS)
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        observed.axis.label(axes, "worst of a sample (ms)")

    return Plot(
        "Loop lag and canary",
        "How late the event loops run, and how long a trivial request takes at the same moment. The load's own lag is "
        "in every latency measured here.",
        draw("delays", fill),
    )


def _latency(document: RunDocument) -> Plot:
    return Plot(
        "Latency of a future by phase",
        "Where a curve turns up, the slowest begin to differ from the rest. Each curve ends at the last percentile "
        "that its number of values still resolves. Waiting for the next poll is what polling itself costs.",
        draw("latency", _curves(document, _PHASES)),
    )


def _requests(document: RunDocument) -> Plot:
    return Plot(
        "Latency of polls, and lateness",
        "A poll is held until its future has ended: it is as long as what is left of the future, or of its time-out.",
        draw("requests", _curves(document, _REQUESTS)),
    )


def _curves(document: RunDocument, colors: Mapping[str, str]) -> Callable[[Axes], None]:
    """The percentile curves of those of the histograms that hold anything."""
    phases = [phase for phase in colors if phase in document.latency_s]
    curves = {phase: curve(document.facts.histograms[phase], PERCENTILES) for phase in phases}

    def fill(axes: Axes) -> None:
        for phase, points in curves.items():
            percentile_line(axes, points, colors[phase], phase_name(phase))
        label_percentiles(axes, "latency", [points[-1][0] for points in curves.values() if points])

    return fill


def _files(document: RunDocument, observed: Series) -> Plot:
    def fill(axes: Axes) -> None:
        _mark_events(document, observed.axis, axes)
        observed.line(axes, "target_fds", BLUE, "open files")
        observed.line(axes, "target_outstanding", GREY, "outstanding futures at the target")
        axes.set_ylim(bottom=0)
        observed.axis.label(axes, "number")

    return Plot(
        "Open files of the target",
        "One file for each connection: of the load, which keeps its own open until its end, and to the engine. More "
        "than that after the drain are connections that nobody closed.",
        draw("files", fill),
    )


def phase_name(histogram: str) -> str:
    """What the load calls ``first_poll``, as people read it."""
    return _PHASE_NAMES.get(histogram, histogram.replace("_", " "))
