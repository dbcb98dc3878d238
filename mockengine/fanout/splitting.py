"""Ways to split a batch into its rows, with the same bytes as outcome. They differ in what they repeat.

With F wrapped fields and n rows, ``reference`` unwraps each field for every row, F * n times; ``reuse`` unwraps once
for the first row and once for all others, F * min(n, 2); ``sliced-once`` unwraps once, F. Each unwrapping decodes all n
rows, so the saving grows with n squared.

All are lazy: a row is made when it is asked for, so that the first is sent before anything is done for the others, and
rows before one that can't be made are still delivered.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import Any, Protocol

from mockengine.fanout.batches import AnyBatch, GeneratedBatch, Wrapped
from mockengine.fanout.slicing import FIELDS, Kind, opaque_row, plain_row, slice_row
from mockengine.fanout.transport import Transport


class Splitter(Protocol):
    """A way to split. name: of the arm, as options and reports spell it."""

    name: str

    def rows(self, batch: AnyBatch, transport: Transport) -> Iterator[AnyBatch]:
        """The batch's rows in their order, each a batch of one; the batch itself stays as it is."""


class Reference:
    """Every row decodes the opaque fields of the whole batch."""

    name = "reference"

    def rows(self, batch: AnyBatch, transport: Transport) -> Iterator[AnyBatch]:
        for row in range(len(batch.rids or ())):
            yield slice_row(batch, row, transport)


class Reuse:
    """The first row decodes the opaque fields; then they are decoded again, for all other rows together."""

    name = "reuse"

    def rows(self, batch: AnyBatch, transport: Transport) -> Iterator[AnyBatch]:
        for row in range(len(batch.rids or ())):
            if row == 1:
                batch = self.materialise(batch, transport)
            yield slice_row(batch, row, transport)

    def materialise(self, batch: AnyBatch, transport: Transport) -> AnyBatch:
        """A copy whose opaque fields are unwrapped; the same object when there is nothing to unwrap or to save."""
        if not isinstance(batch, GeneratedBatch) or len(batch.rids or ()) <= 1:
            return batch
        wrapped = [name for name, kind in FIELDS[type(batch)] if kind == "opaque" and _is_wrapped(batch, name)]
        if not wrapped:
            return batch
        prepared = copy.copy(batch)
        for name in wrapped:
            setattr(prepared, name, transport.unwrap(getattr(batch, name)))
        return prepared


class SlicedOnce:
    """Each field is turned into a column of one-row values, decoded once if it must be; rows are read across."""

    name = "sliced-once"

    def rows(self, batch: AnyBatch, transport: Transport) -> Iterator[AnyBatch]:
        count = len(batch.rids or ())
        if count == 1:  # columns would only cost more; behind a router no batch has more rows
            yield slice_row(batch, 0, transport)
            return
        columns = [_column(getattr(batch, name), kind, count, transport) for name, kind in FIELDS[type(batch)]]
        for _, *values in zip(range(count), *columns, strict=False):  # absent fields and longer ones go on
            yield type(batch)(*values)


def _column(value: Any, kind: Kind, count: int, transport: Transport) -> Iterable[Any]:
    """The values of a field for each row, made when they are asked for."""
    if value is None or kind == "dropped":
        return repeat(None)
    if kind == "opaque":
        return _opaque_column(value, count, transport)
    if isinstance(value, list) and len(value) >= count:
        return map(list, zip(value, strict=True))  # [a, b] -> [a], [b]
    return (plain_row(value, row, is_checked=kind == "checked") for row in range(count))


def _opaque_column(value: Any, count: int, transport: Transport) -> Iterator[Any]:
    plain = transport.unwrap(value)
    for row in range(count):
        yield transport.wrap(opaque_row(plain, row))


def _is_wrapped(batch: AnyBatch, name: str) -> bool:
    return isinstance(getattr(batch, name), Wrapped)


SPLITTERS: dict[str, Splitter] = {splitter.name: splitter for splitter in (Reference(), Reuse(), SlicedOnce())}
