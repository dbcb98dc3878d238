"""``python -m tests.integration.bench_memory``: where each byte of the server's memory is.

One thing after the other is added to a server, and taken away again; each line has the resident memory after it, and
what the last thing added to it, for each of them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

import psutil
from tqdm import tqdm

from mockengine import RunningEngine, running
from tests.server_under_test.client import JSON, PROTOBUF, Client, sample_request, server

T = TypeVar("T")

AT_THE_ENGINE = 512
AT_ONCE = 64
SETTLE_S = 3.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=8000, help="connections, futures and results")
    parser.add_argument("--tokens", type=int, default=4096, help="of each result")
    options = parser.parse_args()
    print(f"{options.count:,} connections, futures and results of {options.tokens:,} tokens", flush=True)
    with (
        running(service_time="fixed:0s", slots=options.count) as engine,
        server(engine.url, "--engine-connections", str(AT_THE_ENGINE)) as client,
    ):
        asyncio.run(measure(client, engine, options.count, options.tokens))
    return 0


async def measure(client: Client, engine: RunningEngine, count: int, tokens: int) -> None:
    rss = Rss(client)
    await rss.line("idle")
    connections = [Connection(client.port) for _ in range(count)]
    await all_of("connecting", (connection.post("client/config", {}) for connection in connections))
    await rss.line("a connection", count)
    sampling = await sampling_session(connections[0])

    async def submit(seq_id: int) -> str:
        params = {"max_tokens": tokens, "seed": seq_id}
        request = sample_request(sampling_params=params, sampling_session_id=sampling, seq_id=seq_id)
        request_id: str = json.loads(await connections[seq_id].post("asample", request))["request_id"]
        return request_id

    await asyncio.to_thread(engine.hold)
    ids = await all_of("submitting", (submit(number) for number in range(AT_THE_ENGINE)))
    await rss.line("a future at the engine", AT_THE_ENGINE)
    ids += await all_of("submitting", (submit(number) for number in range(AT_THE_ENGINE, count)))
    await rss.line("a future that waits for the engine", count - AT_THE_ENGINE)
    polls = [
        asyncio.create_task(connection.post("retrieve_future", {"request_id": request_id}, PROTOBUF))
        for connection, request_id in zip(connections, ids, strict=True)
    ]
    while client.metrics()["server_waiting_polls"] < count:
        await asyncio.sleep(0.1)
    await rss.line("a poll that is held", count)
    await asyncio.to_thread(engine.release)
    size = len((await all_of("results", polls))[0])
    await rss.line(f"a result of {size:,} bytes, in the place of poll and wait", count)
    target = {"target": {"sampling_session_id": sampling}, "timeout": 0, "retrieved_request_ids": ids}
    await connections[0].post("retrieve_futures", target)
    await rss.line("acknowledging a result", count)
    await all_of("closing", (connection.close() for connection in connections))
    await rss.line("closing a connection", count)


class Rss:
    """Prints what the server's resident memory is, and what it changed by."""

    def __init__(self, client: Client) -> None:
        self._process = psutil.Process(client.process.pid)
        self._last = 0

    async def line(self, what: str, count: int | None = None) -> None:
        await asyncio.sleep(SETTLE_S)
        rss = self._process.memory_info().rss
        each = "" if count is None else f"{(rss - self._last) / count:+12,.0f} bytes each"
        print(f"{what:64}{rss / 1e6:8.1f} MB{each}", flush=True)
        self._last = rss


class Connection:
    """One keep-alive connection, opened when it is first used."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def post(self, name: str, document: object, accept: str = JSON) -> bytes:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        body = json.dumps(document)
        head = f"POST /api/v1/{name} HTTP/1.1\r\nHost: x\r\nAccept: {accept}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write((head + body).encode())
        answer = await reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200 "), answer
        length = int(answer.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
        return await reader.readexactly(length)

    async def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            await self._streams[1].wait_closed()


async def sampling_session(connection: Connection) -> str:
    session = json.loads(await connection.post("create_session", {}))
    wanted = {"session_id": session["session_id"], "base_model": "mock"}
    sampling_session_id: str = json.loads(await connection.post("create_sampling_session", wanted))[
        "sampling_session_id"
    ]
    return sampling_session_id


async def all_of(what: str, work: Iterable[Coroutine[Any, Any, T] | asyncio.Task[T]]) -> list[T]:
    """The results in order; AT_ONCE of them are under way at a time, as far as they have not begun before."""
    gate = asyncio.Semaphore(AT_ONCE)
    pieces = list(work)
    with tqdm(total=len(pieces), desc=what, leave=False) as bar:

        async def one(piece: Coroutine[Any, Any, T] | asyncio.Task[T]) -> T:
            async with gate:
                result = await piece
            bar.update()
            return result

        return list(await asyncio.gather(*map(one, pieces)))


if __name__ == "__main__":
    sys.exit(main())
