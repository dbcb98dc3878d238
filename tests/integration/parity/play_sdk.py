"""The real SDK as a player: ``python -m tests.integration.parity.play_sdk SPEED < jobs.json``; prints how samples ended."""

from __future__ import annotations

import functools
import json
import os
import ssl
import sys
import time
from typing import Any

from tests.integration.parity.clocks import speed_up, speed_up_asyncio

SPEED = float(sys.argv[1])
if __name__ == "__main__":
    speed_up(SPEED)
    speed_up_asyncio(SPEED)
    # Each of the SDK's pools has a context for TLS of its own, which takes longer to load than a plain request.
    ssl.create_default_context = functools.cache(ssl.create_default_context)

import tinker
from tinker import types


def main(jobs: list[dict[str, Any]]) -> dict[str, list[str]]:
    clients = {
        job["name"]: tinker.ServiceClient(base_url=job["url"], api_key="tml-test").create_sampling_client(
            base_model="mock"
        )
        for job in jobs
    }
    starts = sorted(
        ((start_s, job["name"], job) for job in jobs for start_s in job["starts_s"]), key=lambda start: start[:2]
    )
    futures: dict[str, list[Any]] = {job["name"]: [] for job in jobs}
    began_s = time.monotonic()
    for start_s, name, job in starts:
        time.sleep(max(0.0, start_s + began_s - time.monotonic()) / SPEED)
        prompt = types.ModelInput.from_ints([1] * job["prompt_tokens"])
        params = types.SamplingParams(max_tokens=job["max_tokens"], seed=0)
        futures[name].append(clients[name].sample(prompt=prompt, num_samples=1, sampling_params=params))
    return {name: sorted(_end(future) for future in each) for name, each in futures.items()}


def _end(future: Any) -> str:
    try:
        future.result()
    except Exception as error:
        print(type(error).__name__, str(error)[:300], file=sys.stderr)
        return "failed"
    return "delivered"


if __name__ == "__main__":
    print(json.dumps(main(json.load(sys.stdin))))
    sys.stdout.flush()
    os._exit(0)  # its transport may abort the interpreter's end, see sdk_client.py
