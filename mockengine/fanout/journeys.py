"""The way of rows through an engine's processes, from the times that each has noted: delays, gaps, backlogs. Pure.

Six points: the scheduler sends a row; a router, if there is one, receives and sends it; a detokenizer does; an HTTP
worker has it ready. All processes of a machine share the monotonic clock, so differences between them are times.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from mockengine.fanout.serving import StageTimes
from mockengine.fanout.stages import Account

Times = NDArray[np.float64]


class Wave(msgspec.Struct, frozen=True):
    """Requests sent together. started_s: when; took_s: until each one's answer was there."""

    started_s: float
    took_s: list[float]


class EndToEndTrial(msgspec.Struct, frozen=True, kw_only=True):
    """Times are in ms, and without the first wave, which warms up.

    e2e: of a request, at its client. first_row and last_row: from the start of a wave until the first token of its
    earliest and its latest request is ready; medians over waves. itl: between the rows of a request, when they are
    ready; itl_excess: how much longer on average than between the scheduler's sending of them. stage: medians of the
    time that rows spend between two points and within processes. busy: the CPU time of the process that splits whole
    batches as a share of the time between them. steps: of decoding, each a batch of the scheduler, in all waves.
    decodes: how often each process decoded an opaque field of a batch, in all waves. cpu: of each process, as a share
    of the time from the first batch to the last row. backlog: the most messages that waited for a process at any time.
    """

    e2e_ms: float
    e2e_p99_ms: float
    first_row_ms: float
    last_row_ms: float
    itl_p50_ms: float
    itl_p95_ms: float
    itl_p99_ms: float
    itl_excess_ms: float
    rows_per_s: float
    rows_of_a_batch: float
    busy: float
    steps: int
    decodes: dict[str, int]
    stage_ms: dict[str, float]
    cpu: dict[str, float]
    backlog: dict[str, int]


class _Passage:
    """When each row of each request was received and sent by a stage, or by several of a kind: rid -> [row, 2]."""

    def __init__(self, accounts: Sequence[Account]) -> None:
        times: dict[str, list[tuple[float, float]]] = {}
        for account in accounts:
            for passed in account.passed:
                for rid in passed.rids:
                    times.setdefault(rid, []).append((passed.received_s, passed.sent_s))
        self.of = {rid: np.array(rows) for rid, rows in times.items()}


def trial(times: StageTimes, waves: Sequence[Wave], interval_s: float) -> EndToEndTrial:
    """waves: in their order, two or more. interval_s: between the scheduler's batches."""
    scheduler = times.stages[0]
    sent = _Passage([scheduler]).of
    starts_s = [wave.started_s for wave in waves]
    wave_of = {rid: int(np.searchsorted(starts_s, rows[0, 1])) - 1 for rid, rows in sent.items()}
    ready = {rid: np.array(at) for worker in times.http_workers for rid, at in worker.ready_s.items()}
    counted = [rid for rid in ready if wave_of[rid] > 0]
    firsts_ms = [
        [1e3 * (ready[rid][0] - wave.started_s) for rid in counted if wave_of[rid] == number]
        for number, wave in enumerate(waves)
        if number > 0
    ]
    itl_ms = 1e3 * np.concatenate([np.diff(ready[rid]) for rid in counted])
    sent_itl_ms = 1e3 * np.concatenate([np.diff(sent[rid][:, 1]) for rid in counted])
    e2e_ms = 1e3 * np.concatenate([wave.took_s for wave in waves[1:]])
    ends_s = max(float(at[-1]) for at in ready.values())
    window_s = ends_s - scheduler.passed[0].sent_s
    rows = sum(len(at) for at in ready.values())
    splitting = times.stages[1]
    p50, p95, p99 = (float(value) for value in np.percentile(itl_ms, [50, 95, 99]))
    return EndToEndTrial(
        e2e_ms=float(np.mean(e2e_ms)),
        e2e_p99_ms=float(np.percentile(e2e_ms, 99)),
        first_row_ms=float(np.median([min(of_wave) for of_wave in firsts_ms])),
        last_row_ms=float(np.median([max(of_wave) for of_wave in firsts_ms])),
        itl_p50_ms=p50,
        itl_p95_ms=p95,
        itl_p99_ms=p99,
        itl_excess_ms=float(np.mean(itl_ms) - np.mean(sent_itl_ms)),
        rows_per_s=rows / window_s,
        rows_of_a_batch=rows / len(scheduler.passed),
        busy=splitting.cpu_s / (len(scheduler.passed) * interval_s),
        steps=len(scheduler.passed),
        decodes={one.name: one.decodes for one in times.stages[1:]},
        stage_ms=_stages_ms(times.stages, counted, sent, ready),
        cpu={one.name: one.cpu_s / window_s for one in times.stages},
        backlog=backlogs(
            [passed.sent_s for passed in scheduler.passed],
            times.stages[1:],
            [float(at) for of_request in ready.values() for at in of_request],
        ),
    )


def _stages_ms(
    stages: Sequence[Account], rids: Sequence[str], sent: dict[str, Times], ready: dict[str, Times]
) -> dict[str, float]:
    """Medians over rows of the time within each process, and on the way to the next."""
    kinds = ["router", "detokenizer"] if stages[1].name == "router" else ["detokenizer"]
    found: dict[str, float] = {}
    before = {rid: sent[rid][:, 1] for rid in rids}
    for kind in kinds:
        passage = _Passage([one for one in stages if one.name.startswith(kind)]).of
        found[f"to {kind}"] = _median_ms([passage[rid][:, 0] - before[rid] for rid in rids])
        found[f"in {kind}"] = _median_ms([passage[rid][:, 1] - passage[rid][:, 0] for rid in rids])
        before = {rid: passage[rid][:, 1] for rid in rids}
    return found | {"to HTTP worker": _median_ms([ready[rid] - before[rid] for rid in rids])}


def _median_ms(differences_s: Sequence[Times]) -> float:
    return float(1e3 * np.median(np.concatenate(differences_s)))


def backlogs(scheduled_s: Sequence[float], stages: Sequence[Account], ready_s: Sequence[float]) -> dict[str, int]:
    """The most that waited for each kind of process: of messages, and for HTTP workers of rows.

    scheduled_s: when batches were sent. stages: the processes that they pass. ready_s: when rows were ready.
    """
    kinds: dict[str, list[Account]] = {}
    for stage in stages:
        kinds.setdefault(stage.name.split()[0], []).append(stage)
    found = {}
    sent_s, rows_s = list(scheduled_s), list(scheduled_s)
    for kind, accounts in kinds.items():
        # several rows are made of one message, and carry the time at which that was received
        received_s = [at for one in accounts for at in {passed.received_s for passed in one.passed}]
        found[kind] = backlog(sent_s, received_s)
        sent_s = [passed.sent_s for one in accounts for passed in one.passed]
        rows_s = [passed.sent_s for one in accounts for passed in one.passed for _ in passed.rids]
    return found | {"HTTP worker": backlog(rows_s, ready_s)}


def backlog(sent_s: Sequence[float], received_s: Sequence[float]) -> int:
    """The most messages that had been sent and not yet received at any time; all are received in the end."""
    moments = np.concatenate([sent_s, received_s])
    steps = np.concatenate([np.ones(len(sent_s)), -np.ones(len(received_s))])
    in_order = np.lexsort((steps, moments))  # of the same moment, what is received goes first
    return int(np.cumsum(steps[in_order]).max(initial=0))
