"""One connection to the engine, without a socket, where the test is the event loop; and several, over sockets."""

from __future__ import annotations

import asyncio
from unittest.mock import create_autospec

import pytest

from server_under_test.engine_client import EngineClient, _Connection
from server_under_test.http_answer import Body, Buffers
from server_under_test.receiving import Intake
from server_under_test.retries import Reason

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def receive(connection: _Connection, data: bytes) -> None:
    connection.get_buffer(-1)[: len(data)] = data
    connection.buffer_updated(len(data))


def test_bytes_after_the_answer_make_the_connection_unusable() -> None:
    """Else the next request on it would read them as the beginning of its own answer."""

    async def unasked(before_the_caller_runs: bool) -> None:
        connection = _Connection(Buffers(), Intake(8, 0.1))
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


def test_a_request_that_is_given_up_as_its_answer_comes_gives_the_memory_back() -> None:
    async def give_up() -> None:
        buffers = Buffers()
        connection = _Connection(buffers, Intake(8, 0.1))
        connection.connection_made(create_autospec(asyncio.Transport))
        request = asyncio.create_task(connection.request(b"request"))
        await asyncio.sleep(0)
        memory = connection.get_buffer(-1).obj
        receive(connection, ANSWER)
        request.cancel()
        with pytest.raises(asyncio.CancelledError):
            await request
        assert buffers.take_first() is memory

    asyncio.run(give_up())


def test_a_connection_whose_answer_came_before_the_request_had_gone_is_not_used_again() -> None:
    """Else the rest of the request would be read as the beginning of the next one."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
    request = b" " * 50_000_000  # more than both kernels' buffers hold

    async def answer_early() -> None:
        connections = 0
        over = asyncio.Event()

        async def engine(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal connections
            connections += 1
            await reader.readuntil(b"\r\n\r\n")
            writer.write(answer)
            await over.wait()
            writer.close()

        server = await asyncio.start_server(engine, "127.0.0.1", 0)
        client = EngineClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        for body in (request, b"{}"):
            assert await client.complete(body, lambda body: bytes(body.whole())) == b"{}"
        assert connections == 2
        client.close()
        over.set()
        server.close()

    asyncio.run(answer_early())


def test_after_a_keep_alive_race_the_request_goes_over_a_new_connection() -> None:
    """Two idle connections that both end when they are used again: the second must not be tried."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

    async def race() -> None:
        served: list[int] = []  # of each connection, how many requests came on it
        both = asyncio.Barrier(2)
        ended = asyncio.Semaphore(0)

        async def engine(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            number = len(served)
            served.append(0)
            try:
                while await reader.readuntil(b"\r\n\r\n{}"):
                    served[number] += 1
                    if served[number] > 1:
                        break
                    if number < 2:
                        await both.wait()
                    writer.write(answer)
            except asyncio.IncompleteReadError:
                pass
            writer.close()
            await writer.wait_closed()
            ended.release()

        def whole(body: Body) -> bytes:
            return bytes(body.whole())

        server = await asyncio.start_server(engine, "127.0.0.1", 0)
        client = EngineClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
        await asyncio.gather(*(client.complete(b"{}", whole) for _ in range(2)))
        assert await client.complete(b"{}", whole) == b"{}"
        assert sorted(served) == [1, 1, 2]
        assert client.retries[Reason.KEEP_ALIVE] == 1
        client.close()
        server.close()
        for _ in served:
            await ended.acquire()

    asyncio.run(race())
