"""Trials become paired rounds: warm-ups are left out, repetitions averaged, and arms set beside the noise."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from reports.rounds import RoundsError, main, read_trials, table


def line(arm: str, round_number: int, complete_ms: float, cell: str = "32 rows") -> bytes:
    return json.dumps({"cell": cell, "arm": arm, "round": round_number, "complete_ms": complete_ms, "x": "y"}).encode()


def rounds_of(arm: str, factor: float) -> list[bytes]:
    """A warm-up that would spoil everything, and nine rounds of two repetitions around 10, 11, ..."""
    timed = [line(arm, number, factor * (10 + number) + off) for number in range(9) for off in (-0.5, 0.5)]
    return [line(arm, -1, 1e6), *timed]


def test_rounds_are_means_of_repetitions_without_the_warm_up() -> None:
    trials = read_trials(rounds_of("reference", 1.0), "complete_ms")
    assert trials == {"32 rows": {"reference": {number: [9.5 + number, 10.5 + number] for number in range(9)}}}


def test_an_arm_is_set_beside_the_baseline_and_the_noise() -> None:
    lines = [*rounds_of("reference", 1.0), *rounds_of("reference-again", 1.01), *rounds_of("reuse", 0.6)]
    head, again, reuse = table(read_trials(lines, "complete_ms"), "reference", "reference-again").splitlines()
    assert "reduction" in head
    assert " ".join(again.split()) == "32 rows reference-again 14.00 14.14 -1.0 % -1.0 to -1.0 % 0/9 the noise floor"
    assert " ".join(reuse.split()) == "32 rows reuse 14.00 8.40 40.0 % 40.0 to 40.0 % 9/9 lower"


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ([b"{"], "Line 1 is no trial with a number for 'complete_ms'"),
        ([b'{"cell": "a", "arm": "b", "round": 1}'], "Line 1 is no trial with a number for 'complete_ms'"),
        ([b'{"cell": "a", "round": 1, "complete_ms": 1}'], "Line 1 is no trial"),
        ([line("reference", 0, 1.0)], "32 rows has no arm 'reference' and 'reference-again'"),
        (
            [line("reference", 0, 1.0), line("reference", 1, 1.0), line("reference-again", 0, 1.0)],
            "32 rows can't be compared: paired arms need a value each in every round",
        ),
    ],
)
def test_what_can_not_be_compared_gets_a_sentence(lines: list[bytes], sentence: str) -> None:
    with pytest.raises(RoundsError, match=sentence):
        table(read_trials(lines, "complete_ms"), "reference", "reference-again")


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = tmp_path / "raw.jsonl"
    raw.write_bytes(b"\n".join([*rounds_of("a", 1.0), *rounds_of("b", 1.0)]))
    assert main([str(raw), "--baseline", "a", "--again", "b"]) == 0
    assert "the noise floor" in capsys.readouterr().out
    assert main([str(tmp_path / "none")]) == 2
    assert "No such file" in capsys.readouterr().err
