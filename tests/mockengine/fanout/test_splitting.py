"""All ways of splitting give the reference's bytes, decode exactly as often as they say, and leave the batch alone."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mockengine.fanout.batches import AnyBatch, TextBatch
from mockengine.fanout.slicing import FIELDS
from mockengine.fanout.splitting import SPLITTERS, Reference, Reuse, SlicedOnce, Splitter
from mockengine.fanout.transport import TRANSPORTS, Transport, transport_named
from tests.mockengine.fanout import faulty_splitters as faulty
from tests.mockengine.fanout.samples import embedding_batch, opaque, text_batch, token_batch

BATCHES: dict[str, Callable[[int, Transport], AnyBatch]] = {
    "text": text_batch,
    "tokens": token_batch,
    "embeddings": lambda rows, _: embedding_batch(rows),
    "nothing opaque": lambda rows, transport: text_batch(rows, transport, output_strs=None),
}


def expected_frames(batch: AnyBatch, transport: Transport) -> list[bytes]:
    return [transport.encode(row) for row in Reference().rows(batch, transport)]


# What every splitter must do (each check takes the splitter and a transport's name).


def check_bytes(splitter: Splitter, transport_name: Any) -> None:
    """All rows are alive together when they are encoded, so none may be another's alias."""
    for make in BATCHES.values():
        for rows in (0, 1, 2, 7):
            transport = transport_named(transport_name)
            batch = make(rows, transport)
            frames = [transport.encode(row) for row in list(splitter.rows(batch, transport))]
            assert frames == expected_frames(batch, transport)


def check_batch_unchanged(splitter: Splitter, transport_name: Any) -> None:
    for make in BATCHES.values():
        transport = transport_named(transport_name)
        batch = make(7, transport)
        encoded, fields = transport.encode(batch), msgspec.structs.astuple(batch)
        for _ in splitter.rows(batch, transport):
            assert all(now is then for now, then in zip(msgspec.structs.astuple(batch), fields, strict=True))
            assert transport.encode(batch) == encoded


def check_embeddings_not_decoded(splitter: Splitter, transport_name: Any) -> None:
    transport = transport_named(transport_name)
    assert len(list(splitter.rows(embedding_batch(5), transport))) == 5
    assert transport.decodes == 0


def check_one_raw_field(splitter: Splitter, transport_name: Any) -> None:
    transport = transport_named(transport_name)
    for name in ("time_stats", "customized_info"):
        batch = text_batch(5, transport)
        setattr(batch, name, opaque(5)[name])
        before = dict.fromkeys([name], getattr(batch, name))
        frames = [transport.encode(row) for row in splitter.rows(batch, transport)]
        assert frames == expected_frames(batch, transport)
        assert getattr(batch, name) is before[name]


def check_first_row_before_reuse(splitter: Splitter, transport_name: Any) -> None:
    """When the first row is out, nothing was decoded that it did not need."""
    transport = transport_named(transport_name)
    calls = []
    if isinstance(splitter, Reuse):
        splitter = type(
            "Spied", (type(splitter),), {"materialise": lambda _, batch, __: calls.append(batch) or batch}
        )()
    rows = splitter.rows(text_batch(5, transport), transport)
    next(rows)
    assert not calls
    assert transport.decodes == (2 if transport_name == "msgpack" else 0)


def check_nothing_to_materialise(splitter: Splitter, transport_name: Any) -> None:
    if not isinstance(splitter, Reuse):
        return
    transport = transport_named(transport_name)
    raw = TextBatch(rids=["a", "b"], **opaque(2))
    for batch in (embedding_batch(5), text_batch(1, transport), TextBatch(rids=["a", "b"]), raw):
        assert splitter.materialise(batch, transport) is batch


CHECKS = [
    check_bytes,
    check_batch_unchanged,
    check_embeddings_not_decoded,
    check_one_raw_field,
    check_first_row_before_reuse,
    check_nothing_to_materialise,
]


@pytest.mark.parametrize("transport_name", TRANSPORTS)
@pytest.mark.parametrize("splitter", SPLITTERS.values(), ids=SPLITTERS)
@pytest.mark.parametrize("check", CHECKS)
def test_splitters_keep_every_rule(check: Any, splitter: Splitter, transport_name: str) -> None:
    check(splitter, transport_name)


