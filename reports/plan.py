"""The plan of an experiment: arms, rounds and what is measured, read from TOML. Pure, but for reading the file."""

from __future__ import annotations

import random
import re
import shlex
import tomllib
from pathlib import Path

import msgspec

from reports.errors import explained
from reports.paired import Better
from reports.quantities import QUANTITIES, nearest

AGAIN = " (again)"  # ends the name of the arm that is measured twice, for the noise floor
RUN_DIR = "{run_dir}"
WARM_UP_ROUNDS = 1

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._ -]*")  # arms are folders, too


class PlanError(Exception):
    """A plan that cannot be carried out; the message is a sentence for the user."""


class Plan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An experiment.

    command: the beginning of every arm's command. arms: name -> the rest of its command.
    A command with {run_dir} makes a run folder there, whose quantities are taken. Any other one prints, as its last
    line, a JSON object of numbers by name.
    quantities: what is compared, and which way is better. In TOML, names of reports.quantities need no direction.
    baseline: the arm that the others are related to. again: the arm that is measured twice in every round.
    """

    name: str
    command: str = ""
    arms: dict[str, str]
    baseline: str
    again: str
    quantities: dict[str, Better]
    rounds: int = 9
    seed: int = 0

    @property
    def measured(self) -> dict[str, str]:
        """Every arm of a round, the one for the noise floor included, with its command."""
        arms = {**self.arms, self.again + AGAIN: self.arms[self.again]}
        return {name: f"{self.command} {rest}".strip() for name, rest in arms.items()}

    def order(self, round_: int) -> list[str]:
        """The arms of a round (0: the warm-up) in the order in which they run; the same whenever it is asked for."""
        order = list(self.measured)
        random.Random(f"{self.seed}:{round_}").shuffle(order)
        return order


def read_plan(path: Path, rounds: int | None = None, further_args: str = "") -> Plan:
    """A plan with another number of rounds, and further arguments for every arm, if asked for.

    Raises PlanError and RunFolderError.
    """
    with explained(f"cannot read {path}"):
        text = path.read_text(encoding="utf-8")
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PlanError(f"{path} is no TOML: {error}.") from error
    if isinstance(names := table.get("quantities"), list):
        table["quantities"] = {name: _better(str(name), path) for name in names}
    table.setdefault("again", table.get("baseline"))
    if rounds is not None:
        table["rounds"] = rounds
    try:
        plan = msgspec.convert(table, Plan)
        _check(plan)
    except (msgspec.ValidationError, PlanError) as error:
        raise PlanError(f"{path} is no plan: {str(error).rstrip('.')}.") from error
    arms = {name: f"{rest} {further_args}".strip() for name, rest in plan.arms.items()}
    return msgspec.structs.replace(plan, arms=arms)


def _better(name: str, path: Path) -> Better:
    if name not in QUANTITIES:
        raise PlanError(f"{path} is no plan: no quantity is named '{name}'; {nearest(name)}")
    return QUANTITIES[name].better


def _check(plan: Plan) -> None:
    if len(plan.arms) < 2:
        raise PlanError(f"it should have two arms or more, found {len(plan.arms)}")
    for name in (plan.name, *plan.arms):
        if not _NAME.fullmatch(name):
            raise PlanError(f"'{name}' is no name; write letters, digits, spaces, '.', '_' and '-'")
    for kind, name in (("baseline", plan.baseline), ("again", plan.again)):
        if name not in plan.arms:
            raise PlanError(f"{kind} should be one of {', '.join(plan.arms)}, found '{name}'")
    if not plan.quantities:
        raise PlanError("it names no quantities")
    if plan.rounds < 2:
        raise PlanError(f"rounds should be at least 2 for an interval, found {plan.rounds}")
    for name, command in plan.measured.items():
        _check_command(name, command, plan)


def _check_command(arm: str, command: str, plan: Plan) -> None:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise PlanError(f"the command of {arm} cannot be split into words: {error}") from error
    if not words:
        raise PlanError(f"{arm} has no command")
    unknown = [name for name in plan.quantities if name not in QUANTITIES]
    if RUN_DIR in command and unknown:
        raise PlanError(f"no quantity of a run is named '{unknown[0]}'; {nearest(unknown[0])}")
