"""What the server holds on behalf of connections that stay open."""

from __future__ import annotations

import asyncio
import json
import platform

import psutil
import pytest

from mockengine import running
from tests.integration.bench_memory import Connection, all_of, sampling_session
from tests.server_under_test.client import PROTOBUF, sample_request, server
from tests.waiting import wait_for

CONNECTIONS, TOKENS = 400, 65_536
RESULT_BYTES = TOKENS * 8


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries may keep what is freed")
def test_an_idle_connection_holds_nothing_of_the_result_that_it_delivered() -> None:
    """Acknowledged results are freed though each connection on which one was fetched is open still."""
    with running(service_time="fixed:0s") as engine, server(engine.url) as client:
        process = psutil.Process(client.process.pid)
        connections = [Connection(client.port) for _ in range(CONNECTIONS)]

        async def fetch_all() -> None:
            sampling = await sampling_session(connections[0])

            async def fetch(seq_id: int) -> str:
                params = {"max_tokens": TOKENS, "seed": seq_id}
                request = sample_request(sampling_params=params, sampling_session_id=sampling, seq_id=seq_id)
                request_id: str = json.loads(await connections[seq_id].post("asample", request))["request_id"]
                result = await connections[seq_id].post("retrieve_future", {"request_id": request_id}, PROTOBUF)
                assert len(result) > RESULT_BYTES
                return request_id

            await all_of("connecting", (connection.post("client/config", {}) for connection in connections))
            before = process.memory_info().rss
            ids = await all_of("results", map(fetch, range(CONNECTIONS)))
            target = {"target": {"sampling_session_id": sampling}, "timeout": 0, "retrieved_request_ids": ids}
            await connections[0].post("retrieve_futures", target)
            limit = before + CONNECTIONS * RESULT_BYTES / 2
            await asyncio.to_thread(wait_for, lambda: process.memory_info().rss < limit)
            await all_of("closing", (connection.close() for connection in connections))

        asyncio.run(fetch_all())
