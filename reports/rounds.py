"""``python -m reports.rounds RAW``: arms that were measured in the same rounds, compared cell by cell.

RAW has a JSON object a line: ``cell`` (what was measured), ``arm``, ``round`` (below 0: a warm-up, left out), and one
number for each metric, of which repetitions in the same round are averaged.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from reports.exit_codes import EXIT_USAGE
from reports.paired import compare, noise_floor

# cell -> arm -> round -> values of the repetitions
Trials = dict[str, dict[str, dict[int, list[float]]]]


class RoundsError(Exception):
    """A file that can't be compared; the text is a sentence."""


class _Line(msgspec.Struct):
    cell: str
    arm: str
    round: int


def read_trials(lines: Iterable[bytes], metric: str) -> Trials:
    """Raises RoundsError for a line that is no trial, or has no such metric."""
    trials: Trials = {}
    for number, line in enumerate(lines, 1):
        try:
            values: dict[str, Any] = msgspec.json.decode(line, type=dict[str, Any])
            one = msgspec.convert(values, _Line)
            value = msgspec.convert(values.get(metric), float)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise RoundsError(f"Line {number} is no trial with a number for {metric!r}: {error}.") from error
        if one.round >= 0:
            trials.setdefault(one.cell, {}).setdefault(one.arm, {}).setdefault(one.round, []).append(value)
    return trials


def table(trials: Trials, baseline: str, again: str) -> str:
    """Each arm beside the baseline, with ``again``, the same as the baseline, as what noise looks like.

    Raises RoundsError when an arm lacks a round that the baseline has.
    """
    lines = [
        f"{'':24}{'arm':18}{'baseline ms':>13}{'arm ms':>10}{'reduction':>11}{'95 % interval':>19}{'won':>7}  finding"
    ]
    for cell, arms in trials.items():
        means = {arm: _means(rounds) for arm, rounds in arms.items()}
        if baseline not in means or again not in means:
            raise RoundsError(f"{cell} has no arm {baseline!r} and {again!r}; it has {', '.join(means)}.")
        try:
            floor = noise_floor(means[baseline], means[again])
            found = {arm: compare(means[baseline], of_arm, floor) for arm, of_arm in means.items() if arm != baseline}
        except ValueError as error:
            raise RoundsError(f"{cell} can't be compared: {error}") from error
        for arm in sorted(found, key=lambda arm: (arm != again, arm)):
            one = found[arm]
            interval = f"{100 * (1 - one.interval.high):.1f} to {100 * (1 - one.interval.low):.1f} %"
            finding = "the noise floor" if arm == again else one.finding
            lines.append(
                f"{cell:24}{arm:18}{one.baseline_median:>13.2f}{one.median:>10.2f}{one.reduction_percent:>9.1f} %"
                f"{interval:>19}{f'{one.won}/{one.rounds}':>7}  {finding}"
            )
    return "\n".join(lines)


def _means(rounds: dict[int, list[float]]) -> list[float]:
    """In the order of the rounds, of the mean of each one's repetitions."""
    return [float(np.mean(rounds[number])) for number in sorted(rounds)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m reports.rounds", description="Compare arms of paired rounds.")
    parser.add_argument("raw", type=Path, help="a file with one trial a line")
    parser.add_argument("--metric", default="complete_ms", help="default complete_ms")
    parser.add_argument("--baseline", default="reference", help="the arm to compare with (default reference)")
    parser.add_argument("--again", default="reference-again", help="the same as the baseline, measured as another arm")
    options = parser.parse_args(arguments)
    try:
        with options.raw.open("rb") as lines:
            print(f"{options.metric}, {options.raw}")
            print(table(read_trials(lines, options.metric), options.baseline, options.again))
    except (RoundsError, OSError) as error:
        print(f"python -m reports.rounds: {error}", file=sys.stderr)
        return EXIT_USAGE
    return 0


if __name__ == "__main__":
    sys.exit(main())
