"""The real SDK as a client of the target: some of the futures, in the same ledger, verified in the same way."""

from __future__ import annotations

from typing import Any

from locustfiles.client import Client
from locustfiles.ledger import End
from locustfiles.real_sdk.messages import Ask
from locustfiles.real_sdk.process import RealSdk
from locustfiles.worker import WorkerRun


class RealSdkClient(Client):
    """Its ids, polls and retries are the SDK's own affair: of a future only its end is known here."""

    latency = "future_sdk"

    def __init__(self, environment: Any, run: WorkerRun, sdk: RealSdk) -> None:
        super().__init__(environment, run)
        self._sdk = sdk

    def open(self) -> bool:
        return self._sdk.wait_until_ready()

    def sample(self, number: int, began_s: float) -> End:
        seed, lengths = self._run.job(number)
        answer = self._sdk.sample(Ask(number, seed, lengths.prompt_tokens, lengths.max_tokens))
        if answer.result is None:
            self._run.measures.error(f"real SDK: {answer.error_class}", answer.detail)
            return End.FAILED
        return self._deliver(number, seed, lengths.max_tokens, answer.result)
