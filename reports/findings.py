"""What an experiment found: each quantity of each arm beside the baseline, and the noise floor of each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from reports.paired import Better, Interval, Paired, compare, noise_floor
from reports.plan import AGAIN, Plan
from reports.quantities import QUANTITIES

Figures = dict[str, float | None]  # by quantity; None: not measured


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """One finished round, a line of rounds.jsonl. ``number`` 0 is the warm-up."""

    number: int
    started_utc: str
    order: list[str]
    figures: dict[str, Figures]  # by arm


class Finding(NamedTuple):
    """One arm's quantity beside the baseline's. ``paired`` is None when there are no ratios, and ``why`` says why."""

    arm: str
    paired: Paired | None
    why: str
    ratios: list[float]


class QuantityFindings(NamedTuple):
    """A quantity over all arms. ``floor`` is None when it has no ratios."""

    name: str
    better: Better
    floor: Interval | None
    findings: list[Finding]

    def text(self, value: float) -> str:
        quantity = QUANTITIES.get(self.name)
        return quantity.text(value) if quantity else f"{value:.4g}"


def findings(plan: Plan, rounds: Sequence[Round]) -> list[QuantityFindings]:
    """Needs two measured rounds or more; the warm-up is left out."""
    measured = [round_ for round_ in rounds if round_.number > 0]
    return [_of_quantity(plan, name, better, measured) for name, better in plan.quantities.items()]


def _of_quantity(plan: Plan, name: str, better: Better, rounds: Sequence[Round]) -> QuantityFindings:
    values = {arm: [round_.figures[arm].get(name) for round_ in rounds] for arm in plan.measured}
    floor = None
    if not _missing(name, values, plan.again, plan.again + AGAIN):
        floor = noise_floor(_known(values[plan.again]), _known(values[plan.again + AGAIN]), plan.seed)
    found = []
    for arm in plan.arms:
        if arm == plan.baseline:
            continue
        why = _missing(name, values, plan.baseline, arm)
        if why:
            found.append(Finding(arm, None, why, []))
            continue
        base, own = _known(values[plan.baseline]), _known(values[arm])
        ratios = [above / below for below, above in zip(base, own, strict=True)]
        found.append(Finding(arm, compare(base, own, floor, better, plan.seed), "", ratios))
    return QuantityFindings(name, better, floor, found)


def _missing(name: str, values: dict[str, list[float | None]], *arms: str) -> str:
    """Why there are no ratios between the arms; empty when there are."""
    for arm in arms:
        if None in values[arm]:
            return f"{name} of {arm} was not measured in every round."
        if min(_known(values[arm])) <= 0:
            return f"{name} of {arm} was not above zero in every round, so there is no ratio."
    return ""


def _known(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None]


def sentence(found: QuantityFindings, finding: Finding, plan: Plan) -> str:
    """A finding in words, with both medians."""
    if finding.paired is None:
        return finding.why
    paired = finding.paired
    medians = f"{found.text(paired.median)} beside {found.text(paired.baseline_median)}"
    if paired.finding == "not detectable":
        return f"{found.name}: no difference between {finding.arm} and {plan.baseline} can be detected ({medians})."
    return (
        f"{found.name} of {finding.arm} is {_change(paired, plan.baseline)}: {medians}; better in {paired.won} of "
        f"{paired.rounds} rounds."
    )


def _change(paired: Paired, baseline: str) -> str:
    """By how many percent, or where that is twice as much or more, how many times as much."""
    if paired.ratio >= 2:
        low, high = paired.interval
        return f"{paired.ratio:.1f} times that of {baseline} (95 % interval {low:.1f} to {high:.1f})"
    low, high = (100 * (1 - end) for end in reversed(paired.interval))
    if paired.finding == "higher":
        low, high = -high, -low
    percent = abs(paired.reduction_percent)
    return f"{percent:.1f} % {paired.finding} than of {baseline} (95 % interval {low:.1f} to {high:.1f} %)"
