"""The page of an end-to-end measurement: savings in pairs, the regime that explains them, and an answer."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from reports.fanout import FanoutError, Sweep, answer, main, read_sweep

ARMS = {"reference": 100.0, "reference-again": 101.0, "reuse": 50.0}
ROUNDS = 6


def plan(*cells: str, arms: Sequence[str] = tuple(ARMS), rounds: int = ROUNDS) -> bytes:
    return json.dumps({"cells": {cell: {} for cell in cells}, "arms": list(arms), "rounds": rounds}).encode()


def line(arm: str, round_number: int, e2e_ms: float, busy: float = 0.5, cell: str = "32 rows") -> bytes:
    numbers: dict[str, Any] = dict.fromkeys(
        ["first_row_ms", "last_row_ms", "itl_p50_ms", "itl_p95_ms", "itl_p99_ms", "itl_excess_ms", "e2e_p99_ms"], 1.0
    )
    numbers |= {"rows_per_s": 9.0, "rows_of_a_batch": 32.0, "busy": busy, "e2e_ms": e2e_ms, "steps": 123}
    numbers |= {"stage_ms": {"in detokenizer": 2.5}, "cpu": {"scheduler": 0.5}, "backlog": {"detokenizer": 7}}
    numbers |= {"decodes": {"detokenizer 0": 456}}
    return json.dumps({"cell": cell, "arm": arm, "round": round_number} | numbers).encode() + b"\n"


def failure(arm: str, round_number: int, cell: str = "32 rows") -> bytes:
    return json.dumps({"cell": cell, "arm": arm, "round": round_number, "reason": "it broke"}).encode() + b"\n"


def measured(busy: float, arms: dict[str, float] = ARMS, cell: str = "32 rows", rounds: int = ROUNDS) -> list[bytes]:
    return [line(arm, number, ms + number, busy, cell) for number in range(rounds) for arm, ms in arms.items()]


def sweep_of(raw: Sequence[bytes], *cells: str, failed: bytes = b"") -> Sweep:
    return read_sweep(plan(*(cells or ["32 rows"])), b"".join(raw), failed)


@pytest.mark.parametrize(
    ("busy", "regime"),
    [
        ([0.99] * ROUNDS, "overlapped"),
        ([1.0] * ROUNDS, "bottleneck"),
        ([3.0] * ROUNDS, "bottleneck"),
        ([0.8, 0.9, 0.9, 1.1, 1.1, 1.2], "at the knee"),
    ],
)
def test_the_regime_is_that_of_all_rounds(busy: list[float], regime: str) -> None:
    raw = [line(arm, number, ms + number, of) for number, of in enumerate(busy) for arm, ms in ARMS.items()]
    (cell,) = sweep_of(raw).cells
    assert [cell.regime, *(arm.regime for arm in cell.arms)] == [regime] * 4
    assert [(saving.arm, saving.paired.finding, saving.paired.won) for saving in cell.savings] == [
        ("reuse", "lower", 6)
    ]
    assert 48 < cell.savings[0].paired.reduction_percent < 50


def test_each_arm_has_its_regime() -> None:
    raw = [line(arm, n, ms, 0.3 if arm == "reuse" else 1.4) for n in range(ROUNDS) for arm, ms in ARMS.items()]
    (cell,) = sweep_of(raw).cells
    assert {arm.name: arm.regime for arm in cell.arms} == {
        "reference": "bottleneck",
        "reference-again": "bottleneck",
        "reuse": "overlapped",
    }
    assert cell.regime == "bottleneck"


def test_the_answer_has_a_sentence_for_each_regime() -> None:
    same = {"reference": 100.0, "reference-again": 101.0, "reuse": 100.5}
    cells = sweep_of([*measured(0.2, same), *measured(2.0, cell="128 rows")], "32 rows", "128 rows").cells
    said = answer(cells)
    assert "time to spare, a difference of a request's time is detectable in 0 of 1 comparisons." in said
    assert "Where it has not, a difference of a request's time is detectable in 1 of 1 comparisons: 4" in said
    assert answer(cells[:1]).endswith("Where it has not: not measured.")


def test_only_rounds_that_are_whole_for_every_cell_count() -> None:
    raw = [*measured(0.5, rounds=5), *measured(0.5, cell="64 rows", rounds=4), line("reuse", 4, 1.0, cell="64 rows")]
    sweep = sweep_of([*raw, line("reuse", 5, 1.0)[:-9]], "32 rows", "64 rows")  # of the last one a part was written
    assert (sweep.whole, sweep.planned) == (4, 6)
    assert [(cell.rounds, cell.savings[0].paired.rounds) for cell in sweep.cells] == [(4, 4), (4, 4)]


def test_a_failed_trial_takes_its_round_from_its_cell_alone() -> None:
    raw = [one for one in measured(0.5) if one != line("reuse", 2, 52.0)]
    sweep = sweep_of([*raw, *measured(0.5, cell="64 rows")], "32 rows", "64 rows", failed=failure("reuse", 2))
    assert sweep.whole == 6
    assert [cell.rounds for cell in sweep.cells] == [5, 6]
    assert [one.reason for one in sweep.failures] == ["it broke"]


@pytest.mark.parametrize("rounds", [0, 1])
def test_a_cell_with_too_few_rounds_is_not_compared(rounds: int) -> None:
    failed = b"".join(failure(arm, number) for number in range(rounds, ROUNDS) for arm in ARMS)
    sweep = sweep_of(
        [*measured(0.5, rounds=rounds), *measured(2.0, cell="64 rows")], "32 rows", "64 rows", failed=failed
    )
    assert [(cell.rounds, len(cell.savings)) for cell in sweep.cells] == [(rounds, 0), (6, 1)]
    assert "time to spare: not measured." in answer(sweep.cells)


def test_the_page_is_written_beside_the_trials(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_bytes(plan("32 rows", "64 rows"))
    (tmp_path / "raw.jsonl").write_bytes(b"".join(measured(2.0)))
    (tmp_path / "failed.jsonl").write_bytes(b"".join(failure(arm, n, "64 rows") for n in range(ROUNDS) for arm in ARMS))
    assert main([str(tmp_path)]) == 0
    page = (tmp_path / "fanout.html").read_text()
    for text in ("bottleneck", "32 rows", "in detokenizer 2.50", "scheduler 50 %", "detokenizer 7", "6 of 6"):
        assert text in page
    for text in ("2.00 (2.00 to 2.00)", ">123<", "detokenizer 0 456", "6 whole rounds of 6; 18 trials failed"):
        assert text in page
    for text in ("0 rounds without a failed trial", "it broke"):
        assert text in page


@pytest.mark.parametrize(
    ("plan_json", "raw", "sentence"),
    [
        (plan("32 rows"), b"", "No round is whole yet"),
        (plan("32 rows"), b"{}\n", "Line 1 of raw.jsonl is none"),
        (plan("32 rows", arms=["reference"]), b"", "has no arm reference-again"),
        (b"{}", b"", "plan.json is no plan"),
    ],
)
def test_what_is_no_measurement_gets_a_sentence(plan_json: bytes, raw: bytes, sentence: str) -> None:
    with pytest.raises(FanoutError, match=sentence):
        read_sweep(plan_json, raw, b"")


def test_a_folder_that_is_not_there_gets_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "none")]) != 0
    assert "plan.json" in capsys.readouterr().err
