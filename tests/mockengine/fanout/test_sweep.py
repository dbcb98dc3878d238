"""A sweep is on disk trial by trial, goes on where it stopped, and does not end when a trial fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mockengine.fanout import end_to_end
from mockengine.fanout.bench import ARMS, BenchError
from mockengine.fanout.journeys import EndToEndTrial
from mockengine.fanout.sweep import Place, Plan, SweepFolder

PLAN = Plan(cells={"small": {"rows": 1}, "large": {"rows": 9}}, arms=["a", "b"], rounds=3)


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def measure_all(folder: SweepFolder, stop_after: int | None = None) -> list[Place]:
    places = folder.missing()[:stop_after]
    for place in places:
        folder.add(place, 1.0, {"value": place.round})
    return places


def test_rounds_are_outermost_and_arms_of_a_cell_side_by_side(tmp_path: Path) -> None:
    places = SweepFolder(tmp_path / "out", PLAN).missing()
    assert [place.round for place in places] == [0] * 4 + [1] * 4 + [2] * 4
    assert [place.cell for place in places] == ["small", "small", "large", "large"] * 3
    assert len(set(places)) == 12


def test_the_order_of_arms_differs_between_rounds_and_is_always_the_same() -> None:
    plan = Plan(cells={"one": {}}, arms=list("abcdef"), rounds=9)
    orders = [plan.order(number, "one") for number in range(9)]
    assert orders == [plan.order(number, "one") for number in range(9)]
    assert len({tuple(order) for order in orders}) > 1
    assert all(sorted(order) == plan.arms for order in orders)


@pytest.mark.parametrize("stop_after", range(13))
def test_an_interrupted_sweep_goes_on_and_has_every_trial_once(stop_after: int, tmp_path: Path) -> None:
    first = measure_all(SweepFolder(tmp_path, PLAN), stop_after)
    second = measure_all(SweepFolder(tmp_path, PLAN))
    assert len(second) == 12 - len(first) // 2 * 2  # arms whose pair is not whole are measured again
    found = [(one["round"], one["cell"], one["arm"]) for one in lines(tmp_path / "raw.jsonl")]
    assert found == SweepFolder(tmp_path / "other", PLAN).missing()
    assert SweepFolder(tmp_path, PLAN).missing() == []


def test_a_line_that_was_cut_is_measured_again(tmp_path: Path) -> None:
    places = measure_all(SweepFolder(tmp_path, PLAN), 4)
    raw = tmp_path / "raw.jsonl"
    raw.write_bytes(raw.read_bytes()[:-5])
    assert SweepFolder(tmp_path, PLAN).missing()[:2] == places[2:]
    assert len(lines(raw)) == 2


def test_a_failed_trial_is_kept_with_its_reason_and_its_pair_measured_again(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path, PLAN)
    good, bad, *rest = folder.missing()
    folder.add(good, 1.0, {})
    folder.add_failed(bad, "it broke")
    for place in rest:
        folder.add(place, 1.0, {})
    assert set(SweepFolder(tmp_path, PLAN).missing()) == {good, bad}
    assert lines(tmp_path / "failed.jsonl") == [{**bad._asdict(), "reason": "it broke"}]


def test_the_time_left_is_that_of_the_same_cells_and_arms_before(tmp_path: Path) -> None:
    folder = SweepFolder(tmp_path, PLAN)
    assert folder.left_s(folder.missing()) is None
    took_s = {("small", "a"): 1.0, ("small", "b"): 3.0, ("large", "a"): 20.0, ("large", "b"): 40.0}
    first, *_ = places = folder.missing()[:4]
    folder.add(first, took_s[first.cell, first.arm], {})
    assert folder.left_s(places[1:]) == 3 * took_s[first.cell, first.arm]  # nothing else is known
    for place in places[1:]:
        folder.add(place, took_s[place.cell, place.arm], {})
    left = folder.missing()
    assert folder.left_s(left) == 2 * 64
    assert SweepFolder(tmp_path, PLAN).left_s(left[1:]) == 2 * 64 - took_s[left[0].cell, left[0].arm]


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    SweepFolder(tmp_path / "sweep", PLAN)
    with pytest.raises(BenchError, match="a sweep of another plan; name another folder, or remove it"):
        SweepFolder(tmp_path / "sweep", Plan(cells=PLAN.cells, arms=PLAN.arms, rounds=4))
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "file").touch()
    with pytest.raises(BenchError, match="holds something else than a sweep"):
        SweepFolder(tmp_path / "notes", PLAN)


CELL = end_to_end.Cell(transport="msgpack", rows=2, interval_s=0.02, steps=3, waves=1, detokenizers=1, http_workers=2)
_NOTHING: dict[str, Any] = {
    name: {} if name in ("decodes", "stage_ms", "cpu", "backlog") else 0 for name in EndToEndTrial.__struct_fields__
}


def test_a_trial_that_fails_does_not_end_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    errors: list[Exception] = [BenchError("The engine broke."), KeyError("rid")]

    def measure(cell: end_to_end.Cell, splitter: str) -> EndToEndTrial:
        if splitter == "reuse" and errors:
            raise errors.pop(0)
        return EndToEndTrial(**_NOTHING)

    monkeypatch.setattr(end_to_end, "measure", measure)
    with pytest.raises(BenchError, match="2 of 12 trials failed"):
        end_to_end.run([CELL], 3, tmp_path)
    assert [one["reason"] for one in lines(tmp_path / "failed.jsonl")] == ["The engine broke.", "KeyError: 'rid'"]
    assert len(lines(tmp_path / "raw.jsonl")) == 10
    end_to_end.run([CELL], 3, tmp_path)
    found = {(one["round"], one["arm"]) for one in lines(tmp_path / "raw.jsonl")}
    assert found == {(number, arm) for number in range(3) for arm in ARMS}
