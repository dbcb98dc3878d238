"""Delays, gaps and backlogs of rows whose times are known, and a small sweep of real engines."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mockengine.fanout.bench import ARMS
from mockengine.fanout.inbox import Seen
from mockengine.fanout.journeys import Wave, backlog, trial
from mockengine.fanout.serving import StageTimes
from mockengine.fanout.stages import Account, Passed

# Two waves of two requests with two rows each, from 10 s and from 20 s, a batch each second.
BATCHES = {10.0: ["a", "b"], 11.0: ["a", "b"], 20.0: ["c", "d"], 21.0: ["c", "d"]}


def account(name: str, cpu_s: float, passed: list[Passed]) -> Account:
    nothing: dict[str, Any] = {"received": 0, "sent": 0, "decodes": 12, "unknown": 0, "decoded": 0, "delivered": {}}
    code: dict[str, Any] = {"transport": "msgpack", "splitter": "", "splitter_sha256": "", "shared_sha256": ""}
    return Account(name=name, cpu_s=cpu_s, wall_s=100.0, passed=passed, **nothing, **code)


def times(*, has_router: bool = False) -> StageTimes:
    """Each process receives 0.01 s after the sending, and sends its first row 0.02 s and its second 0.04 s later."""
    scheduler = [Passed(rids, at, at) for at, rids in BATCHES.items()]
    stages = [account("scheduler", 0.1, scheduler)]
    at_s = {(rid, at): at for at, rids in BATCHES.items() for rid in rids}
    for name in (["router"] if has_router else []) + ["detokenizer 0"]:
        passed = []
        for number, ((rid, at), sent_s) in enumerate(at_s.items()):
            received_s = sent_s + 0.01
            at_s[rid, at] = received_s + (0.02 if number % 2 == 0 else 0.04)
            passed.append(Passed([rid], received_s, at_s[rid, at]))
        stages.append(account(name, 2.0, passed))
    ready: dict[str, list[float]] = {}
    for (rid, _), sent_s in at_s.items():
        ready.setdefault(rid, []).append(sent_s + 0.005)
    return StageTimes(stages, [Seen(process="http worker 0", cpu_s=0.0, ready_s=ready)])


WAVES = [Wave(9.9, [1.5, 1.6]), Wave(19.9, [1.2, 1.3])]


def test_times_of_the_second_wave() -> None:
    found = trial(times(), WAVES, 1.0)
    assert found.e2e_ms == pytest.approx(1250)
    assert found.first_row_ms == pytest.approx(100 + 10 + 20 + 5)
    assert found.last_row_ms == pytest.approx(100 + 10 + 40 + 5)
    assert found.itl_p50_ms == found.itl_p99_ms == pytest.approx(1000)
    assert found.itl_excess_ms == pytest.approx(0, abs=1e-6)
    assert found.rows_of_a_batch == 2
    assert found.steps == 4
    assert found.decodes == {"detokenizer 0": 12}
    assert found.busy == pytest.approx(2.0 / 4)  # CPU time, and four batches of a second
    assert found.stage_ms == pytest.approx({"to detokenizer": 10, "in detokenizer": 30, "to HTTP worker": 5})
    assert found.cpu == pytest.approx({"scheduler": 0.1 / 11.055, "detokenizer 0": 2 / 11.055})
    assert found.rows_per_s == pytest.approx(8 / 11.055)
    assert found.backlog == {"detokenizer": 1, "HTTP worker": 1}


def test_a_router_is_two_points_more() -> None:
    found = trial(times(has_router=True), WAVES, 1.0)
    assert list(found.stage_ms) == ["to router", "in router", "to detokenizer", "in detokenizer", "to HTTP worker"]
    assert found.last_row_ms == pytest.approx(100 + 2 * 50 + 5)
    assert list(found.backlog) == ["router", "detokenizer", "HTTP worker"]


@pytest.mark.parametrize(
    ("sent", "received", "most"),
    [
        ([], [], 0),
        ([1.0, 2.0, 3.0], [1.5, 2.5, 3.5], 1),
        ([1.0, 2.0, 3.0], [3.5, 4.0, 5.0], 3),
        ([1.0, 2.0, 3.0, 6.0], [2.5, 4.0, 5.0, 7.0], 2),
        ([1.0, 2.0], [2.0, 3.0], 1),  # what is received at the very moment does not wait
    ],
)
def test_backlog(sent: list[float], received: list[float], most: int) -> None:
    assert backlog(sent, received) == most


def test_a_small_sweep(tmp_path: Path) -> None:
    output = tmp_path / "out"
    words = [
        "--rows",
        "3",
        "--intervals",
        "5ms",
        "--rounds",
        "1",
        "--steps",
        "6",
        "--waves",
        "1",
        "--detokenizers",
        "2",
    ]
    command = [sys.executable, "-m", "mockengine.fanout", "end-to-end", *words, "--output", str(output)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    trials = [json.loads(line) for line in (output / "raw.jsonl").read_text().splitlines()]
    assert {one["arm"] for one in trials} == set(ARMS)
    for one in trials:
        assert one["cell"] == "3 rows every 5 ms"
        assert 0 < one["first_row_ms"] <= one["last_row_ms"]
        assert one["itl_p50_ms"] <= one["itl_p99_ms"]
        assert set(one["cpu"]) == {"scheduler", "router", "detokenizer 0", "detokenizer 1"}
        assert "to router" in one["stage_ms"]
        assert one["steps"] >= 2 * 6
        assert set(one["decodes"]) == {"router", "detokenizer 0", "detokenizer 1"}
