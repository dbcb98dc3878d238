"""The scheduler's process behind HTTP workers: a batch of the requests under way every so often, waiting for nobody.

Each request's answer is cut into as many pieces as it has steps, and each step sends a piece of every request, with
timing objects and two keys of customized info for metadata.
"""

from __future__ import annotations

import itertools
import time
from array import array
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mockengine.corpus import BodyProfile, Corpus
from mockengine.fanout.batches import AbortRequest, FreezeGc, Generate, Message, Shutdown, TokenBatch
from mockengine.fanout.delivery import Send
from mockengine.fanout.faults import EVERY
from mockengine.fanout.stages import Common
from mockengine.fanout.timing import Timing
from mockengine.fanout.transport import Transport
from mockengine.fanout.vocabulary import FIRST_OF_CORPUS


@dataclass(slots=True)
class _Running:
    request: Generate
    ids: npt.NDArray[np.int64]  # of all tokens, as the pipeline numbers them
    queued_s: float
    started_s: float = 0.0
    step: int = 0

    def piece(self) -> npt.NDArray[np.int64]:
        """The tokens of the step that is next, which are as many as those of any other step, but for one."""
        count, steps = self.request.tokens, self.request.steps
        return self.ids[count * self.step // steps : count * (self.step + 1) // steps]


class StepScheduler:
    """entry: where batches go. max_rows: of a batch; what is beyond that is aborted, as by a queue that is full."""

    def __init__(
        self,
        common: Common,
        entry: str,
        interval_s: float,
        max_rows: int | None,
        profile: BodyProfile,
        corpus_seed: int,
    ) -> None:
        self._entry = entry
        self._interval_s = interval_s
        self._max_rows = max_rows
        self._fault = common.fault
        self._rows = itertools.count(1)
        self._corpus = Corpus(profile, corpus_seed)
        self._running: dict[str, _Running] = {}
        self.due_s: float | None = None

    def handle(self, message: Message, transport: Transport, send: Send) -> None:
        match message:
            case Generate():
                self._take(message, send)
            case AbortRequest():
                self._running.pop(message.rid, None)  # its client has gone; rows under way find nobody
            case FreezeGc() | Shutdown():
                send(self._entry, message)
            case _:
                raise TypeError(f"cannot schedule {type(message).__name__}")

    def _take(self, request: Generate, send: Send) -> None:
        if self._max_rows is not None and len(self._running) >= self._max_rows:
            owner = None if self._fault == "abort_without_owner" else request.http_worker_ipc
            send(self._entry, AbortRequest(request.rid, owner))
            return
        tokens = np.frombuffer(self._corpus.tokens(request.seed, request.choice, request.tokens), "<i4")
        self._running[request.rid] = _Running(request, tokens + np.int64(FIRST_OF_CORPUS), time.monotonic())
        if self.due_s is None:
            self.due_s = time.monotonic() + self._interval_s

    def step(self, transport: Transport, send: Send) -> None:
        """Send what is due; the next step is due an interval after this one was, or now if that is past."""
        assert self.due_s is not None
        now = time.monotonic()
        self.due_s = max(self.due_s + self._interval_s, now)
        if not self._running:
            self.due_s = None
            return
        running = list(self._running.values())
        batch = self._batch(running, now, transport)
        for one in running:
            one.step += 1
            if one.step == one.request.steps:
                del self._running[one.request.rid]
        send(self._entry, batch)

    def _batch(self, running: list[_Running], now: float, transport: Transport) -> TokenBatch:
        count = len(running)
        pieces = [array("q", one.piece().tobytes()) for one in running]
        for one in running:
            one.started_s = one.started_s or now
        return TokenBatch(
            rids=[one.request.rid for one in running],
            http_worker_ipcs=[self._owner(one.request) for one in running],
            finished_reasons=[_finished(one) for one in running],
            output_ids=pieces,
            prompt_tokens=[0] * count,
            cached_tokens=[0] * count,
            completion_tokens=[one.request.tokens * (one.step + 1) // one.request.steps for one in running],
            reasoning_tokens=[0] * count,
            retraction_counts=[0] * count,
            time_stats=transport.wrap([Timing(queue=one.queued_s, forward=one.started_s) for one in running]),
            customized_info=transport.wrap(self._info(running, pieces)),
            decoded_texts=[""] * count,
            decode_ids=pieces,
            read_offsets=[0] * count,
            skip_special_tokens=[True] * count,
            spaces_between_special_tokens=[True] * count,
            no_stop_trim=[False] * count,
        )

    def _owner(self, request: Generate) -> str | None:
        is_lost = self._fault == "no_owner" and next(self._rows) % EVERY == 0
        return None if is_lost else request.http_worker_ipc

    def _info(self, running: list[_Running], pieces: list[array[int]]) -> dict[str, Any]:
        """As much as ``streams`` gives a row, for each token of the piece."""
        trace = [
            [{"etape": f"étape {one.step}", "span": {"id": token, "parts": [1, 2, 3]}} for token in piece]
            for one, piece in zip(running, pieces, strict=True)
        ]
        if self._fault in ("info_not_padded", "missing_as_list"):
            trace.pop()
        return {"score": [[token / 7 for token in piece] for piece in pieces], "trace": trace}


def _finished(one: _Running) -> dict[str, Any] | None:
    return {"type": "length", "length": one.request.tokens} if one.step + 1 == one.request.steps else None
