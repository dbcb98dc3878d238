"""Seeded streams of token batches, as a scheduler sends them, and what must come out for each row."""

from __future__ import annotations

import random
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

from mockengine.fanout.batches import TokenBatch
from mockengine.fanout.timing import Timing
from mockengine.fanout.transport import Transport
from mockengine.fanout.vocabulary import text_of

TOKENS = (1, 2, 3)
_EPOCH_S = 1_000.0  # timestamps of streams lie at and after this, on the sender's monotonic clock


class Stream(NamedTuple):
    """batches: one for each of TOKENS, all with the same requests. rows[b][i]: what row i of batch b must be."""

    batches: list[TokenBatch]
    rows: list[list[dict[str, Any]]]


def make_stream(rows: int, *, is_rich: bool, seed: int, owners: Sequence[str], transport: Transport) -> Stream:
    """Row i belongs to owner i modulo their number. is_rich: with timing objects and two keys of customized info."""
    draw = random.Random(seed)
    rids = [rid_of(seed, row) for row in range(rows)]
    batches, expected = [], []
    for step, token in enumerate(TOKENS):
        fields = [_row(rids[row], step, token) for row in range(rows)]
        if is_rich:
            for one in fields:
                one["time_stats"] = _timing(draw)
                one["customized_info"] = {
                    "score": [draw.random()],
                    "trace": [{"etape": f"étape {step}", "span": {"id": draw.getrandbits(32), "parts": [1, 2, 3]}}],
                }
        owner_of_row = [owners[row % len(owners)] for row in range(rows)]
        batches.append(_batch(fields, step, owner_of_row, transport))
        expected.append([one | {"output_strs": text_of([token])} for one in fields])
    return Stream(batches, expected)


def rid_of(seed: int, row: int) -> str:
    """The request of a row."""
    return f"{seed:x}-{row}"


def _row(rid: str, step: int, token: int) -> dict[str, Any]:
    """The fields of one row that pass through the detokenizer."""
    return {
        "rids": rid,
        "finished_reasons": {"type": "length", "length": len(TOKENS)} if step == len(TOKENS) - 1 else None,
        "output_ids": array("q", [token]),
        "prompt_tokens": 7,
        "cached_tokens": 2,
        "completion_tokens": step + 1,
        "reasoning_tokens": 0,
        "retraction_counts": 0,
    }


def _timing(draw: random.Random) -> Timing:
    queue = _EPOCH_S + draw.random()
    return Timing(queue=queue, forward=queue + draw.random())  # not yet sent: that stays 0.0


def _batch(fields: list[dict[str, Any]], step: int, owners: list[str], transport: Transport) -> TokenBatch:
    columns: dict[str, Any] = {name: [one[name] for one in fields] for name in fields[0]}
    columns["time_stats"] = transport.wrap(columns.get("time_stats"))
    if infos := columns.get("customized_info"):
        columns["customized_info"] = transport.wrap({key: [info[key] for info in infos] for key in infos[0]})
    count = len(fields)
    return TokenBatch(
        **columns,
        http_worker_ipcs=list(owners),
        decoded_texts=[""] * count,
        decode_ids=list(columns["output_ids"]),
        read_offsets=[0] * count,
        skip_special_tokens=[True] * count,
        spaces_between_special_tokens=[True] * count,
        no_stop_trim=[False] * count,
    )
