"""Where messages go: by owner to a detokenizer, and row by row to the HTTP workers. Sending is a function passed in."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Sequence

from mockengine.fanout.batches import (
    AbortRequest,
    AnyBatch,
    EmbeddingBatch,
    FreezeGc,
    Message,
    Shutdown,
    TextBatch,
    TokenBatch,
)
from mockengine.fanout.splitting import Splitter
from mockengine.fanout.transport import Transport

Send = Callable[[str, Message], None]


class DeliveryError(Exception):
    """A message that can't be sent on; the text is a sentence."""


def detokenizer_of(owner: str, detokenizers: Sequence[str]) -> str:
    """The address of the detokenizer that all rows of a worker go to, so that each worker hears from one only."""
    return detokenizers[zlib.crc32(owner.encode()) % len(detokenizers)]


def route(message: Message, detokenizers: Sequence[str], splitter: Splitter, transport: Transport, send: Send) -> None:
    """Send each row of a batch to the detokenizer of its owner; messages that are for all go to all.

    Raises DeliveryError for rows without an owner, and TypeError for what is neither.
    """
    match message:
        case FreezeGc() | Shutdown():
            _to_all(message, detokenizers, send)
        case AbortRequest():
            if message.http_worker_ipc is None:
                raise DeliveryError(f"The abort of request {message.rid} has no owner; the scheduler must keep it.")
            send(detokenizer_of(message.http_worker_ipc, detokenizers), message)
        case TokenBatch() | EmbeddingBatch() | TextBatch():
            if not message.rids:
                _to_all(message, detokenizers, send)
                return
            owners = _owners(message)
            rows = splitter.rows(message, transport)
            for owner, row in zip(owners, rows, strict=True):
                row.http_worker_ipcs = [owner]
                send(detokenizer_of(owner, detokenizers), row)
        case _:
            raise TypeError(f"cannot split {type(message).__name__}")


def fan_out(message: Message, splitter: Splitter, transport: Transport, send: Send) -> None:
    """Send each row of a batch, and an abort whole, to the worker that owns it. What nobody owns is dropped.

    A sending that raises ends it: rows before that were sent, rows after it are not.
    """
    match message:
        case AbortRequest():
            if message.http_worker_ipc is None:
                _warn(f"The abort of request {message.rid} has no owner and is dropped; its client waits for ever.")
            else:
                send(message.http_worker_ipc, message)
        case TokenBatch() | EmbeddingBatch() | TextBatch():
            if not message.rids:
                return
            owners = message.http_worker_ipcs or [None] * len(message.rids)
            rows = splitter.rows(message, transport)
            for rid, owner, row in zip(message.rids, owners, rows, strict=True):
                if owner is None:
                    _warn(f"Request {rid} has no owner and its row is dropped; its client waits for ever.")
                else:
                    send(owner, row)
        case _:
            raise TypeError(f"cannot split {type(message).__name__}")


def _owners(batch: AnyBatch) -> list[str]:
    """Raises DeliveryError unless there is one for each row."""
    owners = batch.http_worker_ipcs
    count = len(batch.rids or ())
    if owners is None or len(owners) != count:
        raise DeliveryError(f"A batch of {count} rows has {len(owners or ())} owners; the scheduler must name each.")
    named = [owner for owner in owners if owner is not None]
    if len(named) != count:
        raise DeliveryError(f"{count - len(named)} of {count} rows have no owner; the scheduler must name each.")
    return named


def _to_all(message: Message, addresses: Sequence[str], send: Send) -> None:
    for address in addresses:
        send(address, message)


def _warn(sentence: str) -> None:
    print(f"mockengine.fanout: warning: {sentence}", file=sys.stderr, flush=True)
