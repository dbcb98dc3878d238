"""The engine as a process of its own, spoken to over real sockets by the standard library's client."""

from __future__ import annotations

import http.client
import itertools
import json
import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from mockengine.corpus import Corpus
from mockengine.service_time import parse_service_time
from tests.waiting import wait_for

Ports = Callable[[], int]


@contextmanager
def engine(port: int, *args: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "mockengine", "--port", str(port), *args]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"mockengine ready on http://127.0.0.1:{port}\n"
        try:
            yield process
        finally:
            process.kill()


def ask(port: int, method: str, path: str, document: object = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, None if document is None else json.dumps(document))
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, json.loads(body) if "json" in (answer.getheader("Content-Type") or "") else body.decode()


def metrics(port: int) -> dict[str, float]:
    """Sample name -> value, summed over labels."""
    _, text = ask(port, "GET", "/metrics")
    values: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            values[sample.name] = values.get(sample.name, 0.0) + sample.value
    return values


def test_completions_are_the_corpus(free_port: Ports) -> None:
    with engine(port := free_port(), "--body-profile", "lean", "--service-time", "fixed:0s", "--corpus-seed", "3"):
        request = {"model": "mock", "prompt": [1, 2, 3], "n": 2, "seed": 11, "max_tokens": 50, "prompt_logprobs": 1}
        request |= {"logprobs": 1, "return_token_ids": True}
        status, body = ask(port, "POST", "/v1/completions", request)
        values = metrics(port)
    assert status == 200
    assert (body["object"], body["model"]) == ("text_completion", "mock")
    assert body["usage"]["completion_tokens"] == 100
    corpus = Corpus("lean", 3)
    for index, choice in enumerate(body["choices"]):
        assert np.array(choice["token_ids"], "<i4").tobytes() == corpus.tokens(11, index, 50)
        assert choice["prompt_logprobs"][0] is None
        assert next(iter(choice["prompt_logprobs"][1])) == "2"
    assert values["vllm:request_success_total"] == 1
    assert values["vllm:generation_tokens_total"] == 100
    assert values["vllm:prompt_tokens_total"] == 3
    assert values["mockengine_service_time_drawn_seconds_count"] == 1


def test_requests_without_a_seed_differ_and_the_engines_seed_repeats_them(free_port: Ports) -> None:
    runs = []
    for _ in range(2):
        with engine(port := free_port(), "--body-profile", "lean", "--service-time", "fixed:0s", "--seed", "5"):
            request = {"prompt": [1], "max_tokens": 20, "return_token_ids": True}
            answers = [ask(port, "POST", "/v1/completions", request)[1] for _ in range(3)]
        runs.append([answer["choices"][0]["token_ids"] for answer in answers])
        assert len({answer["id"] for answer in answers}) == 3
    assert runs[0] == runs[1]
    assert len(set(map(tuple, runs[0]))) == 3


@pytest.mark.parametrize(
    ("request_body", "status", "sentence"),
    [
        ({"max_tokens": 5}, 400, "prompt"),
        ({"prompt": [1] * 31, "max_tokens": 70}, 400, "maximum context length is 100 tokens, but 31 in the prompt"),
        ({"prompt": [1], "stream": True}, 400, "does not stream"),
        ({"prompt": [1], "model": "other"}, 404, "`other` does not exist"),
    ],
)
def test_bad_requests_are_answered_as_vllm_answers_them(
    shared_engine: int, request_body: object, status: int, sentence: str
) -> None:
    found, body = ask(shared_engine, "POST", "/v1/completions", request_body)
    assert found == status
    assert body["error"]["code"] == status
    assert sentence in body["error"]["message"]


@pytest.fixture(scope="module")
def shared_engine() -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with engine(port, "--body-profile", "lean", "--service-time", "fixed:0s", "--max-model-len", "100"):
        yield port


def test_health_and_models(shared_engine: int) -> None:
    assert ask(shared_engine, "GET", "/health")[0] == 200
    models = ask(shared_engine, "GET", "/v1/models")[1]
    assert [(model["id"], model["max_model_len"]) for model in models["data"]] == [("mock", 100)]