@pytest.mark.parametrize(
    ("splitter", "check"),
    [
        (faulty.MutatesTheBatch(), check_batch_unchanged),
        (faulty.MaterialisesBeforeTheFirstRow(), check_first_row_before_reuse),
        (faulty.AliasesRows(), check_bytes),
        (faulty.DecodesEmbeddings(), check_embeddings_not_decoded),
        (faulty.OffByOne(), check_bytes),
        (faulty.CopiesForNothing(), check_nothing_to_materialise),
        (faulty.UnwrapsWhatIsNot(), check_one_raw_field),
    ],
)
def test_a_deliberate_mistake_is_caught(splitter: Splitter, check: Any) -> None:
    with pytest.raises((AssertionError, AttributeError, pickle.UnpicklingError)):
        check(splitter, "msgpack")


DECODES = [
    ("reference", 1, 2),
    ("reference", 2, 4),
    ("reference", 32, 64),
    ("reference", 310, 620),
    ("reuse", 1, 2),
    ("reuse", 2, 4),
    ("reuse", 32, 4),
    ("reuse", 310, 4),
    ("sliced-once", 1, 2),
    ("sliced-once", 2, 2),
    ("sliced-once", 32, 2),
    ("sliced-once", 310, 2),
]


@pytest.mark.parametrize(("arm", "rows", "decodes"), DECODES)
def test_decodes_of_a_batch(arm: str, rows: int, decodes: int) -> None:
    for name, expected in (("msgpack", decodes), ("pickle", 0)):
        transport = transport_named(name)  # type: ignore[arg-type]
        assert len(list(SPLITTERS[arm].rows(text_batch(rows, transport), transport))) == rows
        assert transport.decodes == expected


@pytest.mark.parametrize("splitter", SPLITTERS.values(), ids=SPLITTERS)
def test_rows_before_a_list_that_is_too_short_are_made(splitter: Splitter) -> None:
    transport = transport_named("msgpack")
    batch = text_batch(5, transport, token_steps=[1, 2, 3])
    rows = splitter.rows(batch, transport)
    assert [next(rows).rids for _ in range(3)] == [["r0"], ["r1"], ["r2"]]
    with pytest.raises(IndexError):
        next(rows)


def test_the_third_arm_asks_for_no_row_before_its_time() -> None:
    """Re-wrapping is the dear part of a row, so it must not be done for all rows before the first is out."""
    transport = transport_named("msgpack")
    wrapped = []
    transport.wrap = lambda value: wrapped.append(value)  # type: ignore[method-assign,func-returns-value]
    batch = text_batch(9, transport_named("msgpack"))
    next(SlicedOnce().rows(batch, transport))
    assert len(wrapped) == 2


LENGTHS = st.dictionaries(st.sampled_from([name for name, _ in FIELDS[TextBatch] if name != "rids"]), st.integers(0, 8))
KEYS = st.dictionaries(st.text(max_size=3), st.integers(0, 7), max_size=3)


@given(rows=st.integers(0, 6), lengths=LENGTHS, keys=st.none() | KEYS, transport_name=st.sampled_from(TRANSPORTS))
def test_any_mixture_of_absent_short_and_long_fields_is_split_alike(
    rows: int, lengths: dict[str, int], keys: dict[str, int] | None, transport_name: Any
) -> None:
    transport = transport_named(transport_name)
    kinds = dict(FIELDS[TextBatch])
    fields: dict[str, Any] = {"rids": [f"r{row}" for row in range(rows)]}
    for name, length in lengths.items():
        count = length if kinds[name] == "checked" else max(length, rows)
        fields[name] = [f"{name}{row}" for row in range(count)]
    if "time_stats" in fields:
        fields["time_stats"] = transport.wrap(fields["time_stats"])
    info = keys and {key: [[key, row] for row in range(length)] for key, length in keys.items()}
    fields["customized_info"] = transport.wrap(info)
    batch = TextBatch(**fields)
    expected = expected_frames(batch, transport)
    for splitter in SPLITTERS.values():
        assert [transport.encode(row) for row in splitter.rows(batch, transport)] == expected
