"""Delays count from when a batch was due, every request must be whole, and real processes deliver what was sent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import psutil
import pytest

from mockengine.fanout.bench import ARMS, BenchError
from mockengine.fanout.open_loop import Load, delays_s
from mockengine.fanout.stages import Delivered
from tests.waiting import wait_for

LOAD = Load(transport="msgpack", rows=2, streams=2, interval_s=0.5, detokenizers=1, workers=2)
WHOLE = " w1 w2 w3"


def delivered() -> dict[str, Delivered]:
    """Row r of step s is ready 0.01 s * (r + 1) after it was due, which is 0.5 s * s after 100 s."""
    return {
        f"{stream}-{row}": Delivered(
            WHOLE, [100 + 0.5 * (3 * stream + step) + 0.01 * (row + 1) for step in range(3)], True
        )
        for stream in range(2)
        for row in range(2)
    }


def test_delays_are_of_steps_and_rows() -> None:
    np.testing.assert_allclose(delays_s(LOAD, delivered(), 100.0), [[0.01, 0.02]] * 6)


@pytest.mark.parametrize(
    "wrong",
    [
        {"1-0": Delivered(" w1 w2", [1.0, 2.0])},  # a row is missing
        {"1-0": Delivered(WHOLE + " w3", [1.0, 2.0, 3.0, 4.0])},  # a row came twice
        {"1-0": Delivered(WHOLE, [1.0, 2.0, 3.0, 4.0])},
        {"1-0": Delivered(" w1 w3 w2", [1.0, 2.0, 3.0])},
    ],
)
def test_a_request_that_is_not_whole_is_refused(wrong: dict[str, Delivered]) -> None:
    with pytest.raises(BenchError, match="Request 1-0 did not get its text once and whole"):
        delays_s(LOAD, delivered() | wrong, 100.0)


def test_a_request_that_is_missing_is_refused() -> None:
    found = delivered()
    del found["0-1"]
    with pytest.raises(BenchError, match="Request 0-1 "):
        delays_s(LOAD, found, 100.0)


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "mockengine.fanout", "open-loop", *words]


def test_poisson_times_repeat_and_have_the_mean_and_spread_of_an_exponential() -> None:
    load = msgspec.structs.replace(LOAD, streams=2_000, arrivals="poisson", seed=3)
    gaps_s = np.diff(load.due_s())
    assert load.due_s()[0] == 0.0
    np.testing.assert_array_equal(load.due_s(), load.due_s())
    assert not np.array_equal(load.due_s(), msgspec.structs.replace(load, seed=4).due_s())
    assert np.mean(gaps_s) == pytest.approx(0.5, rel=0.05)
    assert np.std(gaps_s) == pytest.approx(0.5, rel=0.05)


@pytest.mark.parametrize(
    ("arrivals", "cell"), [("fixed", "3 rows every 5 ms"), ("poisson", "3 rows every 5 ms, Poisson")]
)
def test_a_small_open_loop(arrivals: str, cell: str, tmp_path: Path) -> None:
    output = tmp_path / "out"
    words = ["--rows", "3", "--interval", "5ms", "--duration", "50ms", "--rounds", "1", "--detokenizers", "2"]
    words += ["--arrivals", arrivals]
    done = subprocess.run(command(*words, "--output", str(output)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    trials = [json.loads(line) for line in (output / "raw.jsonl").read_text().splitlines()]
    assert {one["arm"] for one in trials} == set(ARMS)
    for one in trials:
        assert one["cell"] == cell
        assert set(one["backlog"]) == {"router", "detokenizer", "HTTP worker"}
        assert min(one["backlog"].values()) >= 1
        assert 0 < one["row_p50_ms"] <= one["row_p95_ms"] <= one["row_p99_ms"]
        assert 0 < one["first_row_ms"] <= one["last_row_ms"]
        assert one["busy"] > 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [(["--interval", "0s"], "'0s' is no time above zero"), (["--duration", "3"], "A time is written like 5s")],
)
def test_bad_times_get_a_sentence(words: list[str], sentence: str) -> None:
    done = subprocess.run(command(*words), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert sentence in done.stderr


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_whatever_ends_it_ends_its_processes(how: signal.Signals, tmp_path: Path) -> None:
    words = ["--rows", "3", "--duration", "60s", "--output", str(tmp_path / "out")]
    with subprocess.Popen(command(*words), stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        parent = psutil.Process(process.pid)
        wait_for(lambda: len(parent.children()) >= 4)
        children = parent.children(recursive=True)
        os.kill(process.pid, how)
        process.wait(30)
        _, alive = psutil.wait_procs(children, timeout=30)
        assert not alive
        if how == signal.SIGINT:
            assert "stopped; " in (process.stderr.read() if process.stderr else "")
            assert process.returncode == 130
