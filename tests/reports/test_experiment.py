"""Experiments: plans that are refused, rounds with real commands, interruption, and what is found."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from reports.errors import RunFolderError
from reports.experiment import ExperimentError, ExperimentFolder, run_experiment
from reports.experiment_page import experiment_page
from reports.findings import Round, findings, sentence
from reports.plan import AGAIN, Plan, PlanError, read_plan
from tests.reports.html_page import refers_to_nothing_outside_itself
from tests.waiting import wait_for

ROOT = Path(__file__).parents[2]
PLANS = sorted((ROOT / "locustfiles/experiments").glob("*.toml"))

# An arm: it appends its name to a log, then prints its figure.
ARM = 'python -c \'import sys; open(sys.argv[1], "a").write(sys.argv[2]); print("{\\"cost\\": " + sys.argv[3] + "}")\''


def plan(log: Path, rounds: int = 3, **arms: str) -> Plan:
    arms = arms or {"a": f"{log} a 10", "b": f"{log} b 5"}
    return Plan(
        name="x", command=ARM, arms=arms, baseline="a", again="a", quantities={"cost": "lower"}, rounds=rounds, seed=3
    )


def test_every_round_has_every_arm_and_the_warm_up_is_left_out(tmp_path: Path) -> None:
    asked = plan(tmp_path / "log")
    rounds = run_experiment(asked, ExperimentFolder(tmp_path / "out"), lambda _: None)
    assert [round_.number for round_ in rounds] == [0, 1, 2, 3]
    assert (tmp_path / "log").read_text() == "".join(arm[0] for round_ in rounds for arm in round_.order)
    (found,) = findings(asked, rounds)
    (finding,) = found.findings
    assert found.floor == (1, 1)
    assert finding.paired is not None
    assert (finding.paired.rounds, finding.paired.ratio, finding.paired.won) == (3, 0.5, 3)
    assert "cost of b is 50.0 % lower than of a" in sentence(found, finding, asked)


def test_the_noise_floor_is_that_of_the_arm_which_runs_twice(tmp_path: Path) -> None:
    asked = msgspec.structs.replace(plan(tmp_path / "log"), again="b")
    figures = {"a": {"cost": 10.0}, "b": {"cost": 5.0}, "b" + AGAIN: {"cost": 5.5}}
    rounds = [Round(number=number, started_utc="", order=list(figures), figures=figures) for number in (1, 2, 3)]
    (found,) = findings(asked, rounds)
    assert found.floor == pytest.approx((1.1, 1.1))


@pytest.mark.parametrize(
    ("arm", "words"),
    [
        (5.0, "cost of b is 50.0 % lower than of a (95 % interval 50.0 to 50.0 %): 5 beside 10; better in 3 of 3"),
        (19.0, "cost of b is 90.0 % higher than of a (95 % interval 90.0 to 90.0 %): 19 beside 10; better in 0 of 3"),
        (225.0, "cost of b is 22.5 times that of a (95 % interval 22.5 to 22.5): 225 beside 10; better in 0 of 3"),
        (10.0, "cost: no difference between b and a can be detected (10 beside 10)."),
    ],
)
def test_findings_in_words(tmp_path: Path, arm: float, words: str) -> None:
    asked = plan(tmp_path / "log")
    figures = {"a": {"cost": 10.0}, "a" + AGAIN: {"cost": 10.0}, "b": {"cost": arm}}
    rounds = [Round(number=number, started_utc="", order=list(figures), figures=figures) for number in (1, 2, 3)]
    (found,) = findings(asked, rounds)
    assert words in sentence(found, found.findings[0], asked)


def test_the_order_is_shuffled_but_the_same_each_time(tmp_path: Path) -> None:
    asked = plan(tmp_path / "log")
    orders = [asked.order(number) for number in range(20)]
    assert orders == [asked.order(number) for number in range(20)]
    assert len(set(map(tuple, orders))) > 3
    assert {tuple(sorted(order)) for order in orders} == {("a", "a" + AGAIN, "b")}


def test_an_interrupted_round_is_run_again_as_a_whole(tmp_path: Path) -> None:
    log, out = tmp_path / "log", tmp_path / "out"
    asked = plan(log)
    rounds = run_experiment(asked, ExperimentFolder(out), lambda _: None)
    lines = (out / "rounds.jsonl").read_bytes().splitlines(keepends=True)
    (out / "rounds.jsonl").write_bytes(b"".join(lines[:2]) + lines[2][:40])
    log.unlink()
    again = run_experiment(asked, ExperimentFolder(out), lambda _: None)
    assert [(round_.number, round_.order) for round_ in again] == [(round_.number, round_.order) for round_ in rounds]
    assert len(log.read_text()) == 2 * 3
    assert ExperimentFolder(out).rounds() == again


def test_an_arm_that_fails_stops_the_experiment_and_keeps_the_rounds(tmp_path: Path) -> None:
    asked = plan(tmp_path / "log", a=f"{tmp_path / 'log'} a 1", b="/nowhere/log b 1")
    with pytest.raises(ExperimentError, match=r"ended with the exit code 1; see .*round-00/b"):
        run_experiment(asked, ExperimentFolder(tmp_path / "out"), lambda _: None)
    asked = plan(tmp_path / "log", a=f"{tmp_path / 'log'} a nothing", b=f"{tmp_path / 'log'} b 1")
    with pytest.raises(ExperimentError, match="is no JSON object of numbers"):
        run_experiment(asked, ExperimentFolder(tmp_path / "other"), lambda _: None)


def test_a_folder_of_another_plan_is_refused(tmp_path: Path) -> None:
    ExperimentFolder(tmp_path / "out").begin(plan(tmp_path / "log"))
    with pytest.raises(RunFolderError, match="of another plan"):
        ExperimentFolder(tmp_path / "out").begin(plan(tmp_path / "log", rounds=4))
    with pytest.raises(RunFolderError, match="something else than an experiment"):
        ExperimentFolder(tmp_path).begin(plan(tmp_path / "log"))


def test_a_stopped_experiment_leaves_no_arm_behind(tmp_path: Path) -> None:
    toml = tmp_path / "plan.toml"
    marker = tmp_path / "started"
    arm = f"python -c 'import pathlib, time; pathlib.Path(\\\"{marker}\\\").touch(); time.sleep(600)'"
    toml.write_text(f'name = "x"\nbaseline = "a"\nquantities = {{cost = "lower"}}\n[arms]\na = "{arm}"\nb = "{arm}"\n')
    command = [sys.executable, "-m", "reports", "experiment", str(toml)]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    wait_for(marker.exists, within_s=30)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 3
    assert "interrupted; the same command goes on" in said
    assert "Traceback" not in said


def test_what_has_no_ratio_says_why(tmp_path: Path) -> None:
    asked = plan(tmp_path / "log", rounds=2)

    def found(*values: float | None) -> str:
        rounds = [
            Round(number=at, started_utc="", order=[], figures={arm: {"cost": value} for arm in asked.measured})
            for at, value in enumerate(values)
        ]
        (each,) = findings(asked, rounds)
        return each.findings[0].why

    assert found(None, 1, 1) == ""  # the warm-up
    assert found(1, None, 1) == "cost of a was not measured in every round."
    assert "not above zero" in found(1, 0, 1)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (("[arms]", "[arm]"), "unknown field `arm`"),
        (('b = "true"', ""), "two arms or more, found 1"),
        (('baseline = "a"', 'baseline = "c"'), "baseline should be one of a, b, found 'c'"),
        (("rounds = 2", "rounds = 1"), "rounds should be at least 2"),
        (("rounds = 2", 'rounds = "2"'), "Expected `int`"),
        (('["rss_peak"]', '["rss_peek"]'), "did you mean rss_peak?"),
        (('["rss_peak"]', "[]"), "it names no quantities"),
        (('["rss_peak"]', '{rss = "lower"}'), "no quantity of a run is named 'rss'"),
        (('b = "true"', '"../b" = "true"'), "'../b' is no name"),
        (('b = "true"', 'b = "\'"'), "cannot be split into words"),
        (("[arms]", "[arms"), "is no TOML"),
    ],
)
def test_mistaken_plans_are_refused(tmp_path: Path, change: tuple[str, str], sentence: str) -> None:
    text = (
        'name = "x"\ncommand = "run {run_dir}"\nbaseline = "a"\nquantities = ["rss_peak"]\nrounds = 2\n'
        '[arms]\na = "true"\nb = "true"\n'
    )
    toml = tmp_path / "plan.toml"
    toml.write_text(text)
    assert read_plan(toml, 5, "--more").measured["b"] == "run {run_dir} true --more"
    toml.write_text(text.replace(*change))
    with pytest.raises(PlanError) as refused:
        read_plan(toml)
    assert sentence in str(refused.value)


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_the_plans_that_are_here_are_plans(path: Path) -> None:
    arms = {"300 s", "60 s", "40 s"} if path.stem.startswith("poll-hold") else {"proto-once", "json-reencode"}
    assert set(read_plan(path).arms) == arms


def test_the_page(tmp_path: Path) -> None:
    asked = plan(tmp_path / "log")
    figures = {arm: {"cost": 2.0 if arm == "b" else 4.0} for arm in asked.measured}
    rounds = [Round(number=at, started_utc="", order=asked.order(at), figures=figures) for at in range(4)]
    page = refers_to_nothing_outside_itself(experiment_page(asked, rounds, {"cores": 2, "processor": "<script>"}))
    text = "".join(page.text)
    assert "script" not in page.elements
    assert "cost of b is 50.0 % lower than of a (95 % interval 50.0 to 50.0 %)" in text
    assert "fewer than six rounds" in text
