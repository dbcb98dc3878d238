"""``python -m reports.fanout RAW``: one page of an end-to-end measurement of the output fan-out.

RAW is what ``python -m mockengine.fanout end-to-end`` wrote: trials as ``reports.rounds`` reads them, each with times
in ms, with ``busy``, the share of its time that the process which splits batches needs, and more.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from reports.exit_codes import EXIT_USAGE
from reports.page import fill_template
from reports.paired import Interval, Paired, compare, noise_floor

BASELINE, AGAIN = "reference", "reference-again"
QUANTITIES = ("first_row_ms", "last_row_ms", "itl_p50_ms", "itl_p95_ms", "itl_p99_ms", "e2e_ms", "e2e_p99_ms")


class FanoutError(Exception):
    """A file that is no such measurement; the text is a sentence."""


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
    stage_ms: dict[str, float]
    cpu: dict[str, float]
    backlog: dict[str, int]


class ArmOfCell(NamedTuple):
    """median: of each number, over rounds."""

    name: str
    median: dict[str, float]
    stage_ms: dict[str, float]
    cpu: dict[str, float]
    backlog: dict[str, float]


class Saving(NamedTuple):
    arm: str
    paired: Paired

    @property
    def text(self) -> str:
        low, high = (100 * (1 - ratio) for ratio in reversed(self.paired.interval))
        return f"{self.paired.reduction_percent:.1f} % ({low:.1f} to {high:.1f})"


class Cell(NamedTuple):
    """floor: of the end-to-end time, what the baseline differs from itself by."""

    name: str
    arms: list[ArmOfCell]
    floor: Interval
    savings: list[Saving]

    @property
    def busy(self) -> float:
        return next(arm.median["busy"] for arm in self.arms if arm.name == BASELINE)

    @property
    def regime(self) -> str:
        """Whether the splitting process has time to spare between batches, with the baseline's way of splitting."""
        return "bottleneck" if self.busy >= 1 else "overlapped"

    @property
    def floor_text(self) -> str:
        low, high = (100 * (1 - ratio) for ratio in reversed(self.floor))
        return f"{low:.1f} to {high:.1f} %"


def read_cells(lines: Iterable[bytes]) -> list[Cell]:
    """Raises FanoutError."""
    trials: dict[str, dict[str, list[Line]]] = {}
    for number, text in enumerate(lines, 1):
        try:
            line = msgspec.json.decode(text, type=Line)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise FanoutError(f"Line {number} is no trial of an end-to-end measurement: {error}.") from error
        if line.round >= 0:
            trials.setdefault(line.cell, {}).setdefault(line.arm, []).append(line)
    if not trials:
        raise FanoutError("There is no trial in the file; was the measurement stopped at once?")
    return [_cell(name, arms) for name, arms in trials.items()]


def _cell(name: str, arms: dict[str, list[Line]]) -> Cell:
    if missing := {BASELINE, AGAIN} - arms.keys():
        raise FanoutError(f"{name} has no arm {' and '.join(sorted(missing))}; measure all arms.")
    e2e = {arm: [line.e2e_ms for line in sorted(of_arm, key=lambda line: line.round)] for arm, of_arm in arms.items()}
    try:
        floor = noise_floor(e2e[BASELINE], e2e[AGAIN])
        savings = [
            Saving(arm, compare(e2e[BASELINE], e2e[arm], floor)) for arm in sorted(arms.keys() - {BASELINE, AGAIN})
        ]
    except ValueError as error:
        raise FanoutError(f"{name} can't be compared: {error}") from error
    return Cell(name, [_arm(arm, arms[arm]) for arm in sorted(arms)], floor, savings)


def _arm(name: str, lines: Sequence[Line]) -> ArmOfCell:
    def medians(of: Sequence[dict[str, float]]) -> dict[str, float]:
        return {key: float(np.median([one[key] for one in of])) for key in of[0]}

    numbers = [*QUANTITIES, "itl_excess_ms", "rows_per_s", "rows_of_a_batch", "busy"]
    return ArmOfCell(
        name,
        medians([{key: getattr(line, key) for key in numbers} for line in lines]),
        medians([line.stage_ms for line in lines]),
        medians([line.cpu for line in lines]),
        medians([{key: float(value) for key, value in line.backlog.items()} for line in lines]),
    )


def answer(cells: Sequence[Cell]) -> str:
    """What the saving is of a served request's time, in a sentence for each regime."""
    sentences = []
    for regime, explained in (
        ("overlapped", "Where the splitting process has time to spare"),
        ("bottleneck", "Where it has not"),
    ):
        found = [saving for cell in cells if cell.regime == regime for saving in cell.savings]
        if not found:
            sentences.append(f"{explained}: not measured.")
            continue
        told = [saving.paired.reduction_percent for saving in found if saving.paired.finding != "not detectable"]
        span = f": {min(told):.1f} to {max(told):.1f} % saved" if told else ""
        sentences.append(
            f"{explained}, a difference of a request's time is detectable in {len(told)} of {len(found)} "
            f"comparisons{span}."
        )
    return " ".join(sentences)


def page(cells: Sequence[Cell], source: str) -> str:
    return fill_template("fanout.html", cells=cells, answer=answer(cells), quantities=QUANTITIES, source=source)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m reports.fanout", description="A page of an end-to-end measurement."
    )
    parser.add_argument("raw", type=Path, help="the raw.jsonl of python -m mockengine.fanout end-to-end")
    parser.add_argument("--out", type=Path, help="the page (default: fanout.html beside RAW)")
    options = parser.parse_args(arguments)
    out: Path = options.out or options.raw.with_name("fanout.html")
    try:
        with options.raw.open("rb") as lines:
            cells = read_cells(lines)
        out.write_text(page(cells, str(options.raw)), "utf-8")
    except (FanoutError, OSError) as error:
        print(f"python -m reports.fanout: {error}", file=sys.stderr)
        return EXIT_USAGE
    print(answer(cells))
    print(f"page: {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
