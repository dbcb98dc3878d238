"""Several worker processes that share one port, as the kernel divides connections (SO_REUSEPORT), and their parent."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Protocol

import msgspec

from mockengine.fanout.inbox import Place, Seen
from mockengine.metrics import Samples, summary
from mockengine.samples import add_up, parse_samples
from mockengine.sharing import Worker

_PATIENCE_S = 10.0
_ENDING = (signal.SIGTERM, signal.SIGINT)


class Behind(Protocol):
    """Processes behind the workers that all answers pass. place: what a worker has to know of them.

    One that fails sends SIGQUIT, or just ends.
    """

    place: Place

    def dead(self) -> str | None:
        """The name of a process that has ended by itself."""

    def end(self, seen: list[Seen]) -> None:
        """End all, and say what they did. seen: by the workers."""


# Given the addresses of the workers, to which rows are sent.
BehindMaker = Callable[[list[str]], AbstractContextManager[Behind]]


def run_workers(host: str, port: int, count: int, behind: BehindMaker | None = None) -> int:
    """Serve with ``count`` copies of this process until SIGTERM or SIGINT.

    Returns the exit code. Raises OSError when the port can't be had.
    """
    with _reserved(host, port) as reserved, tempfile.TemporaryDirectory(prefix="mockengine-") as directory:
        port = reserved.getsockname()[1]
        workers = [Worker(index, count, directory, port) for index in range(count)]
        with nullcontext() if behind is None else behind([worker.rows_address for worker in workers]) as pipeline:
            if pipeline is not None:
                workers = [replace(worker, place=pipeline.place) for worker in workers]
            children = [_start(worker) for worker in workers]
            try:
                if not all(child.stdout is not None and child.stdout.readline() for child in children):
                    return _failure(children, None)
                print(f"mockengine ready on http://{host}:{port}", flush=True)
                return _watch(workers, children, pipeline)
            finally:
                for child in children:
                    _stop(child)


def _reserved(host: str, port: int) -> socket.socket:
    """The port, held but not listened on. A first attempt without sharing finds out whether it is another's."""
    family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
    with socket.socket(family) as alone:
        alone.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        alone.bind((host, port))
        port = alone.getsockname()[1]
    shared = socket.socket(family)
    shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    shared.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    shared.bind((host, port))
    return shared


def _start(worker: Worker) -> subprocess.Popen[str]:
    """In a session of its own, so that Ctrl-C reaches the parent alone, which then asks for the counts first."""
    return subprocess.Popen(
        [sys.executable, *sys.orig_argv[1:]],
        env=worker.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def _watch(workers: list[Worker], children: list[subprocess.Popen[str]], pipeline: Behind | None) -> int:
    """Until a signal to end, or until a process has ended by itself."""
    awaited = {*_ENDING, signal.SIGCHLD, signal.SIGQUIT}
    signal.pthread_sigmask(signal.SIG_BLOCK, awaited)
    while all(child.poll() is None for child in children) and (pipeline is None or pipeline.dead() is None):
        signum = signal.sigwait(awaited)
        if signum == signal.SIGQUIT and pipeline is not None:
            break
        if signum in _ENDING:
            print(f"mockengine: {summary(_samples(workers))}", file=sys.stderr)
            if pipeline is not None:
                pipeline.end([msgspec.json.decode(_ask(worker, "/fanout"), type=Seen) for worker in workers])
            return 0
    return _failure(children, pipeline)


def _failure(children: list[subprocess.Popen[str]], pipeline: Behind | None) -> int:
    codes = [child.poll() for child in children]
    if 2 in codes:  # a mistake in the options, of which the worker has spoken
        return 2
    ended = next((code for code in codes if code is not None), None)
    sentence = f"A worker process ended with exit code {ended}"
    if ended is None and pipeline is not None:
        dead = pipeline.dead()
        sentence = f"The {dead} ended by itself" if dead else "A process of the pipeline failed, and has said why"
    print(f"mockengine: error: {sentence}; all are stopped.", file=sys.stderr)
    return 1


def _samples(workers: list[Worker]) -> Samples:
    return parse_samples(add_up(_ask(worker, "/metrics") for worker in workers).decode())


def _ask(worker: Worker, path: str) -> str:
    connection = http.client.HTTPConnection("worker", timeout=_PATIENCE_S)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(worker.socket)
    connection.request("GET", path)
    return connection.getresponse().read().decode()


def _stop(child: subprocess.Popen[str]) -> None:
    """The end of its standard input ends it."""
    if child.stdin is not None:
        child.stdin.close()
    try:
        child.wait(_PATIENCE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    if child.stdout is not None:
        child.stdout.close()
