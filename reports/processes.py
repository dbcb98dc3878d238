"""Which process to watch, and what the system says of it, at little cost."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

# USS is summed over the page tables: tens of milliseconds for a process of 8 GB, which holds up its own page faults
# meanwhile. So it is read this rarely, and more rarely still when it is slow.
_EXPENSIVE_EVERY_S = 30.0
_EXPENSIVE_SHARE = 0.001  # of the time, at most, is spent on it
_CHILDREN_EVERY_S = 10.0
_CGROUPS = Path("/sys/fs/cgroup")


class ProcessNotFoundError(Exception):
    """There is no such process; the message is a sentence for the user."""


class ProcessSample(NamedTuple):
    """A process now. uss_bytes and fds are None whenever reading them would cost too much."""

    rss_bytes: int
    uss_bytes: int | None
    cpu_s: float
    fds: int | None
    threads: int
    cgroup_bytes: int | None = None  # of the whole control group, page cache included; None where it has none


def find_process(where: str) -> int:
    """The process that ``pid:N``, ``port:N`` or ``cmdline:TEXT`` names; of several, the eldest.

    TEXT is a part of its command line.

    Raises ProcessNotFoundError.
    """
    kind, _, number = where.partition(":")
    if kind == "cmdline" and number:
        return _with_cmdline(number)
    if kind not in ("pid", "port") or not number.isdecimal():
        raise ProcessNotFoundError(f"cannot tell which process {where!r} is: write pid:N or port:N.")
    return _existing(int(number)) if kind == "pid" else _listening_on(int(number))


def _existing(pid: int) -> int:
    if not psutil.pid_exists(pid):
        raise ProcessNotFoundError(f"there is no process with the id {pid}.")
    return pid


def _with_cmdline(text: str) -> int:
    """The eldest process with this text in its command line, which an observer's own has too."""
    found = [
        process
        for process in psutil.process_iter(["cmdline", "create_time"])
        if text in (line := " ".join(process.info["cmdline"] or [])) and "reports observe" not in line
    ]
    if not found:
        raise ProcessNotFoundError(f"no process has {text!r} in its command line.")
    return int(min(found, key=lambda process: process.info["create_time"]).pid)


def cgroup_memory_file(membership: str, root: Path = _CGROUPS) -> Path | None:
    """Where the kernel tells the memory of a control group; None outside one.

    ``membership``: the text of /proc/PID/cgroup. ``root``: where control groups are mounted. One of version 1 goes
    before one of version 2, since memory is counted in either and not in both (cgroups(7)). A container may be shown
    its group's path on the host and have only the group itself mounted, as ``root``.
    """
    paths = {controllers: path for _, controllers, path in (line.split(":", 2) for line in membership.splitlines())}
    if paths.get("memory", "/") != "/":  # the files of version 1 are in its root, too, and are the machine's
        return _file_in(root / "memory", paths["memory"], "memory.usage_in_bytes")
    return _file_in(root, paths[""], "memory.current") if "" in paths else None


def _own_cgroup_memory_file(pid: int) -> Path | None:
    with suppress(OSError):
        return cgroup_memory_file(Path(f"/proc/{pid}/cgroup").read_text())
    return None


def _file_in(mount: Path, path: str, name: str) -> Path | None:
    files = (mount / path.lstrip("/") / name, mount / name)
    return next((file for file in files if file.is_file()), None)


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
    """Samples a process and its descendants, as one, until it is gone.

    Raises ProcessNotFoundError when it is gone already.
    """

    def __init__(self, pid: int) -> None:
        self._root = _Sampled(pid)
        self._descendants: dict[int, _Sampled] = {}
        self._children_at = 0.0

    def sample(self) -> ProcessSample | None:
        """None when it is gone, is a zombie, or may not be looked at. Memory that they share counts for each."""
        own = self._root.sample()
        if own is None:
            return None
        self._look_for_children()
        others = [sample for child in self._descendants.values() if (sample := child.sample()) is not None]
        return own if not others else _added([own, *others])

    def _look_for_children(self) -> None:
        """Now and then: it means to look at every process of the machine."""
        if time.monotonic() < self._children_at:
            return
        self._children_at = time.monotonic() + _CHILDREN_EVERY_S
        pids = self._root.descendants()
        self._descendants = {pid: self._descendants.get(pid) or _Sampled(pid) for pid in pids if psutil.pid_exists(pid)}


class _Sampled:
    """One process."""

    def __init__(self, pid: int) -> None:
        try:
            self._process = psutil.Process(pid)
        except psutil.NoSuchProcess:
            raise ProcessNotFoundError(f"there is no process with the id {pid}.") from None
        self._fds_path = f"/proc/{pid}/fd"
        self._cgroup_memory = _own_cgroup_memory_file(pid)
        self._expensive_at = 0.0

    def descendants(self) -> list[int]:
        with suppress(psutil.Error):
            return [child.pid for child in self._process.children(recursive=True)]
        return []

    def sample(self) -> ProcessSample | None:
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
                cgroup_bytes=self._cgroup_bytes(),
            )
        return sample._replace(uss_bytes=self._uss()) if expensive else sample

    def _cgroup_bytes(self) -> int | None:
        if self._cgroup_memory is not None:
            with suppress(OSError):  # the process was moved, and its former group removed
                return int(self._cgroup_memory.read_text())
        return None

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


def _added(samples: Sequence[ProcessSample]) -> ProcessSample:
    """The sum of a process and its descendants, None where it was not read of all; the control group is the first's."""
    return ProcessSample(
        rss_bytes=sum(sample.rss_bytes for sample in samples),
        uss_bytes=_sum_of_all([sample.uss_bytes for sample in samples]),
        cpu_s=sum(sample.cpu_s for sample in samples),
        fds=_sum_of_all([sample.fds for sample in samples]),
        threads=sum(sample.threads for sample in samples),
        cgroup_bytes=samples[0].cgroup_bytes,
    )


def _sum_of_all(values: Sequence[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None
