"""What a row takes from each kind of field."""

from __future__ import annotations

from typing import Any

import pytest

from mockengine.fanout.batches import EmbeddingBatch, TextBatch
from mockengine.fanout.slicing import slice_row
from mockengine.fanout.transport import TRANSPORTS, TransportName, transport_named

CASES: list[tuple[str, Any, int, Any]] = [
    # field, value in the batch, row, value in the row
    ("output_strs", ["a", "b"], 1, ["b"]),
    ("output_strs", None, 1, None),
    ("output_strs", ["a"], 1, None),  # short and checked
    ("finished_reasons", [None, {"type": "stop"}], 0, [None]),
    ("http_worker_ipcs", ["x", "y"], 0, None),
    ("placeholder_tokens_idx", [[1], [2]], 0, None),
    ("output_token_logprobs_val", [[], [0.5]], 0, [[]]),
    ("customized_info", {"a": [[1], [2]], "b": [[3]]}, 1, {"a": [[2]], "b": [None]}),
    ("customized_info", {"a": [[1], [2]], "b": []}, 0, {"a": [[1]], "b": [None]}),
    ("customized_info", {}, 0, None),
    ("customized_info", [[1], [2]], 1, [[2]]),
    ("time_stats", ["t0", "t1"], 1, ["t1"]),
    ("dp_ranks", {"a": [1], "b": [1, 2]}, 1, {"a": None, "b": [2]}),
]


@pytest.mark.parametrize("transport_name", TRANSPORTS)
@pytest.mark.parametrize(("field", "value", "row", "expected"), CASES)
def test_field_of_a_row(field: str, value: Any, row: int, expected: Any, transport_name: TransportName) -> None:
    transport = transport_named(transport_name)
    is_opaque = field in ("time_stats", "customized_info")
    batch = TextBatch(rids=["r0", "r1"], **{field: transport.wrap(value) if is_opaque else value})
    found = slice_row(batch, row, transport)
    assert isinstance(found, TextBatch)
    assert found.rids == [f"r{row}"]
    assert transport.unwrap(getattr(found, field)) == expected


@pytest.mark.parametrize(
    ("field", "value"),
    [("output_token_logprobs_val", [[]]), ("token_steps", [1]), ("dp_ranks", []), ("customized_info", [[1]])],
)
def test_a_short_list_that_is_read_unchecked_raises(field: str, value: Any) -> None:
    with pytest.raises(IndexError):
        slice_row(TextBatch(rids=["r0", "r1"], **{field: value}), 1, transport_named("pickle"))


def test_embeddings_take_five_fields() -> None:
    batch = EmbeddingBatch(
        rids=["r0", "r1"],
        embeddings=[[0.5], {3: 1.5}],
        prompt_tokens=[1, 2],
        cached_tokens=[0, 0],
        retraction_counts=[1, 1],
    )
    expected = EmbeddingBatch(rids=["r1"], embeddings=[{3: 1.5}], prompt_tokens=[2], cached_tokens=[0])
    assert slice_row(batch, 1, transport_named("msgpack")) == expected
