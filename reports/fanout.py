"""``python -m reports.fanout FOLDER``: one page of an end-to-end measurement of the output fan-out.

FOLDER is what ``python -m mockengine.fanout end-to-end`` wrote, finished or not: plan.json, raw.jsonl with a trial a
line, and failed.jsonl. The page is of whole rounds, in which every trial of the plan was made.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

import msgspec
import numpy as np

from reports.exit_codes import EXIT_USAGE
from reports.page import fill_template
from reports.paired import Interval, Paired, compare, median_interval, noise_floor

BASELINE, AGAIN = "reference", "reference-again"
QUANTITIES = ("first_row_ms", "last_row_ms", "itl_p50_ms", "itl_p95_ms", "itl_p99_ms", "e2e_ms", "e2e_p99_ms")
_NUMBERS = (*QUANTITIES, "itl_excess_ms", "rows_per_s", "rows_of_a_batch", "busy", "steps")

Regime = Literal["overlapped", "at the knee", "bottleneck"]
_Line = TypeVar("_Line", bound=msgspec.Struct)


class FanoutError(Exception):
    """A folder that has no such measurement; the text is a sentence."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """As mockengine.fanout.sweep writes it. cells: by their names."""

    cells: dict[str, Any]
    arms: list[str]
    rounds: int


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A trial that failed."""

    cell: str
    arm: str
    round: int
    reason: str


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """One trial; the fields are those of mockengine.fanout.journeys.EndToEndTrial."""

    cell: str
    arm: str
    round: int
    first_row_ms: float
    last_row_ms: float
    itl_p50_ms: float
    itl_p95_ms: float
    itl_p99_ms: float
    itl_excess_ms: float
    e2e_ms: float
    e2e_p99_ms: float
    rows_per_s: float
    rows_of_a_batch: float
    busy: float
    steps: float
    decodes: dict[str, float]
    stage_ms: dict[str, float]
    cpu: dict[str, float]
    backlog: dict[str, float]


class ArmOfCell(NamedTuple):
    """Medians over rounds, of each number. busy: the interval of its median."""

    name: str
    median: dict[str, float]
    busy: Interval
    decodes: dict[str, float]
    stage_ms: dict[str, float]
    cpu: dict[str, float]
    backlog: dict[str, float]

    @property
    def regime(self) -> Regime:
        """Whether the splitting process has time to spare between batches; at the knee, that can't be told."""
        return "overlapped" if self.busy.high < 1 else "bottleneck" if self.busy.low >= 1 else "at the knee"


class Saving(NamedTuple):
    arm: str
    paired: Paired

    @property
    def text(self) -> str:
        low, high = (100 * (1 - ratio) for ratio in reversed(self.paired.interval))
        return f"{self.paired.reduction_percent:.1f} % ({low:.1f} to {high:.1f})"


class Cell(NamedTuple):
    """rounds: whole ones in which no arm failed; with fewer than two there is nothing to compare, and with none no arm.

    floor: of the end-to-end time, what the baseline differs from itself by.
    """

    name: str
    rounds: int
    arms: list[ArmOfCell]
    floor: Interval | None
    savings: list[Saving]

    @property
    def regime(self) -> Regime:
        """With the baseline's way of splitting, whose time is what can be saved."""
        return next(arm.regime for arm in self.arms if arm.name == BASELINE)

    @property
    def floor_text(self) -> str:
        assert self.floor is not None  # where there are savings
        low, high = (100 * (1 - ratio) for ratio in reversed(self.floor))
        return f"{low:.1f} to {high:.1f} %"


class Sweep(NamedTuple):
    """whole: rounds in which every trial was made, of those that were planned."""

    cells: list[Cell]
    whole: int
    planned: int
    failures: list[Failure]


def read_sweep(plan_json: bytes, raw: bytes, failed: bytes) -> Sweep:
    """Of the texts of plan.json, raw.jsonl and failed.jsonl. Raises FanoutError."""
    try:
        plan = msgspec.json.decode(plan_json, type=Plan)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise FanoutError(f"plan.json is no plan of an end-to-end measurement: {error}.") from error
    if missing := {BASELINE, AGAIN} - set(plan.arms):
        raise FanoutError(f"The plan has no arm {' and '.join(sorted(missing))}; measure all arms.")
    trials = {(line.round, line.cell, line.arm): line for line in _lines("raw.jsonl", raw, Line)}
    failures = _lines("failed.jsonl", failed, Failure)
    made = trials.keys() | {(one.round, one.cell, one.arm) for one in failures}
    whole = [
        number
        for number in range(plan.rounds)
        if all((number, cell, arm) in made for cell in plan.cells for arm in plan.arms)
    ]
    if not whole:
        raise FanoutError("No round is whole yet; go on with the measurement by the command that began it.")
    cells = []
    for name in plan.cells:
        rounds = [number for number in whole if all((number, name, arm) in trials for arm in plan.arms)]
        cells.append(_cell(name, {arm: [trials[number, name, arm] for number in rounds] for arm in plan.arms}))
    return Sweep(cells, len(whole), plan.rounds, failures)


