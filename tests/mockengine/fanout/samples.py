"""Batches to split."""

from __future__ import annotations

from array import array
from typing import Any

import numpy as np

from mockengine.fanout.batches import EmbeddingBatch, TextBatch, TokenBatch, Wrapped
from mockengine.fanout.timing import Timing
from mockengine.fanout.transport import Transport

OWNERS = ("ipc:///a", "ipc:///b", "ipc:///c")


def opaque(rows: int) -> dict[str, Any]:
    """Plain values of the opaque fields; one key lacks its last row, and rows share an object."""
    shared = ["été", {"id": 1}]
    return {
        "time_stats": [Timing(queue=1.0 + row, forward=2.0 + row) for row in range(rows)],
        "customized_info": {
            "score": [[row / 7] for row in range(rows)],
            "trace": [[{"of": row, "words": shared}] for row in range(rows - 1)],
        },
    }


def generated(rows: int, transport: Transport, **fields: Any) -> dict[str, Any]:
    return {
        "rids": [f"r{row}" for row in range(rows)],
        "http_worker_ipcs": [OWNERS[row % len(OWNERS)] for row in range(rows)],
        "finished_reasons": [None if row % 2 else {"type": "length", "length": row} for row in range(rows)],
        "output_ids": [array("q", [row, row + 1]) for row in range(rows)],
        "prompt_tokens": [row * 10 for row in range(rows)],
        "cached_tokens": list(range(rows - 1)),  # short, and checked
        "output_token_logprobs_val": [[row / 3] if row % 2 else [] for row in range(rows)],
        "cached_tokens_details": [{"device": row} for row in range(rows)],
        "placeholder_tokens_idx": [[1]] * rows,
        **{name: transport.wrap(value) for name, value in opaque(rows).items()},
        **fields,
    }


def text_batch(rows: int, transport: Transport, **fields: Any) -> TextBatch:
    return TextBatch(**generated(rows, transport), **({"output_strs": [f"text {row}" for row in range(rows)]} | fields))


def token_batch(rows: int, transport: Transport, **fields: Any) -> TokenBatch:
    experts = [None if row % 2 else np.arange(row + 3, dtype=np.int32) for row in range(rows)]
    return TokenBatch(
        **generated(rows, transport),
        **({"decoded_texts": [""] * rows, "read_offsets": list(range(rows)), "routed_experts": experts} | fields),
    )


def embedding_batch(rows: int, garbage: bytes = b"no pickle") -> EmbeddingBatch:
    return EmbeddingBatch(
        rids=[f"r{row}" for row in range(rows)],
        http_worker_ipcs=[OWNERS[row % len(OWNERS)] for row in range(rows)],
        finished_reasons=[{"type": "stop"}] * rows,
        embeddings=[
            [0.5, row / 2] if row % 3 == 0 else {row: 1.5} if row % 3 == 1 else float(row) for row in range(rows)
        ],
        prompt_tokens=list(range(rows)),
        time_stats=Wrapped(garbage),
    )
