"""The public SDK works against engine and server unchanged, and gets what the corpus says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mockengine.corpus import Corpus, prompt_logprob
from tests.integration.stack import stack

SAMPLES, MAX_TOKENS = 50, 300


@pytest.mark.parametrize(
    ("profile", "server_args"),
    [
        ("seed-equivalent", []),
        ("full", []),
        ("lean", ["--inline-limit", "1KB"]),
        ("lean", ["--result-path", "json-reencode"]),
        ("lean", ["--session-polling"]),
        ("lean", ["--session-polling", "--inline-limit", "1KB"]),
    ],
)
def test_the_real_sdk_gets_the_corpus(free_port: Callable[[], int], profile: str, server_args: list[str]) -> None:
    with stack(free_port(), free_port(), profile, "fixed:20ms", *server_args) as url:
        client = [sys.executable, "-W", "ignore", str(Path(__file__).parent / "sdk_client.py")]
        result = subprocess.run(
            [*client, url, str(SAMPLES), str(MAX_TOKENS)], capture_output=True, text=True, timeout=120
        )
    assert result.returncode == 0, result.stderr
    samples = json.loads(result.stdout)
    assert len(samples) == SAMPLES
    corpus = Corpus(profile)  # type: ignore[arg-type]
    for seed, sample in enumerate(samples):
        assert sample["prompt_logprobs"] == [None, prompt_logprob(2), prompt_logprob(3)]
        assert sample["sequences"] == [
            [corpus.tokens(seed, i, MAX_TOKENS).hex(), corpus.logprobs(seed, i, MAX_TOKENS).hex(), "length"]
            for i in range(2)
        ]
