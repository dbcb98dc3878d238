"""``python -m mockengine.bench``: what a response costs, what waiting costs, and how exact short delays are.

Figures are CPU of the engine's process, which is what limits it: the client has a core of its own. Each is the median
of ROUNDS, with the least and the most.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil
import uvloop

from mockengine.admission import Admission
from mockengine.corpus import PROFILES
from mockengine.faults import Plan
from mockengine.metrics import Metrics
from mockengine.process import tune_collector
from mockengine.scheduler import Scheduler
from mockengine.service_time import Fixed
from mockengine.testing import running

ROUNDS = 5
CONNECTIONS = 8
TOKENS = (8_192, 32_768)
WAITING = (100, 1_000, 10_000, 100_000)
DELAYS_S = (100e-6, 400e-6, 1_500e-6)
_PROMPT_TOKENS = 100


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m mockengine.bench", description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of each round")
    parser.add_argument("--guidellm", type=Path, help="the guidellm program, whose mock server is measured beside ours")
    options = parser.parse_args()
    rows = (len(PROFILES) + (options.guidellm is not None)) * len(TOKENS)
    least_s = rows * ROUNDS * options.seconds + len(WAITING) * 5 + len(DELAYS_S) * 3
    print(f"{rows + len(WAITING) + len(DELAYS_S)} measurements, about {1.3 * least_s / 60:.0f} minutes\n")
    _print_responses(options.seconds, options.guidellm)
    _print_waiting()
    _print_delays()
    return 0


def _print_responses(seconds: float, guidellm: Path | None) -> None:
    print("A response, of n = 1 with logprobs: 1 and return_token_ids, over keep-alive connections")
    print(f"{'':34} {'bytes':>10} {'CPU ms a response':>24} {'responses/s of one core':>26}")
    for profile in PROFILES:
        for tokens in TOKENS:
            with running(body_profile=profile, service_time="fixed:0s", slots=CONNECTIONS) as engine:
                prompt = list(range(_PROMPT_TOKENS))
                _print_row(f"{profile}, {tokens:,} tokens", engine.pid, engine.port, prompt, tokens, seconds)
    if guidellm is None:
        print("guidellm mock-server               not measured: --guidellm says where it is")
        return
    words = "word " * _PROMPT_TOKENS  # it takes no token ids, and sends text alone
    for tokens in TOKENS:
        with _guidellm(guidellm, tokens) as (pid, port):
            _print_row(f"guidellm text only, {tokens:,} tokens", pid, port, words, tokens, seconds)


def _print_row(name: str, pid: int, port: int, prompt: object, tokens: int, seconds: float) -> None:
    body = {"prompt": prompt, "model": "mock", "max_tokens": tokens, "logprobs": 1, "return_token_ids": True}
    with _Load(port, json.dumps(body).encode()) as load:
        costs_s = [_cost_s(pid, load, seconds) for _ in range(ROUNDS + 1)][1:]  # the first one warms up
    print(
        f"{name:34} {load.response_bytes:>10,} {_spread([cost_s * 1e3 for cost_s in costs_s], '.3f'):>24} "
        f"{_spread([1 / cost_s for cost_s in costs_s], '.0f'):>26}",
        flush=True,
    )


def _cost_s(pid: int, load: _Load, seconds: float) -> float:
    """CPU seconds a response, of a process and its children."""
    count, cpu_s = load.count, _cpu_s(pid)
    time.sleep(seconds)
    return (_cpu_s(pid) - cpu_s) / max(1, load.count - count)


def _cpu_s(pid: int) -> float:
    process = psutil.Process(pid)
    times = [one.cpu_times() for one in (process, *process.children(recursive=True))]
    return sum(one.user + one.system for one in times)


def _spread(values: Sequence[float], form: str) -> str:
    return f"{statistics.median(values):{form}} ({min(values):{form}} to {max(values):{form}})"


class _Load:
    """CONNECTIONS threads that send one request after the other and throw the answers away."""

    def __init__(self, port: int, body: bytes) -> None:
        head = "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
        self._request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
        self._port = port
        self._counts = [0] * CONNECTIONS
        self._stopping = False
        self._threads = [threading.Thread(target=self._run, args=(number,)) for number in range(CONNECTIONS)]
        self.response_bytes = 0

    @property
    def count(self) -> int:
        return sum(self._counts)

    def __enter__(self) -> _Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping = True
        for thread in self._threads:
            thread.join()

    def _run(self, number: int) -> None:
        buffer = memoryview(bytearray(1 << 20))
        with socket.create_connection(("127.0.0.1", self._port)) as connection:
            while not self._stopping:
                connection.sendall(self._request)
                received = connection.recv_into(buffer)
                head, _, _ = bytes(buffer[:received]).partition(b"\r\n\r\n")
                if not head.startswith(b"HTTP/1.1 200"):
                    raise RuntimeError(f"The engine answered {head[:100].decode()}")
                length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
                missing = len(head) + 4 + length - received
                while missing > 0:
                    missing -= connection.recv_into(buffer)
                self._counts[number] += 1
                self.response_bytes = length


@contextmanager
def _guidellm(program: Path, tokens: int) -> Iterator[tuple[int, int]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    options = ["--port", str(port), "--workers", "1", "--output-tokens", str(tokens)]
    options += ["--ttft-ms", "0", "--itl-ms", "0", "--request-latency", "0"]
    command = [str(program), "mock-server", *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(600):
                time.sleep(0.1)
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
            yield process.pid, port
        finally:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.kill()


def _print_waiting() -> None:
    print("\nA request's way through queue, slot and gate while others wait (in process, without HTTP)")
    print(f"{'':34} {'CPU us a request':>24} {'bytes a waiting request':>26}")
    for waiting in WAITING:
        costs_us, size = uvloop.run(_turnover(waiting))
        print(f"{f'{waiting:,} waiting':34} {_spread(costs_us, '.1f'):>24} {size:>26,.0f}", flush=True)


async def _turnover(waiting: int) -> tuple[list[float], float]:
    """CPU microseconds a request in each round, and bytes that one more waiting request takes."""
    slots, served = 64, 20_000
    admission = Admission(slots, time.monotonic())
    scheduler = Scheduler(admission, Fixed(0.0), 0, Metrics("mock", admission, Plan([], 0, 0.0)))
    done = 0

    async def request() -> None:
        nonlocal done
        await scheduler.serve(16)
        done += 1
        tasks.discard(asyncio.current_task())
        if done + admission.waiting < goal:
            submit()

    def submit() -> None:
        tasks.add(asyncio.create_task(request()))

    tasks: set[asyncio.Task[None] | None] = set()
    goal = 10**9
    scheduler.hold()
    before_bytes = psutil.Process().memory_info().rss
    for _ in range(slots + waiting):
        submit()
    while admission.waiting < waiting:
        await asyncio.sleep(0)
    size = (psutil.Process().memory_info().rss - before_bytes) / waiting
    gc.collect()
    tune_collector()
    scheduler.release()
    costs_us = []
    for _ in range(ROUNDS):
        start, cpu_s = done, time.process_time()
        while done < start + served:
            await asyncio.sleep(0)
        costs_us.append((time.process_time() - cpu_s) / (done - start) * 1e6)
    goal = 0
    for task in [task for task in tasks if task is not None]:
        task.cancel()
    await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)
    return costs_us, size


def _print_delays() -> None:
    print("\nDelays that are shorter than a timer's resolution, one request after the other")
    print(f"{'':34} {'mean us in the slot':>24}")
    for delay_s in DELAYS_S:
        us = f"{delay_s * 1e6:.0f}us"
        with running(body_profile="lean", service_time=f"fixed:{us}", slots=1) as engine:
            means_us = [_mean_in_slot_us(engine.port, engine.metrics) for _ in range(ROUNDS)]
        print(f"{f'asked for {us}':34} {_spread(means_us, '.0f'):>24}", flush=True)


def _mean_in_slot_us(port: int, metrics: Callable[[], dict[str, float]]) -> float:
    name = "vllm:request_inference_time_seconds"
    before = metrics()
    with _Load(port, json.dumps({"prompt": [1], "max_tokens": 1}).encode()):
        time.sleep(1)
    after = metrics()
    return (after[f"{name}_sum"] - before[f"{name}_sum"]) / (after[f"{name}_count"] - before[f"{name}_count"]) * 1e6


if __name__ == "__main__":
    sys.exit(main())
