"""``python -m tests.integration.bench_burst``: a burst of results at the server, and what it does to everybody else.

All futures are done at the engine and held there; then they are let go at once. Meanwhile a client with a new
connection for each request asks for the server's health, and the server measures the lag of its event loop.
"""

from __future__ import annotations

import argparse
import sys
import time

import psutil

from mockengine import RunningEngine, running
from tests.integration.canary import Canary
from tests.server_under_test.client import Client, server
from tests.waiting import wait_for


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=int, default=2048)
    parser.add_argument("--tokens", type=int, default=32_768)
    parser.add_argument("--profile", default="full")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--server-args", default="", help="further options of the server")
    options = parser.parse_args()
    print(f"{options.results:,} results of {options.tokens:,} tokens at once, body profile {options.profile}")
    names = ("all ready", "server CPU", "engine CPU", "worst lag", "canary p99", "worst", "failures", "peak RSS")
    print(" " * 8 + "".join(f"{name:>12}" for name in names))
    with (
        running(service_time="fixed:0s", slots=options.results, body_profile=options.profile) as engine,
        server(engine.url, "--engine-connections", str(options.results), *options.server_args.split()) as client,
    ):
        for number in range(options.rounds):
            engine.hold()
            seeds = range(number * options.results, (number + 1) * options.results)
            ids = [submit(client, seed, options.tokens) for seed in seeds]
            wait_for(lambda: engine.held() == options.results, within_s=120)
            print(f"round {number + 1:2}{one_round(engine, client, len(ids) * (number + 1))}", flush=True)
    return 0


def submit(client: Client, seed: int, tokens: int) -> str:
    params = {"max_tokens": tokens, "seed": seed}
    return client.submit(sampling_params=params, base_model="mock", num_samples=1)


def one_round(engine: RunningEngine, client: Client, ready: int) -> str:
    process = psutil.Process(client.process.pid)
    canary = Canary(client.port)
    spent_s = [cpu_s(pid) for pid in (client.process.pid, engine.pid)]
    began_s, lag_s, rss = time.monotonic(), 0.0, 0
    engine.release()
    while True:
        metrics = client.metrics()
        lag_s = max(lag_s, metrics["server_event_loop_lag_max_seconds"])
        rss = max(rss, process.memory_info().rss)
        if metrics["server_futures_totalready"] >= ready:
            break
        time.sleep(0.2)
    took_s = time.monotonic() - began_s
    canary.stop()
    times_s = sorted(canary.times_s)
    p99_s = times_s[int(len(times_s) * 0.99) - 1]
    server_s, engine_s = (cpu_s(pid) - s for pid, s in zip((client.process.pid, engine.pid), spent_s, strict=True))
    return (
        f"{took_s:10.1f} s{server_s:10.1f} s{engine_s:10.1f} s{lag_s * 1e3:9.0f} ms{p99_s * 1e3:9.0f} ms"
        f"{times_s[-1] * 1e3:9.0f} ms{canary.failures:12}{rss / 1e6:9.0f} MB"
    )


def cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


if __name__ == "__main__":
    sys.exit(main())