def _lines(name: str, text: bytes, kind: type[_Line]) -> list[_Line]:
    """Whole lines; one that was cut is of what was not finished."""
    found = []
    for number, line in enumerate(text.split(b"\n")[:-1], 1):
        try:
            found.append(msgspec.json.decode(line, type=kind))
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise FanoutError(f"Line {number} of {name} is none of an end-to-end measurement: {error}.") from error
    return found


def _cell(name: str, arms: dict[str, list[Line]]) -> Cell:
    """The lines of each arm are of the same rounds, in the same order."""
    rounds = len(arms[BASELINE])
    measured = [_arm(arm, lines) for arm, lines in arms.items() if lines]
    if rounds < 2:
        return Cell(name, rounds, measured, None, [])
    e2e = {arm: [line.e2e_ms for line in lines] for arm, lines in arms.items()}
    try:
        floor = noise_floor(e2e[BASELINE], e2e[AGAIN])
        savings = [Saving(arm, compare(e2e[BASELINE], e2e[arm], floor)) for arm in arms if arm not in (BASELINE, AGAIN)]
    except ValueError as error:
        raise FanoutError(f"{name} can't be compared: {error}") from error
    return Cell(name, rounds, measured, floor, savings)


def _arm(name: str, lines: Sequence[Line]) -> ArmOfCell:
    def medians(of: Sequence[dict[str, float]]) -> dict[str, float]:
        return {key: float(np.median([one[key] for one in of])) for key in of[0]}

    return ArmOfCell(
        name,
        medians([{key: getattr(line, key) for key in _NUMBERS} for line in lines]),
        median_interval([line.busy for line in lines]),
        medians([line.decodes for line in lines]),
        medians([line.stage_ms for line in lines]),
        medians([line.cpu for line in lines]),
        medians([line.backlog for line in lines]),
    )


_EXPLAINED: dict[Regime, str] = {
    "overlapped": "Where the splitting process has time to spare",
    "at the knee": "Where it can't be told whether it has",
    "bottleneck": "Where it has not",
}


def answer(cells: Sequence[Cell]) -> str:
    """What the saving is of a served request's time, in a sentence for each regime."""
    sentences = []
    for regime, explained in _EXPLAINED.items():
        found = [saving for cell in cells if cell.savings and cell.regime == regime for saving in cell.savings]
        if not found:
            if regime != "at the knee":
                sentences.append(f"{explained}: not measured.")
            continue
        told = [saving.paired.reduction_percent for saving in found if saving.paired.finding != "not detectable"]
        span = f": {min(told):.1f} to {max(told):.1f} % saved" if told else ""
        sentences.append(
            f"{explained}, a difference of a request's time is detectable in {len(told)} of {len(found)} "
            f"comparisons{span}."
        )
    return " ".join(sentences)


def page(sweep: Sweep, source: str) -> str:
    return fill_template("fanout.html", sweep=sweep, answer=answer(sweep.cells), quantities=QUANTITIES, source=source)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m reports.fanout", description="A page of the whole rounds of an end-to-end measurement."
    )
    parser.add_argument("folder", type=Path, help="the --output of python -m mockengine.fanout end-to-end")
    parser.add_argument("--out", type=Path, help="the page (default: fanout.html in FOLDER)")
    options = parser.parse_args(arguments)
    folder: Path = options.folder
    out: Path = options.out or folder / "fanout.html"
    try:
        failed = folder / "failed.jsonl"
        sweep = read_sweep(
            (folder / "plan.json").read_bytes(),
            (folder / "raw.jsonl").read_bytes(),
            failed.read_bytes() if failed.exists() else b"",
        )
        out.write_text(page(sweep, str(folder)), "utf-8")
    except (FanoutError, OSError) as error:
        print(f"python -m reports.fanout: {error}", file=sys.stderr)
        return EXIT_USAGE
    print(answer(sweep.cells))
    print(f"page of {sweep.whole} whole rounds of {sweep.planned}: {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
