"""A server made to lose a known number of bytes with each result, and the same server as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.stack import stack
from tests.integration.test_soak import Ports, soak


@pytest.mark.parametrize(("leaked", "conclusion"), [(0, "levels off at retention"), (20_000, "leak")])
def test_what_a_server_loses_is_found_and_measured(
    tmp_path: Path, free_port: Ports, monkeypatch: pytest.MonkeyPatch, leaked: int, conclusion: str
) -> None:
    monkeypatch.setenv("LEAKED_BYTES", str(leaked))
    server_args = ("--retrieved-ttl", "2s", "--sweep-interval", "1s")
    ports = free_port(), free_port()
    with stack(*ports, "lean", "fixed:100ms", *server_args, server="tests.integration.troubled_server") as url:
        load = ["--requests", "5000", "--outstanding", "50", "--max-tokens", "500", "--poll-preset", "plain-45s"]
        arrivals = ["--arrivals", "constant:250", "--settle", "5s", "--retrieved-ttl", "3s"]
        code, run, printed = soak(tmp_path / "run", "--host", url, *load, *arrivals)
    assert code == 0, printed
    memory = run["memory"]
    assert memory["conclusion"] == conclusion, memory["why"]
    if leaked:
        assert memory["per_result_bytes"]["estimate"] == pytest.approx(leaked, rel=0.15)
    report, summary = (tmp_path / "run/report.html").read_text(), (tmp_path / "run/summary.md").read_text()
    assert f"<strong>{conclusion}</strong>" in report
    assert f"Memory: {conclusion}." in summary
