"""Splitters with one mistake each, which the checks of test_splitting must find."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Iterator

from mockengine.fanout.batches import AnyBatch
from mockengine.fanout.slicing import slice_row
from mockengine.fanout.splitting import Reuse, SlicedOnce
from mockengine.fanout.transport import Transport


class MutatesTheBatch(Reuse):
    def materialise(self, batch: AnyBatch, transport: Transport) -> AnyBatch:
        prepared = super().materialise(batch, transport)
        if prepared is not batch:
            batch.time_stats = prepared.time_stats
        return prepared


class MaterialisesBeforeTheFirstRow(Reuse):
    def rows(self, batch: AnyBatch, transport: Transport) -> Iterator[AnyBatch]:
        prepared = self.materialise(batch, transport)
        for row in range(len(batch.rids or ())):
            yield slice_row(prepared, row, transport)


class AliasesRows(SlicedOnce):
    def rows(self, batch: AnyBatch, transport: Transport) -> Iterator[AnyBatch]:
        alias = copy.copy(batch)
        for row in super().rows(batch, transport):
            for name in row.__struct_fields__:
                setattr(alias, name, getattr(row, name))
            yield alias


class DecodesEmbeddings(Reuse):
    def rows(self, batch: AnyBatch, transport: Transport) -> Iterator[AnyBatch]:
        for row, one in enumerate(super().rows(batch, transport)):
            if row == 1:
                transport.unwrap(getattr(batch, "time_stats", None))
            yield one


class OffByOne(Reuse):
    """Takes the rows after the first from a batch that has lost its first."""

    def rows(self, batch: AnyBatch, transport: Transport) -> Iterator[AnyBatch]:
        count = len(batch.rids or ())
        for row in range(count):
            yield slice_row(batch, min(row + 1, count - 1) if row else 0, transport)


class CopiesForNothing(Reuse):
    def materialise(self, batch: AnyBatch, transport: Transport) -> AnyBatch:
        return copy.copy(super().materialise(batch, transport))


class UnwrapsWhatIsNot(Reuse):
    """As unwrapping was before it let plain values pass."""

    def materialise(self, batch: AnyBatch, transport: Transport) -> AnyBatch:
        prepared = copy.copy(batch)
        for name in ("time_stats", "customized_info"):
            setattr(prepared, name, pickle.loads(getattr(batch, name).pickled))
        return prepared
