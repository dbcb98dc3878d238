"""A sweep on disk: its plan, every trial as soon as it is finished, and what is missing of one that was interrupted.

Rounds are outermost, so that a sweep which is stopped early has whole rounds of every cell. The arms of a cell in a
round are compared with each other, so those that were interrupted, or of which one failed, are measured again together.
"""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from mockengine.fanout.bench import ORDER_SEED, BenchError


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What plan.json says. cells: name -> what is measured there. arms: of each cell in each round."""

    cells: dict[str, Any]
    arms: list[str]
    rounds: int

    def order(self, round_number: int, cell: str) -> list[str]:
        """The arms as they are measured; the same whenever it is asked for."""
        order = list(self.arms)
        random.Random(f"{ORDER_SEED}:{round_number}:{cell}").shuffle(order)
        return order


class Place(NamedTuple):
    """Of a trial in the sweep."""

    round: int
    cell: str
    arm: str


class _Trial(msgspec.Struct):
    round: int
    cell: str
    arm: str
    took_s: float

    @property
    def place(self) -> Place:
        return Place(self.round, self.cell, self.arm)


class SweepFolder:
    """plan.json, raw.jsonl with a line for each trial, and failed.jsonl with a line for each that failed."""

    def __init__(self, path: Path, plan: Plan) -> None:
        """Make the folder, or go on with it when it is of the same plan. Raises BenchError and OSError."""
        self._plan = plan
        self._raw, self._failed = path / "raw.jsonl", path / "failed.jsonl"
        plan_json = path / "plan.json"
        path.mkdir(parents=True, exist_ok=True)
        if not plan_json.exists():
            if any(path.iterdir()):
                raise BenchError(f"{path} holds something else than a sweep; name another folder.")
            plan_json.write_bytes(msgspec.json.format(msgspec.json.encode(plan)) + b"\n")
        if msgspec.json.decode(plan_json.read_bytes()) != msgspec.to_builtins(plan):
            raise BenchError(f"{path} holds a sweep of another plan; name another folder, or remove it.")
        self._took_s: dict[Place, float] = {}
        self._keep_whole()

    def _keep_whole(self) -> None:
        """A line that was cut, and arms of which others are missing, don't stay."""
        lines = self._raw.read_bytes().split(b"\n")[:-1] if self._raw.exists() else []
        trials = {trial.place: trial for trial in (msgspec.json.decode(line, type=_Trial) for line in lines)}
        kept = [
            line
            for line, place in zip(lines, trials, strict=True)
            if all(place._replace(arm=arm) in trials for arm in self._plan.arms)
        ]
        temporary = self._raw.with_suffix(".new")
        temporary.write_bytes(b"".join(line + b"\n" for line in kept))
        temporary.replace(self._raw)
        self._took_s = {
            trial.place: trial.took_s for trial in (msgspec.json.decode(line, type=_Trial) for line in kept)
        }

    def missing(self) -> list[Place]:
        """In the order in which they are to be measured."""
        return [
            place
            for number in range(self._plan.rounds)
            for cell in self._plan.cells
            for arm in self._plan.order(number, cell)
            if (place := Place(number, cell, arm)) not in self._took_s
        ]

    def left_s(self, missing: list[Place]) -> float | None:
        """How long they will take, as each arm of each cell took so far; one not yet measured, as others did."""
        if not self._took_s:
            return None
        known: dict[tuple[str, str], list[float]] = {}
        for place, took_s in self._took_s.items():
            known.setdefault((place.cell, place.arm), []).append(took_s)
        means = {key: float(np.mean(took)) for key, took in known.items()}
        otherwise = float(np.mean(list(means.values())))
        return sum(means.get((place.cell, place.arm), otherwise) for place in missing)

    def add(self, place: Place, took_s: float, measured: Mapping[str, Any]) -> None:
        self._took_s[place] = took_s
        _append(self._raw, {**place._asdict(), "took_s": took_s, **measured})

    def add_failed(self, place: Place, reason: str) -> None:
        _append(self._failed, {**place._asdict(), "reason": reason})


def _append(path: Path, line: Mapping[str, Any]) -> None:
    with path.open("ab") as file:
        file.write(msgspec.json.encode(line) + b"\n")
        file.flush()
        os.fsync(file.fileno())
