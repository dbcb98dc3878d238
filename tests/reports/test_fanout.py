"""The page of an end-to-end measurement: savings in pairs, the regime that explains them, and an answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from reports.fanout import FanoutError, answer, main, read_cells

ARMS = {"reference": 100.0, "reference-again": 101.0, "reuse": 50.0}


def line(arm: str, round_number: int, e2e_ms: float, busy: float = 0.5, cell: str = "32 rows") -> bytes:
    numbers: dict[str, Any] = dict.fromkeys(
        ["first_row_ms", "last_row_ms", "itl_p50_ms", "itl_p95_ms", "itl_p99_ms", "itl_excess_ms", "e2e_p99_ms"], 1.0
    )
    numbers |= {"rows_per_s": 9.0, "rows_of_a_batch": 32.0, "busy": busy, "e2e_ms": e2e_ms}
    numbers |= {"stage_ms": {"in detokenizer": 2.5}, "cpu": {"scheduler": 0.5}, "backlog": {"detokenizer": 7}}
    return json.dumps({"cell": cell, "arm": arm, "round": round_number} | numbers).encode()


def measured(busy: float, arms: dict[str, float] = ARMS, cell: str = "32 rows") -> list[bytes]:
    return [line(arm, number, ms + number, busy, cell) for number in range(6) for arm, ms in arms.items()]


@pytest.mark.parametrize(("busy", "regime"), [(0.99, "overlapped"), (1.0, "bottleneck"), (3.0, "bottleneck")])
def test_the_regime_is_that_of_the_reference(busy: float, regime: str) -> None:
    (cell,) = read_cells(measured(busy))
    assert cell.regime == regime
    assert [(saving.arm, saving.paired.finding, saving.paired.won) for saving in cell.savings] == [
        ("reuse", "lower", 6)
    ]
    assert 48 < cell.savings[0].paired.reduction_percent < 50


def test_the_answer_has_a_sentence_for_each_regime() -> None:
    same = {"reference": 100.0, "reference-again": 101.0, "reuse": 100.5}
    cells = read_cells([*measured(0.2, same), *measured(2.0, cell="128 rows")])
    said = answer(cells)
    assert "time to spare, a difference of a request's time is detectable in 0 of 1 comparisons." in said
    assert "Where it has not, a difference of a request's time is detectable in 1 of 1 comparisons: 4" in said
    assert answer(cells[:1]).endswith("Where it has not: not measured.")


def test_the_page_is_written_beside_the_trials(tmp_path: Path) -> None:
    raw = tmp_path / "raw.jsonl"
    raw.write_bytes(b"\n".join(measured(2.0)))
    assert main([str(raw)]) == 0
    page = (tmp_path / "fanout.html").read_text()
    for text in ("bottleneck", "32 rows", "in detokenizer 2.50", "scheduler 50 %", "detokenizer 7", "6 of 6"):
        assert text in page


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([], "no trial in the file"),
        ([b"{}"], "Line 1 is no trial"),
        ([line("reference", 0, 1.0)], "has no arm reference-again"),
        ([line("reference", 0, 1.0), line("reference-again", 0, 1.0)], "can't be compared: an interval needs two"),
    ],
)
def test_a_file_that_is_no_measurement_gets_a_sentence(lines: list[bytes], sentence: str) -> None:
    with pytest.raises(FanoutError, match=sentence):
        read_cells(lines)
