"""The benchmark runs, counts exactly, and refuses to compare what is not comparable."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from mockengine.fanout import bench
from mockengine.fanout.measuring import ENDPOINTS, stream_seed
from mockengine.fanout.sources import shared_sha256, splitter_sha256
from mockengine.fanout.stages import Account
from mockengine.fanout.streams import TOKENS


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mockengine.fanout", "bench", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)


@pytest.mark.parametrize(
    ("transport", "detokenizers", "decodes_of_32"), [("msgpack", 1, 4), ("pickle", 1, 0), ("msgpack", 2, 4)]
)
def test_a_small_benchmark(transport: str, detokenizers: int, decodes_of_32: int, tmp_path: Path) -> None:
    output = tmp_path / "out"
    words = ["--transport", transport, "--detokenizers", str(detokenizers), "--rounds", "1", "--rows", "1,5"]
    done = run(*words, "--output", str(output))
    assert done.returncode == 0, done.stderr
    # 1 + 5 rows, plain and rich, 3 batches, 3 repetitions, a round and a warm-up; a fence of 4 requests a cell
    assert "reference and reuse: 432 output rows and 576 fence rows verified; all arms 864 and 1,152" in done.stdout
    result = json.loads((output / "result.json").read_text())
    assert set(result["output_rows"].values()) == {216}
    assert set(result["fence_rows"].values()) == {288}
    assert result["decodes_of_32_rows"]["reuse"] == decodes_of_32
    trials = [json.loads(line) for line in (output / "raw.jsonl").read_text().splitlines()]
    keys = {(one["cell"], one["arm"], one["round"], one["repetition"]) for one in trials}
    assert len(keys) == len(trials) == 4 * len(bench.ARMS) * 2 * 3
    for one in trials:
        assert 0 < one["first_ms"] <= one["complete_ms"]
        assert one["row_median_ms"] <= one["row_p95_ms"] <= one["complete_ms"]


def test_the_whole_plan_has_the_rows_of_the_published_protocol() -> None:
    """As bench.check counts them, which refuses any other number: 343 rows, plain and with metadata, and so on."""
    accounts = {arm: [account(arm, 90 * decodes)] for arm, decodes in (("reference", 686), ("reuse", 2 + 4 + 4))}
    plan = bench.Plan(transport="msgpack", rounds=9, rows=(1, 32, 310), arms=bench.PUBLISHED, detokenizers=1)
    bench.check(plan, accounts, dict.fromkeys(bench.PUBLISHED, 123_480 // 2))
    assert len(plan.cells) * len(plan.arms) * (plan.rounds + 1) * bench.REPETITIONS * len(TOKENS) * ENDPOINTS == 4_320


def test_streams_have_seeds_of_their_own() -> None:
    cells = [(rows, is_rich, number, repetition) for rows in (1, 32, 310) for is_rich in (False, True)
             for number in range(-1, 9) for repetition in range(3)]  # fmt: skip
    assert len({stream_seed(*cell) for cell in cells}) == len(cells)
    assert stream_seed(32, True, 8, 2) == 10_000 + 3_200 + 100_000 + 80 + 2


PLAN = bench.Plan(transport="msgpack", rounds=1, rows=[4], arms=["reference", "reuse"], detokenizers=1)
STREAMS = 2 * 3 * 3  # rounds with the warm-up, repetitions, batches


def account(arm: str, decodes: int, **fields: Any) -> Account:
    good: dict[str, Any] = {
        "name": "detokenizer 0",
        "received": 0,
        "sent": 0,
        "cpu_s": 0.0,
        "wall_s": 1.0,
        "transport": "msgpack",
        "splitter": arm,
        "splitter_sha256": splitter_sha256(arm),
        "shared_sha256": shared_sha256(),
        "delivered": {},
        "unknown": 0,
        "decoded": 0,
        "passed": [],
    }
    return Account(decodes=decodes, **(good | fields))


GOOD = {"reference": [account("reference", STREAMS * 8)], "reuse": [account("reuse", STREAMS * 4)]}
ROWS = {"reference": 2 * 4 * STREAMS, "reuse": 2 * 4 * STREAMS}
WRONG: list[tuple[dict[str, Any], dict[str, int], str]] = [
    ({"reuse": [account("reuse", STREAMS * 4, transport="pickle")]}, {}, "of arm reuse ran other code or transport"),
    ({"reuse": [account("reuse", STREAMS * 4, splitter_sha256="0")]}, {}, "of arm reuse ran other code or transport"),
    ({"reuse": [account("reuse", STREAMS * 4, shared_sha256="0")]}, {}, "of arm reuse ran other code or transport"),
    ({"reuse": [account("reuse", STREAMS * 4 + 1)]}, {}, "The arm reuse unwrapped fields 73 [+] 0 times, where 72"),
    ({}, {"reuse": 143}, "The arm reuse delivered 143 rows; 144 were sent"),
]


def test_exact_counts_pass() -> None:
    bench.check(PLAN, GOOD, ROWS)


@pytest.mark.parametrize(("accounts", "rows", "sentence"), WRONG)
def test_a_deviation_is_refused(accounts: dict[str, Any], rows: dict[str, int], sentence: str) -> None:
    with pytest.raises(bench.BenchError, match=sentence):
        bench.check(PLAN, GOOD | accounts, ROWS | rows)


def test_arms_with_the_same_code_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench, "splitter_sha256", lambda _: "same")
    accounts = {arm: [msgspec.structs.replace(of_arm[0], splitter_sha256="same")] for arm, of_arm in GOOD.items()}
    with pytest.raises(bench.BenchError, match="Two arms have the same splitter code"):
        bench.check(PLAN, accounts, ROWS)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--rounds", "0"], "argument --rounds: '0' is no number from 1 up"),
        (["--rows", "1,x"], "argument --rows: 'x' is no number from 1 up"),
        (["--transport", "json"], "argument --transport: invalid choice: 'json'"),
        (["--output", "."], ". exists; name another folder."),
    ],
)
def test_bad_options_get_a_sentence(words: list[str], sentence: str) -> None:
    done = run(*words)
    assert done.returncode != 0
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
