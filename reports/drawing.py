"""Inline SVG out of matplotlib: light and dark, the same bytes every time, and without references to elsewhere."""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from reports.series import Column
from reports.thinning import peaks, thin

# Middle tones, which are readable on white and on near-black, and told apart by people who see few colours.
BLUE, ORANGE, GREEN, PURPLE, RED, GREY = "#3d85c6", "#d98324", "#3a9d6e", "#9471c9", "#d1495b", "#8b949e"

# matplotlib has no "the text's colour", so this one, which is used for nothing else, becomes CSS currentColor.
_INK = "#010203"
_INCHES = (5.4, 2.5)

_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: small, selectable, in the page's font
    "font.family": "sans-serif",
    "font.size": 8.5,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "grid.color": _INK,
    "grid.alpha": 0.12,
    "grid.linewidth": 0.6,
    "lines.linewidth": 1.3,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "path.simplify": True,
}


def draw(name: str, fill: Callable[[Axes], None]) -> str:
    """An <svg> element. ``fill`` draws into the axes; ``name`` keeps the ids of one page's plots apart."""
    # The context restores what the process has set, and a Figure of its own needs no state of pyplot's.
    with mpl.rc_context({**_STYLE, "svg.hashsalt": name}):
        figure = Figure(figsize=_INCHES, layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.add_subplot()
        axes.grid(visible=True)
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
        fill(axes)
        if axes.get_legend_handles_labels()[0]:
            figure.legend(loc="outside upper left", ncols=4, borderaxespad=0, handlelength=1.4, columnspacing=1.2)
        out = io.StringIO()
        figure.savefig(out, format="svg", transparent=True, metadata={"Date": None})
    return _inline(out.getvalue())


def line(axes: Axes, times: Column, values: Column, color: str, label: str | None, **style: Any) -> None:
    """A time series, thinned; without a label it is not in the legend."""
    axes.plot(*thin(times, values), color=color, label=label, **style)


def worst_line(axes: Axes, times: Column, values: Column, color: str, label: str) -> None:
    """A time series of which only the peaks are of interest, thinned."""
    axes.plot(*peaks(times, values), color=color, label=label)


def _inline(svg: str) -> str:
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*">', "<g>", svg)  # the same in every plot, and nothing refers to them
    # Of the attributes only the viewBox is wanted: the page sets the size, and HTML knows the namespaces.
    svg = re.sub(r'<svg [^>]*(viewBox="[^"]*")[^>]*>', r'<svg role="img" \1>', svg, count=1)
    return svg.replace(_INK, "currentColor")
