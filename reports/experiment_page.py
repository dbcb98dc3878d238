"""The page of an experiment: findings first, the ratios of every round, and the raw figures."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes

from reports import formats
from reports.drawing import GREY, draw
from reports.findings import QuantityFindings, Round, findings, sentence
from reports.overlay import COLORS
from reports.page import fill_template, lines_of
from reports.plan import Plan
from reports.plots import Plot
from reports.quantities import QUANTITIES


def experiment_page(plan: Plan, rounds: Sequence[Round], environment: dict[str, object]) -> str:
    found = findings(plan, rounds)
    return fill_template(
        "experiment.html",
        plan=plan,
        found=found,
        sentences=[sentence(each, finding, plan) for each in found for finding in each.findings],
        plots=[_ratios(each, plan) for each in found if any(finding.paired for finding in each.findings)],
        rounds=rounds,
        environment=lines_of(environment),
    )


def _ratios(found: QuantityFindings, plan: Plan) -> Plot:
    def fill(axes: Axes) -> None:
        if found.floor is not None:
            axes.axhspan(*found.floor, color=GREY, alpha=0.25, linewidth=0, label="noise floor")
        axes.axhline(1, color=GREY, linewidth=1)
        for finding, color in zip(found.findings, COLORS * len(found.findings), strict=False):
            axes.plot(
                range(1, len(finding.ratios) + 1),
                finding.ratios,
                color=color,
                marker="o",
                markersize=4,
                linewidth=0.6,
                label=finding.arm,
            )
        axes.set_ylim(bottom=0)
        axes.set_xticks(range(1, plan.rounds + 1))
        axes.set_xlabel("round")
        axes.set_ylabel(f"ratio to {plan.baseline}")

    meaning = f"{formats.capital(QUANTITIES[found.name].meaning)}. " if found.name in QUANTITIES else ""
    caption = (
        f"{meaning}Each round by itself; {found.better} is better. Grey: the 95 % interval of {plan.again} to itself."
    )
    return Plot(found.name, caption, draw(found.name, fill))
