"""One row of a batch as a batch of its own: which fields go with it, and what becomes of those that are short."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from mockengine.fanout.batches import AnyBatch, EmbeddingBatch, TextBatch, TokenBatch
from mockengine.fanout.transport import Transport

Kind = Literal["checked", "unchecked", "opaque", "dropped"]

_OPAQUE = {"time_stats", "customized_info"}
# The owner is set by whoever sends the row on; placeholders never leave the scheduler's side.
_DROPPED = {"http_worker_ipcs", "placeholder_tokens_idx", "placeholder_tokens_val"}
# The server that this follows reads these without looking at their length.
_UNCHECKED = {
    *(
        f"{side}_{of}_{part}"
        for side in ("input", "output")
        for of in ("token_logprobs", "top_logprobs", "token_ids_logprobs")
        for part in ("val", "idx")
    ),
    "output_token_entropy_val",
    "output_hidden_states",
    "routed_experts",
    "indexer_topk",
    "token_steps",
    "dp_ranks",
}
# The server's slicer of embeddings copies these alone, so it never decodes their metadata.
_OF_EMBEDDINGS = {"rids", "finished_reasons", "embeddings", "prompt_tokens", "cached_tokens"}


def _kind(batch_type: type, field: str) -> Kind:
    if field in _DROPPED or (batch_type is EmbeddingBatch and field not in _OF_EMBEDDINGS):
        return "dropped"
    return "opaque" if field in _OPAQUE else "unchecked" if field in _UNCHECKED else "checked"


# Batch type -> (field, kind), in the order of the fields.
FIELDS: dict[type, list[tuple[str, Kind]]] = {
    batch_type: [(field.name, _kind(batch_type, field.name)) for field in msgspec.structs.fields(batch_type)]
    for batch_type in (TokenBatch, TextBatch, EmbeddingBatch)
}


def slice_row(batch: AnyBatch, row: int, transport: Transport) -> AnyBatch:
    """A new batch of one row, of the same type.

    Raises IndexError for a short list among the fields that the server reads without a check.
    """
    fields = FIELDS[type(batch)]
    return type(batch)(*[_field_of_row(getattr(batch, name), kind, row, transport) for name, kind in fields])


def _field_of_row(value: Any, kind: Kind, row: int, transport: Transport) -> Any:
    if value is None or kind == "dropped":
        return None
    if kind == "opaque":
        return transport.wrap(opaque_row(transport.unwrap(value), row))
    return plain_row(value, row, is_checked=kind == "checked")


def opaque_row(value: Any, row: int) -> Any:
    """One row of an unwrapped field: every key of a dict with the row's value, or ``[None]`` where it has none."""
    if isinstance(value, dict):
        return {key: [rows[row]] if row < len(rows) else [None] for key, rows in value.items()} or None
    return [value[row]]


def plain_row(value: Any, row: int, *, is_checked: bool) -> Any:
    """One row of a list (None when it is short and checked), or of each list of a dict."""
    if isinstance(value, dict):
        return {key: [rows[row]] if row < len(rows) else None for key, rows in value.items()} or None
    return None if is_checked and row >= len(value) else [value[row]]
