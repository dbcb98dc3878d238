"""Slots of the forwarder, with an engine that is only a coroutine."""

from __future__ import annotations

import asyncio
from typing import Any

from server_under_test.completions import Completions
from server_under_test.decode import Wanted
from server_under_test.forwarder import Forwarder, Job
from server_under_test.futures import State
from server_under_test.result_path import ProtoOnce
from server_under_test.store import FutureStore, KeepFor


class NoEngine:
    """Answers every request with the same bytes."""

    async def complete(self, body: bytes, decode: Any) -> bytes:
        return b"result"


def test_a_job_abandoned_before_it_ran_gives_its_slot_to_the_next() -> None:
    async def scenario() -> State:
        store = FutureStore(
            KeepFor(pending_ttl_s=9.0, completed_ttl_s=9.0, retrieved_ttl_s=9.0), "boot", Completions(0)
        )
        engine: Any = NoEngine()
        forwarder = Forwarder(store, engine, limit=1, result_path=ProtoOnce())
        first, second = store.submit(None, b"", 0.0)[0], store.submit(None, b"", 0.0)[0]
        job = Job(b"", Wanted(samples=1))
        forwarder.forward(first, job)
        forwarder.abandon(first)
        forwarder.forward(second, job)
        async with asyncio.timeout(10):
            while second.state is State.PENDING:
                await asyncio.sleep(0)
        return second.state

    assert asyncio.run(scenario()) is State.READY
