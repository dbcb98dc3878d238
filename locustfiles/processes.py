"""The processes that a run starts beside the load: engine, server under test, observer."""

from __future__ import annotations

import ctypes
import signal
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import gevent
import psutil
from gevent.subprocess import DEVNULL, PIPE, STDOUT, Popen, TimeoutExpired

PR_SET_PDEATHSIG = 1  # prctl(2): the signal that a process gets when its parent dies

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
_POLL_S = 0.05

_libc = ctypes.CDLL(None)


class ProcessError(Exception):
    """A process did not start; the text is a sentence for the user."""


def die_with_parent() -> None:
    """Make this process end when its parent does, even by SIGKILL. Linux only, a no-op elsewhere."""
    if sys.platform == "linux":
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def kill_fork(pid: int) -> None:
    """SIGKILL to a process that this one has forked and that runs the same program; nothing to any other.

    Locust waits for its forked workers for ever, and one that was stopped (SIGSTOP) takes no other signal.
    """
    program = psutil.Process().cmdline()
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            if child.pid == pid and child.cmdline() == program:
                child.kill()


def last_words(log: Path) -> str:
    """The last line of a process's log, or that there is none."""
    lines = log.read_text("utf-8", "replace").strip().splitlines()
    return lines[-1] if lines else f"it printed nothing (see {log})."


def check_of(module: str, args: Sequence[str]) -> Popen[bytes]:
    """``python -m module args --check``, just started."""
    return Popen([sys.executable, "-m", module, *args, "--check"], stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE)


def mistake_found(check: Popen[bytes]) -> str | None:
    """What such a check says is wrong with the options, without the program's name before it."""
    _, errors = check.communicate()
    if check.returncode == 0:
        return None
    last = errors.decode("utf-8", "replace").strip().splitlines()[-1:]
    return last[0].partition(": error: ")[2] or last[0] if last else f"exit code {check.returncode}"


class Process:
    """``python -m module args``, its output in log. ``name`` is what the user knows it by."""

    def __init__(self, name: str, module: str, args: Sequence[str], log: Path) -> None:
        self.name = name
        self._log = log
        with log.open("wb") as output:
            self._popen = Popen(
                [sys.executable, "-m", module, *args],
                stdin=DEVNULL,
                stdout=output,
                stderr=STDOUT,
                start_new_session=True,  # Ctrl-C in the terminal is for the load, which stops the others in order
                preexec_fn=die_with_parent,
            )

    @property
    def pid(self) -> int:
        return int(self._popen.pid)

    def wait_until(self, ready: Callable[[str], bool]) -> None:
        """Wait until the log's text is ``ready``. Raises ProcessError when the process ends or takes too long."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while not ready(self._log.read_text("utf-8", "replace")):
            if self.exit_code() is not None:
                raise ProcessError(f"The {self.name} did not start: {last_words(self._log)}")
            if time.monotonic() > deadline:
                raise ProcessError(f"The {self.name} was not ready within {START_TIMEOUT_S:.0f} s; see {self._log}.")
            gevent.sleep(_POLL_S)

    def exit_code(self) -> int | None:
        """None while it runs."""
        code: int | None = self._popen.poll()
        return code

    def obituary(self) -> str:
        """How it ended, in a sentence."""
        code = self.exit_code()
        how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
        return f"The {self.name} ended {how}: {last_words(self._log)}"

    def stop(self) -> None:
        """SIGTERM, and SIGKILL when that does not help."""
        for signum in (signal.SIGTERM, signal.SIGKILL):
            if self.exit_code() is not None:
                return
            self._popen.send_signal(signum)
            try:
                self._popen.wait(timeout=STOP_TIMEOUT_S)
            except TimeoutExpired:
                continue
