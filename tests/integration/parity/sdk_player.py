"""The real SDK as a player."""

from __future__ import annotations

import functools
import ssl
import sys
import time
from typing import Any

import tinker
from tinker import types

# Each of the SDK's pools has a context for TLS of its own, which takes longer to load than a plain request.
ssl.create_default_context = functools.cache(ssl.create_default_context)


def play(jobs: list[dict[str, Any]], speed: float) -> dict[str, list[str]]:
    """All rows side by side, each with a client of its own: how their samples ended."""
    clients = {job["name"]: _client(job["url"]) for job in jobs}
    starts = sorted(
        (job["begin_in_s"] + start_s, number) for number, job in enumerate(jobs) for start_s in job["starts_s"]
    )
    futures: dict[str, list[Any]] = {name: [] for name in clients}
    began_s = time.monotonic()
    for start_s, number in starts:
        time.sleep(max(0.0, start_s + began_s - time.monotonic()) / speed)
        job = jobs[number]
        prompt = types.ModelInput.from_ints([1] * job["prompt_tokens"])
        params = types.SamplingParams(max_tokens=job["max_tokens"], seed=0)
        future = clients[job["name"]].sample(prompt=prompt, num_samples=1, sampling_params=params)
        futures[job["name"]].append(future)
    return {name: [_end(future) for future in each] for name, each in futures.items()}


def _client(url: str) -> Any:
    return tinker.ServiceClient(base_url=url).create_sampling_client(base_model="mock")


def _end(future: Any) -> str:
    try:
        future.result()
    except Exception as error:
        print(type(error).__name__, str(error)[:300], file=sys.stderr)
        return "failed"
    return "delivered"
