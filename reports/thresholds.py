"""Thresholds: conditions on a run's quantities, such as ``future_p99 < 60s``, read and judged. Pure.

    threshold = NAME OPERATOR (NUMBER [UNIT] | [NUMBER *] NAME) [abort]

NAME is one of ``reports.quantities``; OPERATOR is ==, !=, <, <=, > or >=. Times are given in ms, s, m or h, sizes in B,
kB, MB or GB (decimal); rates may be followed by /s, shares by %. ``abort``: the run is stopped when it is broken.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from reports.quantities import QUANTITIES, Dimension, Quantity, nearest
from reports.schema import RunDocument, ThresholdResult

_NAME = r"[A-Za-z_]\w*"
_NUMBER = r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_THRESHOLD = re.compile(
    rf"\s*(?P<left>{_NAME})\s*(?P<operator>==|!=|<=|>=|<|>)\s*"
    rf"(?:(?P<number>{_NUMBER})\s*(?P<unit>/s|%|[A-Za-z]+)?|(?:(?P<factor>{_NUMBER})\s*\*\s*)?(?P<right>{_NAME}))\s*"
)
_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_UNITS: dict[Dimension, dict[str, float]] = {
    "count": {"": 1.0},
    "rate": {"": 1.0, "/s": 1.0},
    "time": {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0},
    "size": {"B": 1.0, "kB": 1e3, "MB": 1e6, "GB": 1e9},
    "share": {"": 1.0, "%": 0.01},
}
# What a result's ``holds`` is called where it is shown.
STATES = {True: "holds", False: "broken", None: "not measured"}


ABORT = "abort"


class ThresholdError(Exception):
    """Something is no threshold; the message is a sentence for the user."""


class Threshold(NamedTuple):
    """``left`` should be in this relation to ``factor``, or to ``factor`` times ``right``."""

    text: str
    left: Quantity
    operator: str
    factor: float
    right: Quantity | None
    aborts: bool = False

    @property
    def quantities(self) -> list[Quantity]:
        return [self.left] if self.right is None else [self.left, self.right]


def parse_threshold(text: str) -> Threshold:
    """Raises ThresholdError."""
    words = text.split()
    if words[-1:] == [ABORT]:
        threshold = _parsed(text.rstrip().removesuffix(ABORT))
        if not _can_abort(threshold):
            raise ThresholdError(
                f"'{text}' cannot stop a run: that takes a quantity that is known while it goes on and is the worse "
                "the more it is, with < or <= and a number, or == 0, such as 'failed == 0 abort' or "
                "'rss_peak < 9GB abort'."
            )
        return threshold._replace(text=text.strip(), aborts=True)
    return _parsed(text)


def _can_abort(threshold: Threshold) -> bool:
    bounds = threshold.operator in ("<", "<=") or (threshold.operator == "==" and threshold.factor == 0)
    return bounds and threshold.right is None and threshold.left.stops


def _parsed(text: str) -> Threshold:
    match = _THRESHOLD.fullmatch(text)
    if match is None:
        raise ThresholdError(
            f"'{text}' is no threshold; write a name, an operator (==, !=, <, <=, >, >=) and a limit, such as "
            "'failed == 0', 'future_p99 < 60s' or 'throughput >= 0.95 * engine_ceiling'."
        )
    left = _quantity(match["left"], text)
    if match["right"] is None:
        factor = float(match["number"]) * _unit(left, match["unit"] or "", float(match["number"]) == 0, text)
        return Threshold(text.strip(), left, match["operator"], factor, None)
    right = _quantity(match["right"], text)
    if right.dimension != left.dimension:
        raise ThresholdError(
            f"'{text}' compares a {left.dimension} ({left.name}) with a {right.dimension} ({right.name})."
        )
    return Threshold(text.strip(), left, match["operator"], float(match["factor"] or 1), right)


def judge_thresholds(thresholds: Iterable[Threshold], run: RunDocument) -> list[ThresholdResult]:
    return [_judged(threshold, run) for threshold in thresholds]


def broken(results: Sequence[ThresholdResult]) -> list[str]:
    """A sentence for each threshold that does not hold."""
    return [f"{result.text} is broken: {result.found}." for result in results if result.holds is False]


def unmeasured(results: Sequence[ThresholdResult]) -> list[str]:
    """A sentence for each threshold that cannot be judged."""
    return [f"{result.text} cannot be judged: {result.found}." for result in results if result.holds is None]


def _judged(threshold: Threshold, run: RunDocument) -> ThresholdResult:
    values = [quantity.of(run) for quantity in threshold.quantities]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        names = [quantity.name for quantity, value in zip(threshold.quantities, values, strict=True) if value is None]
        were = "was" if len(names) == 1 else "were"
        return ThresholdResult(text=threshold.text, holds=None, found=f"{' and '.join(names)} {were} not measured")
    limit = threshold.factor * (known[1] if threshold.right else 1.0)
    found = f"{threshold.left.name} was {threshold.left.text(known[0], beside=limit)}"
    if threshold.right is not None:
        found += f", {threshold.right.name} {threshold.right.text(known[1])}"
        if threshold.factor != 1:
            found += f", {threshold.factor:g} × that is {threshold.left.text(limit, beside=known[0])}"
    return ThresholdResult(
        text=threshold.text, holds=_OPERATORS[threshold.operator](known[0], limit), found=found, value=known[0]
    )


def _quantity(name: str, text: str) -> Quantity:
    quantity = QUANTITIES.get(name)
    if quantity is None:
        raise ThresholdError(f"No quantity is named '{name}' (in the threshold '{text}'); {nearest(name)}")
    return quantity


def _unit(quantity: Quantity, unit: str, is_zero: bool, text: str) -> float:
    units = _UNITS[quantity.dimension]
    if unit in units:
        return units[unit]
    if not unit and is_zero:
        return 1.0
    wanted = ", ".join(unit for unit in units if unit)
    found = f"'{unit}'" if unit else "none"
    raise ThresholdError(
        f"{quantity.name} is a {quantity.dimension} and takes {f'the unit {wanted}' if wanted else 'no unit'}, "
        f"found {found} (in the threshold '{text}')."
    )
