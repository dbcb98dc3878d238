"""The server under test, made to lose memory: ``LEAKED_BYTES`` of the environment with each result, for ever."""

from __future__ import annotations

import os
import sys

from server_under_test.__main__ import main
from server_under_test.futures import Future
from server_under_test.store import FutureStore

LEAKED = int(os.environ.get("LEAKED_BYTES", "0"))
lost: list[bytes] = []
complete = FutureStore.complete


def complete_and_lose(self: FutureStore, future: Future, result: bytes, now: float) -> None:
    lost.append(b"x" * LEAKED)
    complete(self, future, result, now)


if __name__ == "__main__":
    FutureStore.complete = complete_and_lose  # type: ignore[method-assign]
    sys.exit(main())
