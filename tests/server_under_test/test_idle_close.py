"""Clients that use a connection again at about the moment at which the server closes it for being idle."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from typing import Any

from tests.server_under_test.client import sample_request, server
from tests.server_under_test.stub_engine import stub_engine

KEEP_ALIVE_MS = 20
CLIENTS, FUTURES = 16, 20


def test_nothing_is_lost_or_doubled() -> None:
    """A submit whose connection has ended is sent again, as an SDK does; its identity keeps it from running twice."""
    with stub_engine() as engine, server(engine.url, "--keep-alive", f"{KEEP_ALIVE_MS}ms") as client:
        clients = [Submitter(client.port, number) for number in range(CLIENTS)]
        asyncio.run(run(clients))
        ids = [request_id for submitter in clients for request_id in submitter.ids]
        assert len(set(ids)) == CLIENTS * FUTURES
        assert Counter(request["seed"] for request in engine.requests) == Counter(range(CLIENTS * FUTURES))
        for request_id in ids:
            assert client.retrieve(request_id)[1].sequences
        found_closed = sum(submitter.found_closed for submitter in clients)
        assert 0 < found_closed < len(ids)


class Submitter:
    """Submits its futures over one connection, with pauses of about the keep-alive time."""

    def __init__(self, port: int, number: int) -> None:
        self._port = port
        self._number = number
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.ids: list[str] = []
        self.found_closed = 0

    async def run(self) -> None:
        session = await self._post("create_session", {})
        wanted = {"session_id": session["session_id"], "base_model": "m"}
        sampling = (await self._post("create_sampling_session", wanted))["sampling_session_id"]
        for seq_id in range(FUTURES):
            params = {"max_tokens": 1, "seed": self._number * FUTURES + seq_id}
            request = sample_request(sampling_session_id=sampling, seq_id=seq_id, sampling_params=params)
            self.ids.append((await self._post("asample", request))["request_id"])
            await asyncio.sleep(random.gauss(KEEP_ALIVE_MS, 2) / 1000)
        assert self._streams is not None
        self._streams[1].close()

    async def _post(self, name: str, document: object) -> Any:
        body = json.dumps(document)
        request = f"POST /api/v1/{name} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        while True:
            if self._streams is None:
                self._streams = await asyncio.open_connection("127.0.0.1", self._port)
            reader, writer = self._streams
            try:
                writer.write(request.encode())
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n")[0])
                answer = await reader.readexactly(length)
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()
                self._streams = None
                self.found_closed += 1
                continue
            assert head.startswith(b"HTTP/1.1 200 "), head + answer
            return json.loads(answer)


async def run(clients: list[Submitter]) -> None:
    await asyncio.gather(*(client.run() for client in clients))
