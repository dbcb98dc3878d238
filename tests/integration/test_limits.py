"""Runs that are limited by what they were made to be limited by."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.stack import stack
from tests.integration.test_soak import Ports, small, soak


def test_a_few_slots_that_many_wait_for_are_the_limit(tmp_path: Path, free_port: Ports) -> None:
    load = ["--requests", "1200", "--outstanding", "300", "--slots", "100", "--service-time", "fixed:1s"]
    code, run, printed = soak(tmp_path / "run", *small(free_port), *load)
    assert code == 0, printed
    assert run["limited_by"] == "engine", run["limits"]
    assert "Limited by: engine." in (tmp_path / "run/report.html").read_text()


def test_a_target_that_stands_still_is_the_limit(
    tmp_path: Path, free_port: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STALL_S", "0.01")
    ports = free_port(), free_port()
    with stack(*ports, "lean", "fixed:10ms", server="tests.integration.troubled_server") as url:
        code, run, printed = soak(
            tmp_path / "run", "--host", url, "--requests", "1000", "--outstanding", "100", "--max-tokens", "8"
        )
    assert code == 0, printed
    assert run["limited_by"] == "target", run["limits"]
    assert "stalled: 250 ms" in run["limited_by_why"]
