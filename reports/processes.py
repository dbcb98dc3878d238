"""Which process to watch, and what the system says of it, at little cost."""

from __future__ import annotations

import os
import time
from typing import NamedTuple

import psutil

# USS is summed over the page tables: tens of milliseconds for a process of 8 GB, which holds up its own page faults
# meanwhile. So it is read this rarely, and more rarely still when it is slow.
_EXPENSIVE_EVERY_S = 30.0
_EXPENSIVE_SHARE = 0.001  # of the time, at most, is spent on it


class ProcessNotFoundError(Exception):
    """There is no such process; the message is a sentence for the user."""


class ProcessSample(NamedTuple):
    """A process now. uss_bytes and fds are None whenever reading them would cost too much."""

    rss_bytes: int
    uss_bytes: int | None
    cpu_s: float
    fds: int | None
    threads: int


def find_process(where: str) -> int:
    """The process that ``pid:N`` or ``port:N`` names; of several that listen on a port, the eldest.

    Raises ProcessNotFoundError.
    """
    kind, _, number = where.partition(":")
    if kind not in ("pid", "port") or not number.isdecimal():
        raise ProcessNotFoundError(f"cannot tell which process {where!r} is: write pid:N or port:N.")
    return _existing(int(number)) if kind == "pid" else _listening_on(int(number))


def _existing(pid: int) -> int:
    if not psutil.pid_exists(pid):
        raise ProcessNotFoundError(f"there is no process with the id {pid}.")
    return pid


def _listening_on(port: int) -> int:
    listeners = [
        connection.pid
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port
    ]
    if not listeners:
        raise ProcessNotFoundError(f"no process listens on port {port}.")
    known = [pid for pid in listeners if pid is not None]
    if not known:
        raise ProcessNotFoundError(
            f"the process that listens on port {port} is another user's; write pid:N, or observe as that user."
        )
    return min(known, key=lambda pid: psutil.Process(pid).create_time())


def _files_by_size(fds_path: str) -> int:
    """The number of open files without walking them, which takes 14 ms for 18,000; 0 before Linux 6.2."""
    return os.stat(fds_path).st_size


class ProcessSampler:
    """Samples one process until it is gone. Raises ProcessNotFoundError when it is gone already."""

    def __init__(self, pid: int) -> None:
        try:
            self._process = psutil.Process(pid)
        except psutil.NoSuchProcess:
            raise ProcessNotFoundError(f"there is no process with the id {pid}.") from None
        self._fds_path = f"/proc/{pid}/fd"
        self._expensive_at = 0.0

    def sample(self) -> ProcessSample | None:
        """None when the process is gone, is a zombie, or may not be looked at."""
        try:
            return self._sample()
        except (psutil.Error, OSError):
            return None

    def _sample(self) -> ProcessSample | None:
        # is_running compares start times, so a new process under the old number is not taken for this one.
        if not self._process.is_running() or self._process.status() == psutil.STATUS_ZOMBIE:
            return None
        expensive = time.monotonic() >= self._expensive_at
        with self._process.oneshot():
            cpu = self._process.cpu_times()
            sample = ProcessSample(
                rss_bytes=self._process.memory_info().rss,
                uss_bytes=None,
                cpu_s=cpu.user + cpu.system,
                fds=self._fds(expensive),
                threads=self._process.num_threads(),
            )
        return sample._replace(uss_bytes=self._uss()) if expensive else sample

    def _fds(self, expensive: bool) -> int | None:
        return _files_by_size(self._fds_path) or (self._process.num_fds() if expensive else None)

    def _uss(self) -> int | None:
        began = time.monotonic()
        try:
            return int(self._process.memory_full_info().uss)
        except psutil.AccessDenied:
            return None
        finally:
            now = time.monotonic()
            self._expensive_at = now + max(_EXPENSIVE_EVERY_S, (now - began) / _EXPENSIVE_SHARE)
