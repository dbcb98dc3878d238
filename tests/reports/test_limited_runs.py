"""Run folders of runs limited by each, written as a run writes them and judged as a run is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reports.conclude import conclude
from reports.rows import RowWriter
from reports.run_folder import RunFolder
from reports.schema import LoadFacts, ResourceRow, TimelineRow

Run = tuple[LoadFacts, list[TimelineRow], list[ResourceRow]]
Change = Callable[[ResourceRow], dict[str, Any]]


def unchanged(row: ResourceRow) -> dict[str, Any]:
    return {}


def idle_engine(row: ResourceRow) -> dict[str, Any]:
    """Half of its slots are occupied."""
    assert row.engine_slot_seconds is not None
    return {"engine_slot_seconds": row.engine_slot_seconds / 2, "engine_waiting": 0, "target_outstanding": 1024}


def waiting_at_the_target(row: ResourceRow) -> dict[str, Any]:
    """The target holds back what the engine has no slot for, so that nothing waits in the engine's own queue."""
    return {"engine_waiting": 0}


def none_waits(row: ResourceRow) -> dict[str, Any]:
    return {"engine_waiting": 0, "target_outstanding": row.engine_running}


def full_machine(row: ResourceRow) -> dict[str, Any]:
    return idle_engine(row) | {"machine_cpu_utilisation": 0.99}


def busy_target(row: ResourceRow) -> dict[str, Any]:
    return idle_engine(row) | {"target_cpu_s": 0.97 * row.monotonic_s}


def stalled_target(row: ResourceRow) -> dict[str, Any]:
    return idle_engine(row) | {"target_loop_lag_max_s": 0.8}


@pytest.mark.parametrize(
    ("change", "load", "limited_by", "figure"),
    [
        (unchanged, {}, "engine", "of its slot time was occupied (full: 95 %). Typically 14,5"),
        (waiting_at_the_target, {}, "engine", "Typically 14,5"),
        (none_waits, {}, "arrivals", "Nothing else was at its limit"),
        (busy_target, {}, "target", "It used 0.97 cores (busy: 0.90)."),
        (stalled_target, {}, "target", "was 800 ms (stalled: 250 ms)"),
        (unchanged, {"cpu_utilisation": 0.98}, "load", "Its busiest process used 0.98 of a core (saturated: 0.90)"),
        (unchanged, {"lag_p99_s": 0.4}, "load", "1 in 100 wake-ups was 400 ms late or more (saturated: 250 ms)"),
        (full_machine, {}, "machine", "99 % of all its cores was in use (full: 95 %)."),
        (idle_engine, {}, "arrivals", "Nothing else was at its limit"),
    ],
)
def test_the_limit_is_named_with_its_figure(
    tmp_path: Path, main_job: Run, change: Change, load: dict[str, Any], limited_by: str, figure: str
) -> None:
    facts, timeline, resources = main_job
    workers = [msgspec.structs.replace(worker, **load) for worker in facts.workers]
    folder = RunFolder.create(tmp_path / "run")
    with folder.timeline_writer() as rows:
        for row in timeline:
            rows.write(row)
    with RowWriter(folder.resources_csv, ResourceRow) as samples:
        for sample in resources:
            samples.write(msgspec.structs.replace(sample, **change(sample)))
    document = conclude(folder, msgspec.structs.replace(facts, workers=workers))
    assert document.limited_by == limited_by
    assert figure in document.limited_by_why
    assert document.run.verdict == ("invalid" if limited_by == "load" else "pass")
    assert f"Limited by: {limited_by}." in folder.report_html.read_text()
    assert f"Limited by: {limited_by}." in folder.summary_md.read_text()
