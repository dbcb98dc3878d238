"""``python -m tests.integration.fuzz_server``: what nobody should send, sent to a server, and how that takes it.

No request may make it answer 5xx, close without an answer or stall; each 4xx holds a sentence; whoever else asks
meanwhile is answered; the log stays empty; every future that was accepted ends; and once everything that is held has
expired, memory and open files are those that they were after the first tenth.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
from tqdm import tqdm

from mockengine import running
from tests.integration.canary import Canary
from tests.integration.fuzz_requests import Known, Request, RequestMaker, hypothesis_values
from tests.server_under_test.client import Client, server

CONNECTIONS = 24
STALL_S = 10.0
UNFRAMED_PATIENCE_S = 0.1  # a server may rightly wait for the rest of what has no end
ENGINE_CONNECTIONS = 8
SERVER_ARGS = (
    *("--poll-hold", "50ms", "--session-poll-hold", "50ms", "--retrieved-ttl", "1s", "--completed-ttl", "2s"),
    *("--sweep-interval", "100ms", "--inline-limit", "500", "--engine-connections", str(ENGINE_CONNECTIONS)),
)
# A server fails those futures and keeps nothing of them.
ENGINE_FAULTS = [f"{kind}:probability=0.02" for kind in ("http_500", "html_200", "truncated_json", "token_count")]
# The allocator keeps fragments, and the server buffers, as large as the worst moment needed them.
RSS_GROWTH, RSS_SLACK_BYTES = 1.25, 96 * 2**20
EXPIRED_WITHIN_S = 20.0
MOST_FAILURES = 10


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes
    closes: bool


@dataclass
class Findings:
    """failures: a sentence, and the request that led to it."""

    statuses: Counter[int] = field(default_factory=Counter)
    accepted: set[str] = field(default_factory=set)
    failures: list[tuple[str, Request]] = field(default_factory=list)
    unanswered: int = 0
    slowest_s: float = 0.0


def fault_of(request: Request, answer: Answer) -> str | None:
    """What is wrong with an answer, as a sentence; None when nothing is."""
    if answer.status >= 500:
        return f"It was answered {answer.status}: {answer.body[:200]!r}."
    if answer.status < 400 or request.method == "HEAD":
        return None
    try:
        document = json.loads(answer.body)
    except ValueError:
        return f"The {answer.status} holds no JSON: {answer.body[:200]!r}."
    if answer.status == 408 and document.get("type") == "try_again":
        return None
    detail = document.get("detail", "")
    if not isinstance(detail, str) or len(detail) < 10 or not detail.endswith("."):
        return f"The {answer.status} holds no sentence: {answer.body[:200]!r}."
    return None


def learn(request: Request, answer: Answer, known: Known, findings: Findings) -> None:
    """Remember the ids that an answer gives out."""
    if answer.status != 200 or not request.path.startswith("/api/v1/") or not answer.body.startswith(b"{"):
        return
    document = json.loads(answer.body)
    for name, ids in (
        ("session_id", known.session_ids),
        ("sampling_session_id", known.sampling_session_ids),
        ("request_id", known.request_ids),
    ):
        if name in document:
            ids.append(document[name])
            del ids[:-50]
    if "sample_sequence_ids" in document:
        findings.accepted.add(document["request_id"])


class Connection:
    """One keep-alive connection, opened again when the server has closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, request: Request) -> Answer | None:
        """None when the server closes the connection instead. Raises TimeoutError."""
        async with asyncio.timeout(STALL_S if request.framed else UNFRAMED_PATIENCE_S):
            if self._streams is None:
                self._streams = await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = self._streams
            try:
                writer.write(request.raw)
                # Not drained: a server may answer before it has read everything.
                answer = await _read_answer(reader, request.method)
            except (asyncio.IncompleteReadError, ConnectionError):
                answer = None
        if answer is None or answer.closes or not request.framed:
            self.close()
        return answer

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].transport.abort()
            self._streams = None


