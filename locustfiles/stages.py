"""Loads that change on a schedule: stages of an arrival rate or of a number outstanding, one after the other. Pure.

A TOML file has a list of stages. ``ramp = true`` goes evenly from the level of the stage before (the first: from
nothing) to its own; a stage without it is level:

    arrivals = "poisson"        # how the futures of rates are spread: constant (the default) or poisson

    [[stages]]
    duration = "60s"
    rate = 100                  # futures a second; or outstanding = 2000

    [[stages]]
    duration = "5m"
    rate = 300
    ramp = true
"""

from __future__ import annotations

import tomllib
from argparse import ArgumentTypeError
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from locustfiles.durations import parse_duration
from reports.schema import Stage

Times = npt.NDArray[np.float64]
Spread = Literal["constant", "poisson"]


class StagesError(Exception):
    """The stages cannot be used; the text is a sentence for the user."""


class Stages(NamedTuple):
    """spread: of the futures of stages with a rate; None when the stages say how many are outstanding."""

    spread: Spread | None
    stages: list[Stage]


class _StageTable(msgspec.Struct, forbid_unknown_fields=True):
    duration: str
    rate: float | None = None
    outstanding: int | None = None
    ramp: bool = False


class _File(msgspec.Struct, forbid_unknown_fields=True):
    stages: list[_StageTable]
    arrivals: Spread = "constant"


def read_stages(path: Path) -> Stages:
    """Raises StagesError."""
    try:
        file = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _File)
    except OSError as error:
        raise StagesError(f"Cannot read the stages in {path}: {(error.strerror or str(error)).lower()}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise StagesError(f"The file of stages {path} is no TOML: {error}.") from error
    except msgspec.ValidationError as error:
        raise StagesError(
            f"The file of stages {path} is not as it should be: {error}. It has [[stages]], each with duration, "
            "rate or outstanding, and ramp if wanted."
        ) from error
    stages = [_stage(path, number, table) for number, table in enumerate(file.stages, start=1)]
    if len({stage.rate_per_s is None for stage in stages}) > 1:
        raise StagesError(f"The stages in {path} have rates and numbers outstanding. Give all of them the same one.")
    if not any(_level(stage) for stage in stages):
        raise StagesError(f"The stages in {path} ask for no future at all. Give one of them a rate or outstanding.")
    return Stages(file.arrivals if stages[0].rate_per_s is not None else None, stages)


def _stage(path: Path, number: int, table: _StageTable) -> Stage:
    where = f"Stage {number} in {path}"
    try:
        duration_s = parse_duration(table.duration)
    except ArgumentTypeError as error:
        raise StagesError(f"{where}: {error}.") from error
    if duration_s <= 0:
        raise StagesError(f"{where} should last some time, found '{table.duration}'.")
    if (table.rate is None) == (table.outstanding is None):
        raise StagesError(f"{where} should have either rate or outstanding.")
    stage = Stage(duration_s=duration_s, rate_per_s=table.rate, outstanding=table.outstanding, ramp=table.ramp)
    if not 0 <= _level(stage) < np.inf:
        raise StagesError(f"{where} should have a level of 0 or more, found {_level(stage):g}.")
    return stage


def length_s(stages: Sequence[Stage]) -> float:
    return sum(stage.duration_s for stage in stages)


def most_outstanding(stages: Sequence[Stage]) -> int:
    return max(stage.outstanding or 0 for stage in stages)


def outstanding_at(stages: Sequence[Stage], at_s: float) -> int:
    """Futures to keep outstanding ``at_s`` seconds after the start; none when the stages are over."""
    for piece in _pieces(stages):
        if at_s < piece.start_s + piece.duration_s:
            return round(piece.first + (piece.last - piece.first) * (at_s - piece.start_s) / piece.duration_s)
    return 0


def due_times(stages: Sequence[Stage], spread: Spread, seed: int) -> Times:
    """Every future's intended start, in seconds since the start, never decreasing.

    Stages stretch and squeeze an even rate: with m(t) futures expected by the time t, the arrivals of a process with
    one a second, put through the inverse of m, are those of the process at the stages' rates (time change of a Poisson
    process; for an even spread the k-th future is due when k are expected).
    """
    pieces = _pieces(stages)
    expected = np.array([(piece.first + piece.last) / 2 * piece.duration_s for piece in pieces])
    before = np.concatenate(([0.0], np.cumsum(expected)))
    if spread == "constant":
        units = np.arange(np.ceil(before[-1]))
    else:  # a Poisson process on an interval is a Poisson number of independent even draws
        draw = np.random.default_rng(seed)
        units = np.sort(draw.uniform(0.0, before[-1], draw.poisson(before[-1])))
    at = np.minimum(np.searchsorted(before, units, side="right") - 1, len(pieces) - 1)
    start, duration, first, last = (np.array(column, dtype=float)[at] for column in zip(*pieces, strict=True))
    inside, slope = units - before[at], (last - first) / duration
    # The root of first * t + slope / 2 * t ** 2 = inside, in the form that holds for a slope of 0 too.
    root = first + np.sqrt(np.maximum(first**2 + 2 * slope * inside, 0.0))
    since = np.divide(2 * inside, root, out=np.zeros_like(inside), where=root > 0)
    return np.maximum.accumulate(start + np.minimum(since, duration))


class _Piece(NamedTuple):
    """A stage's place in time, and its level at both of its ends."""

    start_s: float
    duration_s: float
    first: float
    last: float


def _pieces(stages: Sequence[Stage]) -> list[_Piece]:
    pieces: list[_Piece] = []
    start_s = level = 0.0
    for stage in stages:
        first, level = level if stage.ramp else _level(stage), _level(stage)
        pieces.append(_Piece(start_s, stage.duration_s, first, level))
        start_s += stage.duration_s
    return pieces


def _level(stage: Stage) -> float:
    return (stage.outstanding if stage.rate_per_s is None else stage.rate_per_s) or 0.0
