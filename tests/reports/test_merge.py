"""What an observer on another machine saw, put into a run by time."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from reports.__main__ import main
from reports.merge import in_time_of
from reports.rows import RowWriter
from reports.run_folder import RunFolder
from reports.schema import LoadFacts, ResourceRow, TimelineRow

Run = tuple[LoadFacts, list[TimelineRow], list[ResourceRow]]
AHEAD_S = 70_000.0  # of the other machine's monotonic clock


@pytest.fixture
def folders(tmp_path: Path, main_job: Run) -> tuple[RunFolder, Path]:
    """A run that did not observe its target, and what was seen of it on another machine, from an hour before."""
    facts, timeline, resources = main_job
    folder = RunFolder.create(tmp_path / "run")
    folder.checkpoint(msgspec.structs.replace(facts, ended="complete"))
    with folder.timeline_writer() as rows:
        for row in timeline:
            rows.write(row)
    elsewhere = [msgspec.structs.replace(row, monotonic_s=row.monotonic_s + AHEAD_S) for row in resources]
    hours = msgspec.structs.replace(elsewhere[0], unix_s=elsewhere[0].unix_s - 3600, target_rss_bytes=10**12)
    observed = tmp_path / "observed"
    observed.mkdir()
    with RowWriter(observed / "resources.csv", ResourceRow) as samples:
        for sample in [hours, *elsewhere]:
            samples.write(sample)
    return folder, observed


def test_a_merged_run_is_as_if_it_had_been_observed(
    folders: tuple[RunFolder, Path], main_job: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, observed = folders
    assert main(["merge", str(folder.path), str(observed)]) == 0
    assert f"{len(main_job[2])} samples merged" in capsys.readouterr().out
    merged = folder.resources()
    expected = main_job[2]
    assert [row.monotonic_s for row in merged] == pytest.approx([row.monotonic_s for row in expected], abs=1e-3)
    assert [row.target_rss_bytes for row in merged] == [row.target_rss_bytes for row in expected]
    assert folder.read_document().limited_by == "engine"


def test_a_second_merge_and_a_stranger_are_refused(
    folders: tuple[RunFolder, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, observed = folders
    assert main(["merge", str(folder.path), str(tmp_path)]) == 2
    assert "is not what an observer wrote" in capsys.readouterr().err
    assert main(["merge", str(folder.path), str(observed)]) == 0
    before = folder.resources_csv.read_bytes()
    assert main(["merge", str(folder.path), str(observed)]) == 2
    assert "merged before" in capsys.readouterr().err
    assert folder.resources_csv.read_bytes() == before


def test_what_was_seen_on_another_day_does_not_belong_to_the_run(main_job: Run) -> None:
    _, timeline, resources = main_job
    tomorrow = [msgspec.structs.replace(row, unix_s=row.unix_s + 86_400) for row in resources]
    assert in_time_of(timeline, tomorrow) == []
    assert in_time_of([], resources) == []
