"""report.html: one file that needs nothing else, made from a run's document and its time series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
import msgspec

from reports import formats
from reports.fault_table import reconciled
from reports.headline import headline
from reports.plots import MARKED_EVENTS, phase_name, plots
from reports.schema import ResourceRow, RunDocument, TimelineRow
from reports.thresholds import STATES


class Line(NamedTuple):
    """A row of a table: a name, its value, and a remark."""

    label: str
    value: str
    remark: str = ""


def render_page(document: RunDocument, timeline: Sequence[TimelineRow], resources: Sequence[ResourceRow]) -> str:
    """The whole page. Text that comes from elsewhere, such as a server's error message, is escaped."""
    return fill_template(
        "report.html",
        document=document,
        headline=headline(document),
        plots=plots(document, timeline, resources),
        futures=_futures(document),
        reconciliation=_reconciliation(document),
        faults=reconciled(document),
        settings=settings_of(document),
        states=STATES,
        formats=formats,
        phase_name=phase_name,
        marked_events=MARKED_EVENTS,
    )


def fill_template(name: str, **content: Any) -> str:
    """One of the templates beside this module, everything in it escaped."""
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return templates.get_template(name).render(**content)


def settings_of(document: RunDocument) -> list[tuple[str, list[Line]]]:
    """What a run was configured as, by title, for people to read."""
    facts = document.facts
    return [
        ("Workload", lines_of(document.workload)),
        ("Target", lines_of(facts.target)),
        ("Engine", lines_of(facts.engine) if facts.engine else [Line("", "not ours")]),
        ("Environment", lines_of(document.environment)),
    ]


def _futures(document: RunDocument) -> list[Line]:
    remarks = {
        "submitted": "the sum of the five ends below",
        "failed": "the server said so, or the client gave up",
        "lost": "the server no longer knew them",
        "cancelled": "by the client",
        "abandoned": "outstanding when the run ended",
        "doubled": "ended twice, or two under one id",
        "foreign": "got another future's result",
        "verified": "compared with the engine's corpus, byte for byte"
        if document.facts.verification == "corpus"
        else "right shape and length; the engine's answers are not known in advance",
    }
    counts = msgspec.structs.asdict(document.futures)
    return [Line(name, formats.count(count), remarks.get(name, "")) for name, count in counts.items()]


def _reconciliation(document: RunDocument) -> list[Line]:
    delivered, submitted = document.futures.delivered, document.futures.submitted
    return [
        Line("delivered, says the load", formats.count(delivered)),
        Line(
            "served, says the target",
            formats.count(document.target.results_served),
            _compared(document.target.results_served, delivered, "served again after a delivery that did not arrive"),
        ),
        Line("submitted, says the load", formats.count(submitted)),
        Line(
            "finished, says the engine",
            formats.count(document.engine.finished),
            _compared(document.engine.finished, submitted, "run twice, or asked for by somebody else"),
        ),
    ]


def _compared(count: int | None, expected: int, what_more_means: str) -> str:
    if count is None:
        return "not measured from before the start until after the last delivery"
    if count > expected:
        return f"{count - expected:,} more: {what_more_means}"
    return "equal" if count == expected else f"{expected - count:,} fewer"


def lines_of(fields: msgspec.Struct | Mapping[str, Any], prefix: str = "") -> list[Line]:
    """Names and values for people to read, those of inner mappings under the outer name."""
    items = msgspec.structs.asdict(fields) if isinstance(fields, msgspec.Struct) else fields
    lines: list[Line] = []
    for name, value in items.items():
        label = f"{prefix}{name}".replace("_", " ")
        if isinstance(value, Mapping):
            lines += lines_of(value, "" if name == "libraries" else f"{label} ")
        elif name.endswith("_bytes"):
            lines.append(Line(label.removesuffix(" bytes"), formats.size(value)))
        elif name.endswith("_s"):
            lines.append(Line(label.removesuffix(" s"), formats.NOT_MEASURED if value is None else f"{value:g} s"))
        elif isinstance(value, bool):
            lines.append(Line(label, "yes" if value else "no"))
        elif isinstance(value, list):
            lines.append(Line(label, ", ".join(map(str, value)) or "none"))
        elif isinstance(value, int):
            lines.append(Line(label, formats.count(value)))
        else:
            lines.append(Line(label, formats.NOT_MEASURED if value is None else str(value)))
    return lines
