"""Runs side by side: whether they may be compared, what differs between them, and by how much. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from reports.page import settings_of
from reports.quantities import QUANTITIES, Quantity
from reports.schema import ResourceRow, RunDocument, TimelineRow

# The work that was asked for, and the machine that did it. What else differs may be what the comparison is about.
_SAME_WORK = ("requests", "max_tokens", "prompt_tokens", "lengths", "body_profile", "protocol", "arrivals", "stages")
_SAME_MACHINE = ("machine", "processor", "cores")

_MISSING = "(not there)"


class IncomparableError(Exception):
    """Runs that measure different things; the message is a sentence that names the field."""


class Run(NamedTuple):
    """A run with its rows, under the name that it has among the others."""

    name: str
    document: RunDocument
    timeline: Sequence[TimelineRow]
    resources: Sequence[ResourceRow]


class Difference(NamedTuple):
    """A setting that is not the same in all runs, with its value in each."""

    section: str
    name: str
    values: list[str]


class Compared(NamedTuple):
    """A quantity in each run, and its ratio to the first run (None: not measured, or nothing to divide by)."""

    quantity: Quantity
    values: list[float | None]
    ratios: list[float | None]


def names_of(paths: Sequence[Path]) -> list[str]:
    """Short names that tell the runs apart: the folders' own, or where two are alike what differs in their paths."""
    parts = [path.resolve().parts for path in paths]
    if len(set(parts)) < len(parts):
        return [f"{path} ({number})" for number, path in enumerate(paths, 1)]
    last = [names[-1] for names in parts]
    if len(set(last)) == len(last):
        return last
    alike = _alike(parts)
    alike_at_the_end = _alike([names[alike:][::-1] for names in parts])
    return ["/".join(names[alike : len(names) - alike_at_the_end]) or "." for names in parts]


def _alike(paths: Sequence[Sequence[str]]) -> int:
    """How many of their parts, from the first, all paths have."""
    return sum(1 for _ in itertools.takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False)))


def check_comparable(runs: Sequence[Run]) -> None:
    """Raises IncomparableError for a run that measures nothing, or the first field that differs and should not."""
    for run in runs:
        if run.document.run.verdict == "invalid":
            raise IncomparableError(
                f"{run.name} is no measurement, its verdict is invalid: {run.document.run.reasons[0]}"
            )
    for field in ("verification", *_SAME_WORK, *_SAME_MACHINE):
        _check_same(field, [(run.name, _value(run.document, field)) for run in runs])


def differences(runs: Sequence[Run]) -> list[Difference]:
    """Every setting, library and command that is not the same in all runs, in the order of the report."""
    tables = [
        {(section, line.label): line.value for section, lines in settings_of(run.document) for line in lines}
        | {("Run", "command"): run.document.run.command}
        for run in runs
    ]
    keys = dict.fromkeys(key for table in tables for key in table)
    rows = [Difference(*key, [table.get(key, _MISSING) for table in tables]) for key in keys]
    return [row for row in rows if len(set(row.values)) > 1]


def compared(runs: Sequence[Run]) -> list[Compared]:
    """Every quantity that was measured, and is not zero, in some run."""
    rows = []
    for quantity in QUANTITIES.values():
        values = [quantity.of(run.document) for run in runs]
        if any(values):
            rows.append(Compared(quantity, values, [_ratio(value, values[0]) for value in values]))
    return rows


def _ratio(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else value / base


def _value(document: RunDocument, field: str) -> Any:
    if field in _SAME_WORK:
        return getattr(document.workload, field)
    return document.environment.get(field) if field in _SAME_MACHINE else document.facts.verification


def _check_same(field: str, values: Sequence[tuple[str, Any]]) -> None:
    first_name, first = values[0]
    for name, value in values[1:]:
        if value != first:
            raise IncomparableError(
                f"{first_name} and {name} cannot be compared: {field} is {first} in the one, and {value} in the other."
            )
