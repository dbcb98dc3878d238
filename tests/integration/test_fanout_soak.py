"""A soak whose engine answers through the output pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.test_soak import Ports, small, soak


@pytest.mark.parametrize(
    "fanout",
    [
        "--fanout reuse --http-workers 2 --detokenizers 1 --transport msgpack",
        "--fanout sliced-once --http-workers 2 --detokenizers 2 --transport pickle",
    ],
)
def test_all_is_delivered_and_verified(fanout: str, tmp_path: Path, free_port: Ports) -> None:
    run_dir = tmp_path / "run"
    _, run, printed = soak(run_dir, *small(free_port), "--engine-args", f"{fanout} --step-interval 5ms")
    # Not the verdict, which on a busy machine may be that the load was saturated.
    assert run["futures"]["delivered"] == run["futures"]["verified"] == run["engine"]["finished"] == 300, printed
    rows = 300 * 10  # the steps of 5 ms that 50 ms have room for
    said = (run_dir / "logs" / "mock-engine.log").read_text()
    assert f"{rows} rows came through the pipeline, and 0 for nobody; 0 answers were wrong" in said


def test_an_answer_that_came_wrong_is_no_delivery(tmp_path: Path, free_port: Ports) -> None:
    """The load hears of it, by the engine's 500 and the server's failed future."""
    run_dir = tmp_path / "run"
    arguments = "--fanout reuse --http-workers 2 --step-interval 5ms --fanout-fault row_doubled"
    _, run, _ = soak(run_dir, *small(free_port), "--engine-args", arguments)
    assert run["run"]["verdict"] != "pass"
    assert run["futures"]["failed"] > 0
    assert run["futures"]["delivered"] + run["futures"]["failed"] == 300
    assert run["futures"]["delivered"] == run["futures"]["verified"]