async def _read_answer(reader: asyncio.StreamReader, method: str) -> Answer:
    while True:
        head = await reader.readuntil(b"\r\n\r\n")
        status = int(head.split(b" ", 2)[1])
        if status >= 200:
            break
    headers = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:-2])
    size = 0 if method == "HEAD" else int(headers.get(b"content-length", 0))
    closes = headers.get(b"connection") == b"close" or head.startswith(b"HTTP/1.0")  # as what is no HTTP is answered
    return Answer(status, await reader.readexactly(size), closes)


async def fuzz(port: int, makers: list[tuple[RequestMaker, Known]], count: int, findings: Findings, bar: Any) -> None:
    """Send ``count`` requests in all, over as many connections as there are makers; stop after MOST_FAILURES."""
    left = count

    async def one(maker: RequestMaker, known: Known) -> None:
        nonlocal left
        connection = Connection(port)
        while left > 0 and len(findings.failures) < MOST_FAILURES:
            left -= 1
            request = maker.next()
            began_s = time.monotonic()
            try:
                answer = await connection.ask(request)
            except TimeoutError:
                connection.close()
                findings.unanswered += 1
                if request.framed:
                    findings.failures.append((f"There was no answer within {STALL_S:.0f} s.", request))
            else:
                findings.slowest_s = max(findings.slowest_s, time.monotonic() - began_s)
                _judge(request, answer, known, findings)
            bar.update()
        connection.close()

    async with asyncio.TaskGroup() as tasks:
        for maker, known in makers:
            tasks.create_task(one(maker, known))


def _judge(request: Request, answer: Answer | None, known: Known, findings: Findings) -> None:
    if answer is None:
        findings.unanswered += 1
        fault = "The connection was closed without an answer." if request.framed else None
    else:
        findings.statuses[answer.status] += 1
        fault = fault_of(request, answer)
        learn(request, answer, known, findings)
    if fault is not None:
        findings.failures.append((fault, request))


@dataclass(frozen=True)
class Footprint:
    """What a server holds when nobody asks anything. held: what it should have ended or dropped by then, by name."""

    rss_bytes: int
    files: int
    held: dict[str, float]


def footprint(client: Client) -> Footprint:
    """Waits until every future has ended and expired, as they do within seconds."""
    names = ("server_outstanding_futures", "server_held_bytes", "server_waiting_polls", "server_engine_requests")
    deadline_s = time.monotonic() + EXPIRED_WITHIN_S
    while True:
        metrics = client.metrics()
        held = {name: metrics[name] for name in names if metrics[name]}
        if not held or time.monotonic() > deadline_s:
            process = psutil.Process(client.process.pid)
            return Footprint(process.memory_info().rss, process.num_fds(), held)
        time.sleep(0.05)


