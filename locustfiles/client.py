"""One client of the target, whatever it speaks: what a Locust user follows its futures with."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any

from locustfiles.ledger import End
from locustfiles.worker import WorkerRun


class PollingError(Exception):
    """What Locust's failure table shows; the text is low-cardinality."""


class Client(ABC):
    """environment: Locust's, whose table has a row for each kind of request.

    latency: under which name the latency of its futures is recorded.
    """

    latency = "future"

    def __init__(self, environment: Any, run: WorkerRun) -> None:
        self._environment = environment
        self._run = run

    def open(self) -> bool:
        """Get ready for futures; False when the target won't, which the run has been told."""
        return True

    @abstractmethod
    def sample(self, number: int, began_s: float) -> End:
        """One future from its submit to its end. began_s: when the submit was to begin, of CLOCK_MONOTONIC."""

    def _deliver(self, number: int, seed: int, max_tokens: int, result: bytes) -> End:
        """Count a result as that of future ``number``, the answer to (seed, max_tokens), if it is."""
        run = self._run
        run.received(number, len(result))
        flaw = run.verifier.flaw(seed, max_tokens, result)
        if flaw is None:
            run.ledger.verified()
            return End.DELIVERED
        if flaw.kind == "foreign":
            run.ledger.foreign()
        run.measures.poll_error(f"result: {flaw.kind}", f"asked with seed {seed}: {flaw.text}")
        return End.FAILED

    def _fire(self, name: str, sent_s: float, length: int, failure: str | None, method: str = "POST") -> None:
        self._environment.events.request.fire(
            request_type=method,
            name=name,
            response_time=(time.monotonic() - sent_s) * 1000,
            response_length=length,
            exception=None if failure is None else PollingError(failure),
            context={},
        )