def test_a_client_that_goes_away_frees_its_slot_and_its_place_in_the_queue(free_port: Ports) -> None:
    with engine(port := free_port(), "--slots", "1", "--service-time", "fixed:1m", "--body-profile", "lean"):
        clients = [http.client.HTTPConnection("127.0.0.1", port) for _ in range(3)]
        for number, client in enumerate(clients):
            client.request("POST", "/v1/completions", json.dumps({"prompt": [1]}))
            wait_for(lambda number=number: metrics(port)["vllm:num_requests_waiting"] == number)  # type: ignore[misc]
        assert metrics(port)["vllm:num_requests_running"] == 1
        clients[1].close()  # in the queue
        wait_for(lambda: metrics(port)["vllm:num_requests_waiting"] == 1)
        clients[0].close()  # in the slot, which the one who still waits gets
        wait_for(lambda: metrics(port)["vllm:num_requests_waiting"] == 0)
        assert metrics(port)["vllm:num_requests_running"] == 1
        clients[2].close()
        wait_for(lambda: metrics(port)["vllm:num_requests_running"] == 0)
        assert metrics(port)["mockengine_disconnects_total"] == 3
        assert metrics(port)["vllm:request_success_total"] == 0


def test_seeds_and_service_times_are_given_out_in_the_order_of_arrival(free_port: Ports) -> None:
    """The second request is answered while the first, whose service time is long, still runs."""
    spec = "lognormal:mean=10s,cv=10"
    seed = next(seed for seed in itertools.count() if is_long_then_short(spec, seed))
    request = json.dumps({"prompt": [1], "max_tokens": 20, "return_token_ids": True})
    with engine(port := free_port(), "--service-time", spec, "--seed", str(seed), "--body-profile", "lean"):
        first, second = (http.client.HTTPConnection("127.0.0.1", port, timeout=30) for _ in range(2))
        first.request("POST", "/v1/completions", request)
        wait_for(lambda: metrics(port)["vllm:num_requests_running"] == 1)
        second.request("POST", "/v1/completions", request)
        (choice,) = json.loads(second.getresponse().read())["choices"]
        first.close()
        second.close()
    assert np.array(choice["token_ids"], "<i4").tobytes() == Corpus("lean").tokens(seed + 1, 0, 20)


def is_long_then_short(spec: str, seed: int) -> bool:
    """Whether of the first two service times one is too long for a test to wait for, and the other hardly any."""
    numbers = random.Random(seed)
    model = parse_service_time(spec)
    return model.draw(numbers, 20, 1) > 60 and model.draw(numbers, 20, 1) < 0.1


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly_with_requests_under_way(free_port: Ports, signum: signal.Signals) -> None:
    with engine(port := free_port(), "--service-time", "fixed:1m", "--body-profile", "lean") as process:
        client = http.client.HTTPConnection("127.0.0.1", port)
        client.request("POST", "/v1/completions", json.dumps({"prompt": [1]}))
        wait_for(lambda: metrics(port)["vllm:num_requests_running"] == 1)
        process.send_signal(signum)
        assert process.wait(10) == 0
        assert process.stdout is not None
        assert re.fullmatch(
            r"mockengine: 0 requests finished and 0 clients went away; at most 1 of 256 slots were occupied, 0\.\d% on "
            r"average; the mean service time was 60 s, a ceiling of 4\.3 requests/s\.\n",
            process.stdout.read(),
        )
        with pytest.raises(ConnectionError):
            client.getresponse()
        client.close()


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--service-time", "lognormal:mean=-1s,cv=1"], "-1s"),
        (["--slots", "0"], "--slots should be at least 1, found 0"),
        (["--max-model-len", "1"], "--max-model-len should be at least 2, found 1"),
        (["--corpus-seed", "-1"], "--corpus-seed should be at least 0, found -1"),
        (["--port", "99999"], "--port should be between 0 and 65535, found 99999"),
        (["--port", "x"], "invalid int value: 'x'"),
        (["--host", "256.0.0.1"], "Cannot listen on 256.0.0.1:8000: "),
        (["--body-profile", "fat"], "invalid choice: 'fat'"),
        (["--port", "{taken}"], "Cannot listen on 127.0.0.1:{taken}: Address already in use"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(shared_engine: int, args: list[str], sentence: str) -> None:
    args = [arg.format(taken=shared_engine) for arg in args]
    command = [sys.executable, "-m", "mockengine", *args]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert result.returncode == 2
    assert result.stderr.startswith("mockengine: error: ")
    assert result.stderr.count("\n") == 1
    assert sentence.format(taken=shared_engine) in result.stderr
    assert "Unknown error" not in result.stderr
