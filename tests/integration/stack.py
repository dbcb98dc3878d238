"""Engine and server, started for a test."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager


@contextmanager
def stack(
    engine_port: int,
    server_port: int,
    profile: str,
    service_time: str,
    *server_args: str,
    server: str = "server_under_test",
) -> Iterator[str]:
    """A mock engine and the server before it, or the module that takes its place; the server's URL."""
    engine_url, server_url = f"http://127.0.0.1:{engine_port}", f"http://127.0.0.1:{server_port}"
    with ExitStack() as processes:
        for module, args in (
            ("mockengine", ["--port", str(engine_port), "--body-profile", profile, "--service-time", service_time]),
            (server, ["--port", str(server_port), "--engine", engine_url, *server_args]),
        ):
            process = processes.enter_context(
                subprocess.Popen([sys.executable, "-m", module, *args], stdout=subprocess.PIPE, text=True)
            )
            processes.callback(process.kill)
            assert process.stdout is not None
            assert " ready on " in process.stdout.readline()
        yield server_url
