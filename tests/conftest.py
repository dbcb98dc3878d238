"""Shared by all tests."""

from __future__ import annotations

import itertools
import os
import signal
import socket
from collections.abc import Callable

import pytest

# Below those that the kernel gives to connections (net.ipv4.ip_local_port_range), which would take some of them again.
FIRST_PORT = 18_000
PORTS_EACH = 2_000  # for each process that runs tests


def _next_ports() -> itertools.cycle[int]:
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    first = FIRST_PORT + process * PORTS_EACH
    return itertools.cycle(range(first, first + PORTS_EACH))


_ports = _next_ports()


@pytest.fixture
def free_port() -> Callable[[], int]:
    """Ports of 127.0.0.1 that nobody listens on, each different."""

    def one() -> int:
        for port in _ports:
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
                return port
        raise AssertionError("a cycle has no end")

    return one


def pytest_configure() -> None:
    """What a shell starts in the background ignores SIGINT, and so would all processes that tests interrupt."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
