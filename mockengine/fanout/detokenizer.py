"""Token ids to text, step by step: each row's text is what it adds to what was sent before. Pure, but for its state.

A character may span tokens, so text is held back while it ends in the replacement character. To find what a step adds,
the tokens of the last commit are decoded with and without the new ones (``surrounding`` to ``read``), because the text
of a token may depend on those before it.
"""

from __future__ import annotations

import base64
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from mockengine.fanout.batches import FinishedReason, GeneratedBatch, Tensor, TextBatch, TokenBatch
from mockengine.fanout.vocabulary import REPLACEMENT, text_of

# The server's own limit of requests that have a state here.
MAX_STATES = 65_536
_PASSED_ON = [name for name in GeneratedBatch.__struct_fields__ if name in TextBatch.__struct_fields__]


class StateError(Exception):
    """A request whose state is gone; the text is a sentence."""


@dataclass(slots=True)
class _State:
    text: str  # committed
    ids: list[int]
    read_offset: int  # up to here ids have become text
    surrounding_offset: int = 0
    sent_offset: int = 0  # characters of the text that were sent


class Detokenizer:
    """Keeps the state of up to ``max_states`` unfinished requests; past that the one that came first is dropped.

    commits: False for the mistake of states that never advance. decoded: how many tokens have become text so far,
    those counted again that stand before what is new.
    """

    def __init__(self, max_states: int = MAX_STATES, *, commits: bool = True) -> None:
        self._max_states = max_states
        self._commits = commits
        self.decoded = 0
        self._states: OrderedDict[str, _State] = OrderedDict()

    def text_batch(self, batch: TokenBatch) -> TextBatch:
        """The batch with text in place of ids; opaque fields pass through as they are.

        Raises StateError when the batch itself has more new requests than there are states.
        """
        rids = batch.rids or []
        for row, rid in enumerate(rids):
            self._take_in(rid, batch, row)
        texts = [self._text_of_row(rid, batch, row) for row, rid in enumerate(rids)]
        passed_on: dict[str, Any] = {name: getattr(batch, name) for name in _PASSED_ON}
        return TextBatch(
            **passed_on,
            output_strs=texts,
            routed_experts=_base64(batch.routed_experts),
            indexer_topk=_base64(batch.indexer_topk),
        )

    def _take_in(self, rid: str, batch: TokenBatch, row: int) -> None:
        new_ids = _of(batch.decode_ids, row, [])
        state = self._states.get(rid)
        if state is not None:
            state.ids.extend(new_ids)
            return
        if len(self._states) >= self._max_states:
            self._states.popitem(last=False)
        self._states[rid] = _State(_of(batch.decoded_texts, row, ""), list(new_ids), _of(batch.read_offsets, row, 0))

    def _text_of_row(self, rid: str, batch: TokenBatch, row: int) -> str:
        state = self._states.get(rid)
        if state is None:
            raise StateError(
                f"The state of request {rid} was dropped to make room: more than {self._max_states} requests are "
                "being detokenized; allow more states."
            )
        finished: FinishedReason | None = _of(batch.finished_reasons, row, None)
        no_trim: bool = _of(batch.no_stop_trim, row, False)
        flags = {
            "skips_special": _of(batch.skip_special_tokens, row, True),
            "spaces_special": _of(batch.spaces_between_special_tokens, row, True),
        }
        pending = state.ids[state.surrounding_offset :]
        if finished and not no_trim:
            pending = _without_stop_token(pending, finished)
        known = state.ids[state.surrounding_offset : state.read_offset]
        self.decoded += len(pending) + len(known)
        new = text_of(pending, **flags)[len(text_of(known, **flags)) :]
        if finished is not None:
            del self._states[rid]
            text = state.text + new
            return (text if no_trim else _without_stop_text(text, finished))[state.sent_offset :]
        if self._commits and new and not new.endswith(REPLACEMENT):
            state.text += new
            state.surrounding_offset, state.read_offset = state.read_offset, len(state.ids)
            new = ""
        printable = state.text + new.rstrip(REPLACEMENT)
        unsent = printable[state.sent_offset :]
        state.sent_offset = max(state.sent_offset, len(printable))
        return unsent


def _of(values: list[Any] | None, row: int, otherwise: Any) -> Any:
    return otherwise if values is None else values[row]


def _without_stop_token(ids: list[int], finished: FinishedReason) -> list[int]:
    return ids[:-1] if isinstance(finished.get("matched"), int) and ids else ids


def _without_stop_text(text: str, finished: FinishedReason) -> str:
    matched = finished.get("matched")
    return text.partition(matched)[0] if isinstance(matched, str) and matched else text


def _base64(tensors: list[Tensor | None] | None) -> list[str | None] | None:
    if tensors is None:
        return None
    return [None if tensor is None else base64.b64encode(tensor.tobytes()).decode() for tensor in tensors]
