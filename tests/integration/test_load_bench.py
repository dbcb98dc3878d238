"""The bench of the load: both arms come to figures, and the table says which goals are reached."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from locustfiles.bench.__main__ import Trial, main, table


def test_both_arms_are_measured(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    raw = tmp_path / "raw.jsonl"
    assert main(["--rounds", "1", "--futures", "100", "--outstanding", "100", "--raw", str(raw)]) == 0
    printed = capsys.readouterr().out
    assert "CPU of a future, ms" in printed
    trials = [json.loads(line) for line in raw.read_text().splitlines()]
    assert sorted(trial["arm"] for trial in trials) == ["load", "plain"]
    assert all(trial["cpu_ms"] > 0 for trial in trials)


def test_the_table_has_medians_ratios_and_goals() -> None:
    trials = {
        (1000, "plain"): [Trial(1.0, 20.0), Trial(2.0, 20.0), Trial(1.5, 20.0)],
        (1000, "load"): [Trial(0.5, 40.0), Trial(1.0, 40.0), Trial(0.55, 40.0)],
    }
    _, cpu, memory = table(trials).splitlines()
    assert " ".join(cpu.split()) == "1,000 CPU of a future, ms 1.5 0.55 0.50 0.37 to 0.50 < 0.6: reached"
    assert memory.split()[-4:] == ["2.00", "<", "30:", "missed"]
