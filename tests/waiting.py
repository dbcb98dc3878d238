"""Waiting for what other processes bring about."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest


def wait_for(condition: Callable[[], bool], within_s: float = 30.0) -> None:
    """Return as soon as the condition holds; fail the test if it never does."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail(f"it did not come to pass within {within_s:.0f} s")
        time.sleep(0.005)
