"""An engine whose answers come through the pipeline: what clients get, what it says of itself, and what ends it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from mockengine import RunningEngine, running
from mockengine.corpus import Corpus
from tests.waiting import wait_for

TOKENS = 30
PATIENCE_S = 60


def fanout(**options: Any) -> contextlib.AbstractContextManager[RunningEngine]:
    few = {"body_profile": "lean", "service_time": "fixed:60ms", "step_interval": "5ms", "slots": 40}
    return running(**few | {"fanout": "reuse"} | options)


def ask(engine: RunningEngine, seed: int, tokens: int = TOKENS) -> Any:
    """The answer, or the sentence of the error and its status."""
    body = {"prompt": [1], "max_tokens": tokens, "seed": seed, "n": 2, "logprobs": 1, "return_token_ids": True}
    request = urllib.request.Request(f"{engine.url}/v1/completions", json.dumps(body).encode())
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
            return json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())["error"]["message"]


def answers(engine: RunningEngine, count: int) -> list[Any]:
    with ThreadPoolExecutor(count) as threads:
        return list(threads.map(lambda seed: ask(engine, seed), range(count)))


def seen(engine: RunningEngine) -> Any:
    with urllib.request.urlopen(f"{engine.url}/fanout", timeout=PATIENCE_S) as answer:
        return json.loads(answer.read())


def is_right(answer: Any, seed: int) -> bool:
    corpus = Corpus("lean")
    return [np.array(choice["token_ids"], "<i4").tobytes() for choice in answer["choices"]] == [
        corpus.tokens(seed, choice, TOKENS) for choice in range(2)
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"http_workers": 2, "detokenizers": 1, "transport": "msgpack", "fanout": "reference"},
        {"http_workers": 2, "detokenizers": 2, "transport": "msgpack", "fanout": "sliced-once"},
        {"http_workers": 1, "detokenizers": 2, "transport": "pickle", "fanout": "reuse"},
        {"http_workers": 1, "detokenizers": 1, "transport": "msgpack", "fanout": "reuse"},
    ],
    ids=lambda options: f"{options['detokenizers']} to {options['http_workers']}, {options['transport']}",
)
def test_answers_come_through_the_pipeline(options: dict[str, Any], tmp_path: Path) -> None:
    stage_times = tmp_path / "times.json"
    with fanout(**options, stage_times=stage_times) as engine:
        found = answers(engine, 20)
        metrics = engine.metrics()
        said = engine.stop()
    assert [seed for seed in range(20) if not is_right(found[seed], seed)] == []
    assert metrics["vllm:request_success_total"] == 20
    assert metrics["vllm:generation_tokens_total"] == 20 * 2 * TOKENS
    rows = 20 * 2 * 12  # requests, choices, and the steps of 5 ms that 60 ms have room for
    assert f"{rows} rows came through the pipeline, and 0 for nobody; 0 answers were wrong" in said
    document = json.loads(stage_times.read_text())
    stages = {stage["name"]: stage for stage in document["stages"]}
    has_router = options["detokenizers"] > 1
    assert list(stages) == [
        "scheduler",
        *(["router"] if has_router else []),
        *(f"detokenizer {number}" for number in range(options["detokenizers"])),
    ]
    passed = {name: times_of_rows(stage) for name, stage in stages.items()}
    ready = {rid: times for worker in document["http_workers"] for rid, times in worker["ready_s"].items()}
    assert len(ready) == 40
    for rid, times in ready.items():
        detokenizer = next(of for name, of in passed.items() if name.startswith("detokenizer") and rid in of)
        ways = [passed["scheduler"][rid], *([passed["router"][rid]] if has_router else []), detokenizer[rid]]
        for step, ready_s in enumerate(times):
            points = [at for way in ways for at in way[step]]
            after = [*points[1:], ready_s]
            assert after == sorted(after), "a row came before it was sent"
        assert [len(way) for way in [*ways, times]] == [12] * (len(ways) + 1)


def times_of_rows(stage: Any) -> dict[str, list[tuple[float, float]]]:
    """When each row of a request was received and sent."""
    times: dict[str, list[tuple[float, float]]] = {}
    for passed in stage["passed"]:
        for rid in passed["rids"]:
            times.setdefault(rid, []).append((passed["received_s"], passed["sent_s"]))
    return times


def test_a_client_that_goes_away_ends_its_rows() -> None:
    """Its slot is free again, and the scheduler sends no more: the rest of the rows would otherwise go on for 100 s."""
    with fanout(http_workers=1, service_time="fixed:100s", slots=1) as engine:
        with pytest.raises(TimeoutError):
            urllib.request.urlopen(
                urllib.request.Request(f"{engine.url}/v1/completions", b'{"prompt":[1],"max_tokens":30000}'),
                timeout=0.5,
            )
        wait_for(lambda: engine.metrics()["vllm:num_requests_running"] == 0)
        engine.set_service_time("fixed:10ms")
        assert is_right(ask(engine, 3), 3)


def test_whichever_process_answers_speaks_for_all_but_for_fanout() -> None:
    with fanout(http_workers=2) as engine:
        answers(engine, 20)
        assert engine.metrics()["vllm:request_success_total"] == 20
        engine.set_faults([{"kind": "http_500", "first": 1}])
        assert "http_500" not in engine.injected()
        each: dict[str, int] = {}
        while len(each) < 2:  # the kernel chooses the worker of a connection
            one = seen(engine)
            each[one["process"]] = one["rows"]
        assert sum(each.values()) == 20 * 2 * 12


def test_past_the_rows_of_a_batch_requests_are_aborted() -> None:
    with fanout(http_workers=2, max_rows=4, service_time="fixed:1s") as engine:
        found = answers(engine, 8)
    refused = [answer for answer in found if isinstance(answer, tuple)]
    assert len(refused) == 6  # of two rows each
    assert {status for status, _ in refused} == {503}
    assert "The scheduler has aborted the request" in refused[0][1]


@pytest.fixture
def engine_process() -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "mockengine", "--port", "0", "--fanout", "reuse"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("mockengine ready")
        yield process
        process.kill()


@pytest.mark.parametrize("victim", ["spawn_main", "mockengine"])
def test_a_process_that_is_killed_ends_the_engine_with_a_sentence(
    victim: str, engine_process: subprocess.Popen[str]
) -> None:
    """spawn_main: a stage of the pipeline; mockengine: an HTTP worker."""
    family = psutil.Process(engine_process.pid).children()
    next(child for child in family if victim in " ".join(child.cmdline())).kill()
    _, said = engine_process.communicate(timeout=PATIENCE_S)
    assert engine_process.returncode == 1
    assert "all are stopped." in said
    assert "Traceback" not in said
    _, alive = psutil.wait_procs(family, timeout=PATIENCE_S)
    assert not alive


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_whatever_ends_it_ends_its_processes(how: signal.Signals, engine_process: subprocess.Popen[str]) -> None:
    family = psutil.Process(engine_process.pid).children(recursive=True)
    assert len(family) >= 4
    os.kill(engine_process.pid, how)
    engine_process.communicate(timeout=PATIENCE_S)
    _, alive = psutil.wait_procs(family, timeout=PATIENCE_S)
    assert not alive
    if how != signal.SIGKILL:
        assert engine_process.returncode == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--http-workers", "2"], "--http-workers is an option of the pipeline; give --fanout with it."),
        (["--fanout", "reuse", "--workers", "2"], "with --fanout, say --http-workers"),
        (["--fanout", "reuse", "--http-workers", "0"], "--http-workers should be at least 1, found 0."),
        (["--fanout", "reuse", "--step-interval", "5"], "--step-interval: A time is written like 5s"),
        (["--fanout", "reuse", "--step-interval", "0s"], "--step-interval should be above 0."),
        (
            ["--fanout", "reuse", "--http-workers", "8", "--slots", "7"],
            "at least 1 for each of the 8 --http-workers, found 7",
        ),
        (["--fanout", "reuse", "--fault", "restart:first=1"], "leave out --workers and --fanout"),
    ],
)
def test_options_that_go_ill_together(words: list[str], sentence: str) -> None:
    command = [sys.executable, "-m", "mockengine", "--port", "0", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert done.stderr.count("\n") == 1
