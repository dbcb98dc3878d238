"""``python -m tests.integration.sdk_generations ENVIRONMENT ...``: SDKs of several generations at one running server.

Each environment is a virtual environment with one version of the SDK; one that knows session polling is tried with it
and without it. Every number of every result is compared with what the mock engine must have sent.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from mockengine import running
from mockengine.corpus import Corpus, prompt_logprob
from tests.integration.sdk_client import PROMPT
from tests.server_under_test.client import Client, server

CLIENT = Path(__file__).parent / "sdk_client.py"
MAX_TOKENS, SAMPLES_OF_EACH, TOPK = 200, 2, 3
PATIENCE_S = 180.0
# The version, and whether it knows of polling sessions.
PROBE = (
    "import importlib.metadata as m, tinker.types as t; c = getattr(t, 'ClientConfigResponse', None); "
    "print(m.version('tinker'), 'sample_use_retrieve_futures' in getattr(c, 'model_fields', ()))"
)

Topk = list[list[tuple[int, float]] | None]


class Engine:
    """What the mock engine must have sent. Likeliest tokens are asked of the engine itself."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._corpus = Corpus("full")

    def sample(self, seed: int, asked: list[str]) -> dict[str, Any]:
        """As sdk_client.py prints a sample; asked: the likeliest tokens that the SDK can ask for."""
        choices = self._choices(seed)
        tops = [choice["logprobs"]["top_logprobs"] for choice in choices]
        indices = range(SAMPLES_OF_EACH)
        return {
            "prompt_logprobs": [None, *(prompt_logprob(token) for token in PROMPT[1:])],
            "sequences": [
                [
                    self._corpus.tokens(seed, i, MAX_TOKENS).hex(),
                    self._corpus.logprobs(seed, i, MAX_TOKENS).hex(),
                    "length",
                ]
                for i in indices
            ],
            "topk_prompt_logprobs": _prompt_topk(choices[0]["prompt_logprobs"])
            if "topk_prompt_logprobs" in asked
            else None,
            "topk_sample_logprobs": [_topk(tops[i]) if "topk_sample_logprobs" in asked else None for i in indices],
            "asked": asked,
        }

    def _choices(self, seed: int) -> list[Any]:
        asked = {
            "n": SAMPLES_OF_EACH,
            "max_tokens": MAX_TOKENS,
            "seed": seed,
            "logprobs": TOPK,
            "prompt_logprobs": TOPK,
        }
        body = json.dumps({"prompt": PROMPT, "return_tokens_as_token_ids": True, **asked}).encode()
        with urllib.request.urlopen(f"{self._url}/v1/completions", body) as answer:
            found: list[Any] = json.load(answer)["choices"]
        return found


def _topk(positions: list[dict[str, float]]) -> Topk:
    rows = [sorted(position.items(), key=lambda entry: -entry[1])[:TOPK] for position in positions]
    return [[(int(name.removeprefix("token_id:")), value) for name, value in row] for row in rows]


def _prompt_topk(positions: list[Any]) -> Topk:
    rows = [sorted(p.items(), key=lambda entry: entry[1]["rank"])[:TOPK] if p else None for p in positions]
    return [row and [(int(token), entry["logprob"]) for token, entry in row] for row in rows]


def as_on_the_wire(value: Any) -> Any:
    """Every float as a float32, and every pair as a list, as JSON has it."""
    if isinstance(value, float):
        return float(np.float32(value))
    if isinstance(value, list | tuple):
        return [as_on_the_wire(one) for one in value]
    return {key: as_on_the_wire(one) for key, one in value.items()} if isinstance(value, dict) else value


def ask(python: Path, client: Client, count: int, polling: str) -> list[dict[str, Any]]:
    """What the SDK got. Raises ValueError with the end of what it said when it failed."""
    command = [str(python), "-W", "ignore", str(CLIENT), f"http://127.0.0.1:{client.port}", str(count), str(MAX_TOKENS)]
    result = subprocess.run([*command, str(TOPK), polling], capture_output=True, text=True, timeout=PATIENCE_S)
    if result.returncode != 0:
        raise ValueError(result.stderr[-1500:])
    samples: list[dict[str, Any]] = json.loads(result.stdout)
    return samples


def rounds(environments: list[Path]) -> Iterator[tuple[Path, str, bool]]:
    """Interpreter, version, and whether sessions are polled."""
    for environment in environments:
        python = environment / "bin" / "python"
        version, sessions = subprocess.check_output([str(python), "-W", "ignore", "-c", PROBE], text=True).split()
        yield python, version, False
        if sessions == "True":
            yield python, version, True


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.integration.sdk_generations", description=__doc__)
    parser.add_argument("environments", nargs="+", type=Path, metavar="ENVIRONMENT")
    parser.add_argument("--samples", type=int, default=100, help="of each SDK in each polling mode")
    options = parser.parse_args()
    row = "{:<10}{:<12}{:>10}{:>10}{:>10}   {}"
    print(row.format("tinker", "polls", "samples", "right", "wrong", "likeliest tokens of"), flush=True)
    wrong_in_all = 0
    with (
        running(service_time="fixed:20ms", body_profile="full") as engine,
        server(engine.url, "--session-polling", "--inline-limit", "1KB") as client,
    ):
        must = Engine(engine.url)
        for python, version, sessions in rounds(options.environments):
            acknowledged = client.metrics()["server_results_acknowledged_total"]
            try:
                samples = ask(python, client, options.samples, "sessions" if sessions else "futures")
            except (ValueError, subprocess.TimeoutExpired) as error:
                samples, trouble = [], str(error)
            else:
                trouble = ""
            right = sum(
                as_on_the_wire(sample) == as_on_the_wire(must.sample(seed, sample["asked"]))
                for seed, sample in enumerate(samples)
            )
            # Only who polls sessions says which results it has.
            told = client.metrics()["server_results_acknowledged_total"] > acknowledged
            if told != sessions and not trouble:
                right, trouble = 0, f"It polled {'sessions' if told else 'futures'}."
            wrong = options.samples - right
            wrong_in_all += wrong
            topks = ", ".join(name.split("_")[1] for name in (samples[0]["asked"] if samples else ())) or "nothing"
            polls = "sessions" if sessions else "futures"
            print(row.format(version, polls, options.samples, right, wrong, topks), flush=True)
            if trouble:
                print(trouble)
    return 1 if wrong_in_all else 0


if __name__ == "__main__":
    sys.exit(main())
