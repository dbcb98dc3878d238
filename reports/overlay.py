"""Plots of several runs over each other, each run in one colour throughout."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.axes import Axes

from reports.compare import Run
from reports.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, RED, draw
from reports.percentile_axis import PERCENTILES, label_percentiles, percentile_line
from reports.percentiles import curve
from reports.plots import Plot
from reports.time_axis import Series, TimeAxis

COLORS = (BLUE, ORANGE, GREEN, PURPLE, RED, GREY)

_Line = Callable[[Axes, Series, str, str], None]  # of a series in a colour under a name


def overlaid_plots(runs: Sequence[Run]) -> list[Plot]:
    """As many runs as there are COLORS at most; those without the data are left out of a plot."""
    axes = TimeAxis.shared([TimeAxis.of(run.document, run.timeline) for run in runs])
    load = [Series(run.timeline, axis) for run, axis in zip(runs, axes, strict=True)]
    observed = [Series(run.resources, axis) for run, axis in zip(runs, axes, strict=True)]
    names = [run.name for run in runs]

    def over_time(title: str, quantity: str, caption: str, series: Sequence[Series], draw_line: _Line) -> Plot:
        def fill(panel: Axes) -> None:
            for each, color, name in zip(series, COLORS, names, strict=False):
                if len(each.rows) > 1:
                    draw_line(panel, each, color, name)
            panel.set_ylim(bottom=0)
            series[0].axis.label(panel, quantity)

        return Plot(title, caption, draw(title, fill))

    return [
        over_time(
            "Throughput",
            "futures a second",
            "Delivered futures, averaged over 10 s.",
            load,
            lambda panel, each, color, name: each.rate_line(panel, "delivered", color, name, spikes=False),
        ),
        _latency(runs),
        over_time(
            "Memory of the target",
            "GB (10⁹ bytes)",
            "RSS, with the results that it has to keep.",
            observed,
            lambda panel, each, color, name: each.line(panel, "target_rss_bytes", color, name, 1e-9),
        ),
        over_time(
            "CPU of the target",
            "cores",
            "Averaged over 10 s.",
            observed,
            lambda panel, each, color, name: each.rate_line(panel, "target_cpu_s", color, name, spikes=False),
        ),
        over_time(
            "Outstanding futures",
            "futures",
            "What the load kept outstanding.",
            load,
            lambda panel, each, color, name: each.line(panel, "outstanding", color, name),
        ),
        over_time(
            "Loop lag of the target",
            "worst of a sample (ms)",
            "How late its event loop ran.",
            observed,
            lambda panel, each, color, name: each.line(panel, "target_loop_lag_max_s", color, name, 1000),
        ),
    ]


def _latency(runs: Sequence[Run]) -> Plot:
    recorded = [run.document.facts.histograms.get("future") for run in runs]
    curves = [curve(encoded, PERCENTILES) if encoded else [] for encoded in recorded]

    def fill(panel: Axes) -> None:
        for points, color, run in zip(curves, COLORS, runs, strict=False):
            percentile_line(panel, points, color, run.name)
        label_percentiles(panel, "from submit to result", [points[-1][0] for points in curves if points])

    return Plot("Latency of futures by percentile", "From submit to result.", draw("latency", fill))
