"""Shared by all tests."""

from __future__ import annotations

import socket
from collections.abc import Callable

import pytest


@pytest.fixture
def free_port() -> Callable[[], int]:
    """Ports of 127.0.0.1 that nobody listens on, each different."""
    taken: set[int] = set()

    def one() -> int:
        while True:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port: int = probe.getsockname()[1]
            if port not in taken:
                taken.add(port)
                return port

    return one
