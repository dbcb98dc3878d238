"""A process whose clock runs faster, so that a client's minutes pass in seconds and its own code is left as it is.

What is changed is the clock that Python code reads and how long an event loop's timers take. Draws of chance, which
clients spread their pauses with, give the middle of their range.
"""

from __future__ import annotations

import random
import selectors
import time
from typing import Any


def speed_up(speed: float) -> None:
    """Before anything else is imported: from now on, this process's clocks run ``speed`` times as fast."""
    for name in ("monotonic", "time"):
        real = getattr(time, name)
        setattr(time, name, _faster(real, real(), speed))
    random.random = lambda: 0.5
    random.uniform = lambda low, high: (low + high) / 2


def _faster(real: Any, began_s: float, speed: float) -> Any:
    return lambda: began_s + (real() - began_s) * speed


def speed_up_asyncio(speed: float) -> None:
    """Timers of asyncio, which waits for the next one in its selector."""
    real = selectors.DefaultSelector.select

    def select(self: selectors.BaseSelector, timeout: float | None = None) -> Any:
        return real(self, timeout / speed if timeout is not None else None)

    selectors.DefaultSelector.select = select  # type: ignore[method-assign]


def speed_up_gevent(speed: float) -> None:
    """Timers of gevent, before its hub is made."""
    import gevent
    from gevent.libev import corecext

    class FasterLoop(corecext.loop):  # type: ignore[misc]
        def timer(self, after: float, repeat: float = 0.0, ref: bool = True, priority: Any = None) -> Any:
            return super().timer(after / speed, repeat / speed, ref, priority)

    gevent.config.loop = FasterLoop
