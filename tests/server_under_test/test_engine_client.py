"""One connection to the engine, without a socket: the test is the event loop."""

from __future__ import annotations

import asyncio
from unittest.mock import create_autospec

from server_under_test.engine_client import _Connection
from server_under_test.http_answer import Buffers

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def receive(connection: _Connection, data: bytes) -> None:
    connection.get_buffer(-1)[: len(data)] = data
    connection.buffer_updated(len(data))


def test_bytes_after_the_answer_make_the_connection_unusable() -> None:
    """Else the next request on it would read them as the beginning of its own answer."""

    async def unasked(before_the_caller_runs: bool) -> None:
        connection = _Connection(Buffers())
        connection.connection_made(create_autospec(asyncio.Transport))
        request = asyncio.create_task(connection.request(b"request"))
        await asyncio.sleep(0)
        receive(connection, ANSWER)
        if before_the_caller_runs:
            receive(connection, b"junk")
        answer = await request
        assert bytes(answer.body.whole()) == b"ok"
        if not before_the_caller_runs:
            assert connection.usable
            receive(connection, b"junk")
        assert not connection.usable

    for before_the_caller_runs in (True, False):
        asyncio.run(unasked(before_the_caller_runs))
