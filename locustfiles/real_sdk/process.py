"""The process in which a load process has the real SDK."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import cast

import gevent
from gevent import subprocess
from gevent.event import AsyncResult
from gevent.lock import BoundedSemaphore

from locustfiles.processes import die_with_parent, last_words
from locustfiles.real_sdk.messages import READY, Answer, Ask, answer_decoder, line_of

START_TIMEOUT_S = 60.0  # its imports take seconds on a busy machine, and it opens a session


class RealSdk:
    """``python -m locustfiles.real_sdk``, what it prints in log.

    failed(sentence): called once when it can't be asked any more; what it was asked is then never answered.
    """

    def __init__(self, url: str, model: str, log: Path, failed: Callable[[str], None]) -> None:
        self._log = log
        self._failed = failed
        self._asked: dict[int, AsyncResult[Answer]] = {READY: AsyncResult()}
        self._one_writer = BoundedSemaphore()
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as errors:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", "locustfiles.real_sdk", url, model],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,  # Ctrl-C in the terminal is for the load
                preexec_fn=die_with_parent,
            )
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._asks, self._answers = self._popen.stdin, self._popen.stdout
        self._ready = self._asked[READY]
        self._reader = gevent.spawn(self._read)

    def wait_until_ready(self) -> bool:
        """Whether it can be asked now; else ``failed`` has been told."""
        if self._ready.wait(START_TIMEOUT_S) is None:
            self._failed(f"The real SDK had no session after {START_TIMEOUT_S:.0f} s; see {self._log}.")
            return False
        return True

    def sample(self, ask: Ask) -> Answer:
        """Waits for the answer, for ever when the process dies."""
        answer: AsyncResult[Answer] = AsyncResult()
        self._asked[ask.number] = answer
        try:
            with self._one_writer:
                self._asks.write(line_of(ask))
                self._asks.flush()
        except OSError:
            pass  # it is dead, as the reader will find
        return cast(Answer, answer.get())

    def stop(self) -> None:
        """Whatever it is doing."""
        self._reader.kill()
        self._popen.kill()
        self._popen.wait()
        self._asks.close()
        self._answers.close()

    def _read(self) -> None:
        for line in self._answers:
            answer = answer_decoder.decode(line)
            self._asked.pop(answer.number).set(answer)
        self._failed(f"The real SDK's process ended with exit code {self._popen.wait()}: {last_words(self._log)}")
