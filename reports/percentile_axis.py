"""Curves of a latency over its percentiles, on axes that stretch the slowest few."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

PERCENTILES = [100 * (1 - 10 ** (-step / 20)) for step in range(101)]  # 0 to 99.999, even on the log axis
_TICKS = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999)


def percentile_line(axes: Axes, points: Sequence[tuple[float, float]], color: str, label: str) -> None:
    """A curve of (percentile, seconds)."""
    axes.plot([_odds(percent) for percent, _ in points], [value for _, value in points], color=color, label=label)


def label_percentiles(axes: Axes, quantity: str, ends: Sequence[float]) -> None:
    """Scale and name both axes; ``ends`` are the last percentiles of the curves."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks([_odds(tick) for tick in _TICKS], [f"{tick:g}" for tick in _TICKS])
    axes.set_xlim(1, max((_odds(end) for end in ends), default=10) * 1.1)
    axes.xaxis.set_minor_locator(NullLocator())
    lowest, highest = axes.get_ylim()
    if highest < 10 * lowest:  # the marks of a log axis are too few for less than a decade
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_minor_locator(NullLocator())
    else:
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if highest < 500 * lowest else (1.0,)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _latency(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("percentile")
    axes.set_ylabel(quantity)


def _latency(value: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if value >= unit:
            return f"{value / unit:,.4g} {name}"
    return f"{value * 1e6:.4g} µs"


def _odds(percent: float) -> float:
    """One in how many values is larger."""
    return 100 / (100 - percent)
