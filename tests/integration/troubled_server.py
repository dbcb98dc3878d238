"""The server under test with troubles of other servers, as far as the environment asks for them.

LEAKED_BYTES: lost with each result, for ever. STALL_S: for so long the event loop stands still at each result.
SCANNED_S: for so long it looks at each future that waits, whenever one has ended. LATE_SUBMIT_S: it forgets who a
submit is from, and answers every tenth so late, though it works on it at once.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from itertools import count

from aiohttp import web

from server_under_test.__main__ import main
from server_under_test.futures import Future, Identity
from server_under_test.futures_api import FuturesApi
from server_under_test.store import FutureStore

LEAKED = int(os.environ.get("LEAKED_BYTES", "0"))
STALL_S = float(os.environ.get("STALL_S", "0"))
SCANNED_S = float(os.environ.get("SCANNED_S", "0"))
LATE_SUBMIT_S = float(os.environ.get("LATE_SUBMIT_S", "0"))
lost: list[bytes] = []
complete, submit, asample = FutureStore.complete, FutureStore.submit, FuturesApi._asample
submits = count(1)


def troubled_complete(self: FutureStore, future: Future, result: bytes, now: float) -> None:
    lost.append(b"x" * LEAKED)
    time.sleep(STALL_S)
    until_s = time.thread_time() + SCANNED_S * self.outstanding
    while time.thread_time() < until_s:
        pass
    complete(self, future, result, now)


def forgetful_submit(self: FutureStore, identity: Identity | None, digest: bytes, now: float) -> tuple[Future, bool]:
    return submit(self, None, digest, now)


async def late_asample(self: FuturesApi, request: web.Request) -> web.Response:
    answer = await asample(self, request)
    if next(submits) % 10 == 0:
        await asyncio.sleep(LATE_SUBMIT_S)
    return answer


if __name__ == "__main__":
    FutureStore.complete = troubled_complete  # type: ignore[method-assign]
    if LATE_SUBMIT_S:
        FutureStore.submit = forgetful_submit  # type: ignore[method-assign]
        FuturesApi._asample = late_asample  # type: ignore[method-assign]
    sys.exit(main())
