"""Every connection that waits is accepted within a few turns of the loop, under uvloop too."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import cast

import pytest
import uvloop

from server_under_test import accepting
from server_under_test.accepting import ACCEPTED_IN_A_TURN, Listener


class Greeter(asyncio.Protocol):
    """Says hello to whoever connects."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.WriteTransport, transport)  # uvloop's is none by its class
        transport.write(b"hello")
        transport.close()


def listening_socket() -> socket.socket:
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    listening.setblocking(False)
    return listening


def test_connections_made_at_once_are_accepted_in_few_turns() -> None:
    connections = 2 * ACCEPTED_IN_A_TURN + 1
    turns = 0

    async def accept_all(listening: socket.socket) -> int:
        loop = asyncio.get_running_loop()
        accepted: asyncio.Future[int] = loop.create_future()
        transports = []

        class Counter(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                transports.append(transport)
                if len(transports) == connections:
                    accepted.set_result(turns)

        def turn() -> None:
            nonlocal turns
            turns += 1
            if not accepted.done():
                loop.call_soon(turn)

        turn()
        listener = Listener([listening], Counter)
        try:
            return await asyncio.wait_for(accepted, 30)
        finally:
            listener.close()
            for transport in transports:
                transport.close()

    with ExitStack() as stack:
        listening = stack.enter_context(listening_socket())
        for _ in range(connections):
            stack.enter_context(socket.create_connection(listening.getsockname(), timeout=30))
        assert uvloop.run(accept_all(listening)) < 30


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_without_files_left_it_pauses_and_goes_on(
    run: Callable[..., bytes], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(accepting, "PAUSE_S", 0.01)

    class Exhausted(socket.socket):
        """Can't accept the first time."""

        tried = False

        def accept(self) -> tuple[socket.socket, object]:
            if not self.tried:
                self.tried = True
                raise OSError(errno.EMFILE, "Too many open files")
            return super().accept()

    async def greet() -> bytes:
        listening = Exhausted(fileno=listening_socket().detach())
        address = listening.getsockname()
        listener = Listener([listening], Greeter)
        reader, writer = await asyncio.open_connection(*address)
        try:
            return await asyncio.wait_for(reader.read(), 30)
        finally:
            writer.close()
            listener.close()

    assert run(greet()) == b"hello"
    assert "Too many open files" in caplog.text


def test_an_address_in_use_is_an_error_and_leaves_nothing_open() -> None:
    async def open_twice() -> None:
        with closing(await Listener.open(Greeter, "127.0.0.1", port, 10)), pytest.raises(OSError, match="in use"):
            await Listener.open(Greeter, "127.0.0.1", port, 10)
        (await Listener.open(Greeter, "127.0.0.1", port, 10)).close()

    with listening_socket() as probe:
        port = probe.getsockname()[1]
    asyncio.run(open_twice())