def run(
    requests: int, seed: int, values: int, say: Callable[[str], None], folder: Path, *server_args: str
) -> list[str]:
    """What was found, each as a sentence; an empty list when all is well."""
    findings, log = Findings(), []
    made = hypothesis_values(seed, values)
    makers = []
    for number in range(CONNECTIONS):
        known = Known()
        makers.append((RequestMaker(f"{seed}-{number}", made, known), known))
    with (
        running(service_time="fixed:1ms", max_model_len=500, fault=ENGINE_FAULTS) as engine,
        server(engine.url, *SERVER_ARGS, *server_args) as client,
    ):
        reader = threading.Thread(target=lambda: log.extend(client.process.stdout or ()))
        reader.start()
        canary = Canary(client.port)
        try:
            with tqdm(total=requests, unit=" requests", mininterval=1.0, smoothing=0.05) as bar:
                first = requests // 10
                asyncio.run(fuzz(client.port, makers, first, findings, bar))
                before = footprint(client)
                asyncio.run(fuzz(client.port, makers, requests - first, findings, bar))
                after = footprint(client)
        finally:
            canary.stop()
        metrics = client.metrics()
        client.process.terminate()
        reader.join()
    say(f"answers: {', '.join(f'{count:,} x {status}' for status, count in sorted(findings.statuses.items()))}")
    say(f"closed or left waiting, after what has no proper end: {findings.unanswered:,}")
    ready = int(metrics["server_futures_totalready"])
    ended = ready + int(metrics["server_futures_totalfailed"])
    say(f"futures: {len(findings.accepted):,} accepted, {ended:,} ended, {ready:,} of them ready")
    say(
        f"slowest answer {findings.slowest_s:.2f} s; "
        f"canary: asked {len(canary.times_s):,} times, worst {max(canary.times_s):.2f} s"
    )
    say(
        f"idle after a tenth: {before.rss_bytes / 1e6:.0f} MB, {before.files} files; "
        f"at the end: {after.rss_bytes / 1e6:.0f} MB, {after.files} files"
    )
    found = [
        f"{fault} {_reproducer(folder, number, request)}" for number, (fault, request) in enumerate(findings.failures)
    ]
    if canary.failures or max(canary.times_s) > STALL_S:
        found.append(f"The canary failed {canary.failures} times and waited up to {max(canary.times_s):.1f} s.")
    if ended < len(findings.accepted):
        found.append(f"{len(findings.accepted):,} futures were accepted, and {ended:,} ended.")
    found += [
        f"After {EXPIRED_WITHIN_S:.0f} s in which nobody asked, the server still had {moment.held}."
        for moment in (before, after)
        if moment.held
    ]
    if after.rss_bytes > before.rss_bytes * RSS_GROWTH + RSS_SLACK_BYTES:
        found.append(f"Memory grew from {before.rss_bytes:,} to {after.rss_bytes:,} bytes.")
    if after.files > before.files + ENGINE_CONNECTIONS:
        found.append(f"Open files grew from {before.files} to {after.files}.")
    # All that a server may say is what became of its futures, as it stops.
    if not (len(log) == 1 and log[0].startswith("server_under_test: ")):
        found.append("The server's log says:\n" + "".join(log[:60]))
    return found


def _reproducer(folder: Path, number: int, request: Request) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{number}.http"
    path.write_bytes(request.raw)
    command = f"{sys.executable} -m tests.integration.fuzz_server --send {path}"
    return f"{request.method} {request.path[:80]!a}: {request.raw[:300]!r}\n  {command}"


def send(path: Path) -> None:
    """Send what a file holds to a server of its own, and print all that both say."""
    with running(service_time="fixed:5ms") as engine, server(engine.url, *SERVER_ARGS) as client:
        request = Request(path.read_bytes(), False, "POST", "")

        async def ask() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", client.port)
            writer.write(request.raw)
            try:
                async with asyncio.timeout(1):
                    while piece := await reader.read(65536):
                        print(piece.decode("latin-1"), end="")
            except TimeoutError:
                print()
            writer.close()

        asyncio.run(ask())
        client.process.terminate()
        print(*(client.process.stdout or ()), sep="", end="")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.integration.fuzz_server", description=__doc__)
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--seed", type=int, help="of what is sent; one is drawn and printed unless it is given")
    parser.add_argument("--values", type=int, default=3_000, help="how many JSON values hypothesis makes first")
    parser.add_argument("--server-args", default="", help="further options of the server")
    parser.add_argument("--send", type=Path, metavar="FILE", help="send one request that an earlier run has kept")
    options = parser.parse_args()
    if options.send is not None:
        send(options.send)
        return 0
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    print(f"seed {seed}: {options.requests:,} requests over {CONNECTIONS} connections", flush=True)
    folder = Path("runs") / f"fuzz-{seed}"
    found = run(options.requests, seed, options.values, print, folder, *options.server_args.split())
    for sentence in found:
        print(f"\nwrong: {sentence}")
    print(f"{'FAIL' if found else 'pass'}: {len(found)} things are wrong (make fuzz FUZZ_ARGS='--seed {seed}').")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
