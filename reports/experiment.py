"""Experiments: the arms of a plan, run in paired rounds whose order is shuffled; every round kept, and resumable."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

import msgspec

from reports import environment
from reports.errors import RunFolderError, explained
from reports.findings import Figures, Round
from reports.plan import RUN_DIR, WARM_UP_ROUNDS, Plan
from reports.quantities import QUANTITIES
from reports.run_folder import RunFolder

_STOP_WITHIN_S = 120.0  # a soak that is told to stop drains first


class ExperimentError(Exception):
    """An arm did not measure; the message is a sentence for the user."""


class ExperimentFolder:
    """A directory with plan.json, environment.json, rounds.jsonl, a folder for each round, and experiment.html.

    Methods raise RunFolderError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.experiment_html = path / "experiment.html"
        self._plan = path / "plan.json"
        self._environment = path / "environment.json"
        self._rounds = path / "rounds.jsonl"

    def begin(self, plan: Plan) -> list[Round]:
        """Make the folder, or go on with it when it is of the same plan; the rounds that it has."""
        with explained(f"cannot use {self.path}"):
            if not self.path.exists():
                self.path.mkdir(parents=True)
            if not self._plan.exists() and not any(self.path.iterdir()):
                self._environment.write_bytes(msgspec.json.encode(environment.capture()))
                self._plan.write_bytes(msgspec.json.format(msgspec.json.encode(plan)))
            if not self._plan.exists():
                raise RunFolderError(f"{self.path} holds something else than an experiment; choose another --out.")
            if msgspec.json.decode(self._plan.read_bytes()) != msgspec.to_builtins(plan):
                raise RunFolderError(
                    f"{self.path} holds an experiment of another plan; choose another --out, or remove it."
                )
        return self.rounds()

    def rounds(self) -> list[Round]:
        """Those that were finished; a line that was cut is of one that was not."""
        if not self._rounds.exists():
            return []
        with explained(f"cannot read {self._rounds}"):
            lines = self._rounds.read_bytes().split(b"\n")[:-1]
            return [msgspec.json.decode(line, type=Round) for line in lines]

    def environment(self) -> dict[str, object]:
        with explained(f"cannot read {self._environment}"):
            return msgspec.json.decode(self._environment.read_bytes(), type=dict[str, object])

    def add(self, rounds: Sequence[Round]) -> None:
        """All rounds so far, so that a line that was cut earlier does not stay."""
        temporary = self._rounds.with_suffix(".new")
        with explained(f"cannot write {self._rounds}"):
            temporary.write_bytes(b"".join(msgspec.json.encode(round_) + b"\n" for round_ in rounds))
            temporary.replace(self._rounds)

    def write_page(self, html: str) -> None:
        with explained(f"cannot write {self.experiment_html}"):
            self.experiment_html.write_text(html, encoding="utf-8")

    def arm_folder(self, number: int, arm: str) -> Path:
        """An empty folder for one measurement; what an interrupted round left there is removed."""
        folder = self.path / f"round-{number:02d}" / arm.replace(" ", "-")
        with explained(f"cannot make {folder}"):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
        return folder


def run_experiment(plan: Plan, folder: ExperimentFolder, show: Callable[[str], None]) -> list[Round]:
    """Run the rounds that are missing. A round that was interrupted is run again as a whole: its arms are a pair.

    Raises ExperimentError, RunFolderError; KeyboardInterrupt also on SIGTERM.
    """
    rounds = folder.begin(plan)
    with _terminated_like_interrupted():
        for number in range(len(rounds), WARM_UP_ROUNDS + plan.rounds):
            started_utc = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            figures: dict[str, Figures] = {}
            for arm in plan.order(number):
                show(f"round {number} of {plan.rounds}{' (warm-up)' if number < WARM_UP_ROUNDS else ''}: {arm}")
                figures[arm] = _measure(plan.measured[arm], folder.arm_folder(number, arm), list(plan.quantities))
            rounds.append(Round(number=number, started_utc=started_utc, order=plan.order(number), figures=figures))
            folder.add(rounds)
    return rounds


def _measure(command: str, folder: Path, quantities: Sequence[str]) -> Figures:
    """Run one arm's command to its end, and take its figures."""
    run_dir = folder / "run"
    words = [word.replace(RUN_DIR, str(run_dir)) for word in shlex.split(command)]
    code = _run(words, folder)
    if code != 0:
        raise ExperimentError(f"'{words[0]}' ended with the exit code {code}; see {folder}. {_RESUME}")
    if RUN_DIR in command:
        document = RunFolder.open(run_dir).read_document()
        return {name: QUANTITIES[name].of(document) for name in quantities}
    return _printed(folder / "stdout.txt", quantities)


_RESUME = "The rounds before are kept: the same command goes on from there."


def _run(words: Sequence[str], folder: Path) -> int:
    # Programs of this virtual environment, such as locust, are found without its activation.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    with (folder / "stdout.txt").open("wb") as out, (folder / "stderr.txt").open("wb") as err:
        program = shutil.which(words[0], path=path)
        if program is None:
            raise ExperimentError(f"there is no program '{words[0]}'.")
        process = subprocess.Popen(
            [program, *words[1:]], stdout=out, stderr=err, stdin=subprocess.DEVNULL, env={**os.environ, "PATH": path}
        )
        try:
            return process.wait()
        except BaseException:
            process.terminate()
            try:
                process.wait(_STOP_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
            raise


def _printed(stdout: Path, quantities: Sequence[str]) -> Figures:
    """The figures in the JSON object that a command printed last."""
    lines = stdout.read_bytes().strip().splitlines()
    try:
        figures = msgspec.json.decode(lines[-1] if lines else b"", type=dict[str, float])
    except msgspec.DecodeError as error:
        raise ExperimentError(f"the last line of {stdout} is no JSON object of numbers: {error}.") from error
    missing = [name for name in quantities if name not in figures]
    if missing:
        raise ExperimentError(f"the last line of {stdout} has no '{missing[0]}', only {', '.join(figures)}.")
    return {name: figures[name] for name in quantities}


@contextmanager
def _terminated_like_interrupted() -> Iterator[None]:
    """SIGTERM ends the arm that is running, as Ctrl-C does, instead of leaving it behind."""

    def interrupt(_signum: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
