"""How a burst of answers is taken in: a few at a time, and decoded for a little while in each turn of the event loop.

When 2,048 answers of 2.7 MB come at once, reading and decoding all that is ready keeps the loop for seconds, and their
bodies would take 5.5 GB. So an answer begins to be received when it is its turn; until then its bytes wait in the
kernel, and the engine with them.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class Turns:
    """``limit`` answers are received at a time, first come first served; one that makes no progress does not count.

    patience_s: after so long without a byte it does not, so that answers which stall do not hold up the others.
    """

    def __init__(self, limit: int, patience_s: float) -> None:
        self._limit = limit
        self._patience_s = patience_s
        self._received_at: dict[object, float] = {}
        self._waiting: OrderedDict[object, Callable[[], None]] = OrderedDict()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def ask(self, answer: object, begin: Callable[[], None], now: float) -> bool:
        """Whether it may be received at once; if not, ``begin`` is called when it may."""
        if not self._waiting and len(self._received_at) < self._limit:
            self._received_at[answer] = now
            return True
        self._waiting[answer] = begin
        return False

    def progress(self, answer: object, now: float) -> None:
        """Bytes of it have come."""
        if answer in self._received_at:
            self._received_at[answer] = now

    def done(self, answer: object, now: float) -> None:
        """It is complete and decoded, or given up."""
        self._received_at.pop(answer, None)
        self._waiting.pop(answer, None)
        self.next(now)

    def next(self, now: float) -> None:
        """Let those begin whose turn it is."""
        if not self._waiting:
            return
        since = now - self._patience_s
        moving = sum(at > since for at in self._received_at.values())
        while self._waiting and moving < self._limit:
            answer, begin = self._waiting.popitem(last=False)
            self._received_at[answer] = now
            moving += 1
            begin()


class Intake:
    """Turns by the clock, so that answers which stall are noticed also when nothing else happens."""

    def __init__(self, limit: int, patience_s: float) -> None:
        self._turns = Turns(limit, patience_s)
        self._patience_s = patience_s
        self._timer: asyncio.TimerHandle | None = None

    def ask(self, answer: object, begin: Callable[[], None]) -> bool:
        may_begin = self._turns.ask(answer, begin, time.monotonic())
        if not may_begin and self._timer is None:
            self._set_timer()
        return may_begin

    def progress(self, answer: object) -> None:
        self._turns.progress(answer, time.monotonic())

    def done(self, answer: object) -> None:
        self._turns.done(answer, time.monotonic())

    def _set_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._patience_s, self._look_for_stalls)

    def _look_for_stalls(self) -> None:
        self._timer = None
        self._turns.next(time.monotonic())
        if self._turns.waiting:
            self._set_timer()


class Pace:
    """Does work in the order in which it comes, for budget_s in each turn of the event loop, and always one piece."""

    def __init__(self, budget_s: float) -> None:
        self._budget_s = budget_s
        self._queue: deque[tuple[Callable[[], Any], asyncio.Future[Any]]] = deque()

    async def do(self, work: Callable[[], T]) -> T:
        """What ``work`` returns or raises. It is not done any more when the caller is cancelled before."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        self._queue.append((work, done))
        if len(self._queue) == 1:
            loop.call_soon(self._turn)
        try:
            return await done
        finally:
            # Else an error would hold this frame, which holds ``done``, which holds the error, and with it the answer.
            del done

    def _turn(self) -> None:
        until_s = time.monotonic() + self._budget_s
        while self._queue:
            work, done = self._queue[0]
            if not done.cancelled():
                try:
                    done.set_result(work())
                except Exception as error:
                    done.set_exception(error)
            self._queue.popleft()
            del work, done  # as above
            if time.monotonic() >= until_s:
                break
        if self._queue:
            asyncio.get_running_loop().call_soon(self._turn)
