"""From a run folder's rows to its documents, and again from the documents."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from reports.__main__ import main
from reports.conclude import conclude
from reports.rows import RowWriter
from reports.run_folder import RunFolder
from reports.schema import LoadFacts, ResourceRow, TimelineRow

Run = tuple[LoadFacts, list[TimelineRow], list[ResourceRow]]


@pytest.fixture
def folder(tmp_path: Path, main_job: Run) -> RunFolder:
    """The run folder of a main job that has not been concluded."""
    facts, timeline, resources = main_job
    folder = RunFolder.create(tmp_path / "run")
    folder.checkpoint(msgspec.structs.replace(facts, ended=None))
    with folder.timeline_writer() as writer:
        for row in timeline:
            writer.write(row)
    with RowWriter(folder.resources_csv, ResourceRow) as writer:
        for row in resources:
            writer.write(row)
    return folder


def contents(folder: RunFolder) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.path.iterdir() if path.is_file()}


def test_rendering_again_elsewhere_changes_nothing(
    folder: RunFolder, main_job: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = conclude(folder, main_job[0])
    assert document.run.verdict == "pass"
    assert folder.read_document() == document
    before = contents(folder)
    recorded = {"run.json", "histograms.json", "timeline.csv", "resources.csv"}
    assert set(before) == recorded | {"report.html", "summary.md", "junit.xml"}
    moved = RunFolder(tmp_path / "elsewhere")
    shutil.move(folder.path, moved.path)
    moved.report_html.unlink()
    assert main(["render", str(moved.path)]) == 0
    assert capsys.readouterr().out == f"pass: {moved.report_html}\n"
    assert contents(moved) == before


def test_a_killed_run_can_be_rendered(folder: RunFolder) -> None:
    with folder.timeline_csv.open("a") as torn:
        torn.write("5400.0,17")
    assert main(["render", str(folder.path)]) == 0
    document = folder.read_document()
    assert document.run.verdict == "invalid"
    assert document.run.reasons == ["The run has not ended."]
    assert document.throughput.steady_per_s is not None
    assert "<svg" in folder.report_html.read_text()


@pytest.mark.parametrize(
    ("thresholds", "ended", "code", "said"),
    [
        (["failed == 0"], "complete", 0, "holds: failed == 0 (failed was 0)"),
        (["failed == 0", "rss_peak < 1GB"], "complete", 1, "broken: rss_peak < 1GB (rss_peak was"),
        (["failed == 0"], "cut", 3, "invalid: The run was cut short."),
        ([], "complete", 0, "pass: All 131,072 futures"),
    ],
)
def test_an_old_run_is_judged_by_other_thresholds(
    folder: RunFolder,
    main_job: Run,
    capsys: pytest.CaptureFixture[str],
    thresholds: list[str],
    ended: Literal["complete", "cut"],
    code: int,
    said: str,
) -> None:
    conclude(folder, msgspec.structs.replace(main_job[0], ended=ended))
    arguments = [word for text in thresholds for word in ("--threshold", text)]
    assert main(["check", str(folder.path), *arguments]) == code
    assert said in capsys.readouterr().out
    assert folder.read_document().facts.thresholds == thresholds
    assert folder.junit_xml.read_text().count("<testcase") == len(thresholds) + 1


def test_a_run_is_judged_by_its_own_thresholds_when_none_is_given(
    folder: RunFolder, main_job: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    conclude(folder, msgspec.structs.replace(main_job[0], thresholds=["delivered < 10"]))
    before = contents(folder)
    assert main(["check", str(folder.path)]) == 1
    assert "broken: delivered < 10 (delivered was 131,072)" in capsys.readouterr().out
    assert contents(folder) == before


def test_thresholds_of_a_file(folder: RunFolder, main_job: Run, tmp_path: Path) -> None:
    conclude(folder, main_job[0])
    (tmp_path / "gate.toml").write_text('thresholds = ["lost == 0"]')
    arguments = ["check", str(folder.path), "--threshold", "failed == 0", "--thresholds", str(tmp_path / "gate.toml")]
    assert main(arguments) == 0
    assert folder.read_document().facts.thresholds == ["failed == 0", "lost == 0"]


def test_a_run_of_before_there_were_thresholds(folder: RunFolder, main_job: Run) -> None:
    conclude(folder, main_job[0])
    old = json.loads(folder.run_json.read_text())
    del old["thresholds"], old["facts"]["thresholds"]
    folder.run_json.write_text(json.dumps(old))
    assert main(["check", str(folder.path)]) == 0


def test_a_mistaken_threshold_changes_nothing(
    folder: RunFolder, main_job: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    conclude(folder, main_job[0])
    before = contents(folder)
    assert main(["check", str(folder.path), "--threshold", "future_p9 < 60s"]) == 2
    assert "did you mean future_p99?" in capsys.readouterr().err
    assert contents(folder) == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["check", "nowhere"], "nowhere is no run folder: there is no such directory."),
        (["render", "nowhere"], "nowhere is no run folder: there is no such directory."),
        (["render", "."], ". is no run folder: it has no run.json."),
        (["observe", "--out", "a.csv", "--target", "port:1"], "no process listens on port 1."),
        (["observe", "--out", "a.csv", "--target", "8001"], "write pid:N or port:N."),
        (["observe", "--out", "a.csv", "--engine-pid", "99999999"], "there is no process with the id 99999999."),
        (["observe", "--out", "missing/a.csv"], "cannot make missing/a.csv: no such file or directory."),
        (["observe", "--out", "a.csv", "--interval", "0s"], "'0s' is no duration above zero; write 1s, 250ms or 0.5m"),
        (["observe", "--out", "a.csv", "--canary", "localhost:1"], "'localhost:1' is no http:// or https:// address"),
        ([], "the following arguments are required: COMMAND"),
    ],
)
def test_a_user_s_mistake_is_one_sentence(tmp_path: Path, arguments: list[str], sentence: str) -> None:
    command = [sys.executable, "-m", "reports", *arguments]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 2
    assert ended.stderr.rstrip().endswith(sentence)
    assert "Traceback" not in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_broken_series_is_one_sentence(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    folder.timeline_csv.write_text("monotonic_s,unix_s\nsoon,1\n")
    assert main(["render", str(folder.path)]) == 2
    assert "timeline.csv, line 2, is no TimelineRow" in capsys.readouterr().err


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert ended.value.code == 0
    assert {"observe", "render", "check", "compare", "experiment"} <= set(capsys.readouterr().out.split())


def test_the_observer_does_not_import_numpy() -> None:
    script = "import sys, reports.__main__, reports.observer; print('numpy' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout == "False\n"


def test_importing_for_the_load_does_not_import_matplotlib(make_facts: Callable[..., LoadFacts]) -> None:
    script = (
        "import sys, reports.conclude, reports.progress; print('matplotlib' in sys.modules, 'asyncio' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout == "False False\n"
