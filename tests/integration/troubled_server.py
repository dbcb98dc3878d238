"""The server under test with troubles of other servers, as far as the environment asks for them.

LEAKED_BYTES: lost with each result, for ever. STALL_S: for so long the event loop stands still at each result.
"""

from __future__ import annotations

import os
import sys
import time

from server_under_test.__main__ import main
from server_under_test.futures import Future
from server_under_test.store import FutureStore

LEAKED = int(os.environ.get("LEAKED_BYTES", "0"))
STALL_S = float(os.environ.get("STALL_S", "0"))
lost: list[bytes] = []
complete = FutureStore.complete


def troubled(self: FutureStore, future: Future, result: bytes, now: float) -> None:
    lost.append(b"x" * LEAKED)
    time.sleep(STALL_S)
    complete(self, future, result, now)


if __name__ == "__main__":
    FutureStore.complete = troubled  # type: ignore[method-assign]
    sys.exit(main())
