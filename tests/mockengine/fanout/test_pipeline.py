"""Real processes over real sockets: what arrives, in which order, and what is left of a process that fails."""

from __future__ import annotations

from typing import Any

import pytest
import zmq

from mockengine.fanout.batches import AbortRequest, Ended, FreezeGc, Message, Submitted, TextBatch, TokenBatch
from mockengine.fanout.pipeline import Pipeline, PipelineError
from mockengine.fanout.sockets import Sockets
from mockengine.fanout.splitting import SPLITTERS
from mockengine.fanout.streams import TOKENS, make_stream
from mockengine.fanout.transport import TRANSPORTS, Transport, transport_named
from mockengine.fanout.vocabulary import text_of

PATIENCE_MS = 20_000


def owned(pipeline: Pipeline, rows: int, transport: Transport, seed: int = 1) -> tuple[list[TokenBatch], list[str]]:
    """A rich stream whose requests the HTTP workers know."""
    batches = make_stream(rows, is_rich=True, seed=seed, owners=pipeline.workers, transport=transport).batches
    rids = batches[0].rids or []
    for number, worker in enumerate(pipeline.workers):
        pipeline.send(worker, Submitted(rids[number :: len(pipeline.workers)]))
    for _ in pipeline.workers:
        assert isinstance(pipeline.receive(), Submitted)
    return batches, rids


def ended(pipeline: Pipeline, count: int) -> set[str]:
    messages = [pipeline.receive() for _ in range(count)]
    assert all(isinstance(message, Ended) for message in messages)
    return {message.rid for message in messages}  # type: ignore[union-attr]


# Wrapped fields that each stage unwraps for a stream of three batches of 8 rows, over MessagePack. A worker unwraps
# both fields of each row; with a router, the detokenizers see batches of one row, which no splitter decodes less often.
EVERY_ROW = 3 * 2 * 8
TOPOLOGIES: list[tuple[str, int, int, int, int]] = [
    # splitter, detokenizers, workers, decodes of the router, decodes of all detokenizers
    ("reference", 1, 3, 0, EVERY_ROW),
    ("reuse", 1, 3, 0, 3 * 4),
    ("sliced-once", 1, 3, 0, 3 * 2),
    ("reference", 2, 3, EVERY_ROW, EVERY_ROW),
    ("reuse", 2, 3, 3 * 4, EVERY_ROW),
    ("sliced-once", 2, 3, 3 * 2, EVERY_ROW),
    ("reference", 1, 1, 0, 0),  # a single worker gets whole batches
]


@pytest.mark.parametrize("transport_name", TRANSPORTS)
@pytest.mark.parametrize(("splitter", "detokenizers", "workers", "by_router", "by_detokenizers"), TOPOLOGIES)
def test_a_stream_passes(
    splitter: str, detokenizers: int, workers: int, by_router: int, by_detokenizers: int, transport_name: Any
) -> None:
    transport = transport_named(transport_name)
    topology: dict[str, Any] = {"detokenizers": detokenizers, "workers": workers}
    with Pipeline(transport=transport_name, splitter=splitter, **topology) as pipeline:
        pipeline.send(pipeline.entry, FreezeGc())
        batches, rids = owned(pipeline, 8, transport)
        for batch in batches:
            pipeline.send(pipeline.entry, batch)
        assert ended(pipeline, 8) == set(rids)
        accounts = pipeline.shut_down()
    delivered = {rid: request for account in accounts for rid, request in account.delivered.items()}
    assert {rid: request.text for rid, request in delivered.items()} == dict.fromkeys(rids, text_of(TOKENS))
    assert {account.unknown for account in accounts} == {0}
    assert {(account.transport, account.splitter) for account in accounts} == {(transport_name, splitter)}
    decodes: dict[str, int] = {"router": 0, "detokenizer": 0}
    for account in accounts:
        decodes[account.name.split()[0]] = decodes.get(account.name.split()[0], 0) + account.decodes
    is_msgpack = transport_name == "msgpack"
    assert decodes["router"] == is_msgpack * by_router
    assert decodes["detokenizer"] == is_msgpack * by_detokenizers
    # the single worker unwraps a field of a batch, the others one of a row
    assert decodes["worker"] == is_msgpack * 3 * 2 * (1 if workers == 1 else 8)


def received(socket: zmq.Socket[bytes], count: int, transport: Transport) -> list[Message]:
    messages = []
    for _ in range(count):
        assert socket.poll(PATIENCE_MS), "no row came"
        messages.append(transport.decode(socket.recv()))
    return messages


@pytest.mark.parametrize("splitter", SPLITTERS)
@pytest.mark.parametrize("detokenizers", [1, 3])
def test_a_worker_gets_its_rows_in_order(splitter: str, detokenizers: int, tmp_path: Any) -> None:
    """The owner decides on the detokenizer, so also across requests; 40 streams are under way at once."""
    transport = transport_named("msgpack")
    owners = [f"ipc://{tmp_path}/w{number}" for number in range(3)]
    with (
        Sockets() as sockets,
        Pipeline(transport="msgpack", splitter=splitter, detokenizers=detokenizers, workers=owners) as pipeline,
    ):
        inboxes = [sockets.receiver(owner) for owner in owners]
        streams = [make_stream(5, is_rich=True, seed=n, owners=owners, transport=transport).batches for n in range(40)]
        sent = [streams[n][step] for step in range(3) for n in range(40)]
        for batch in sent:
            pipeline.send(pipeline.entry, batch)
        for number, inbox in enumerate(inboxes):
            expected = [rid for batch in sent for rid in (batch.rids or [])[number::3]]
            rows = received(inbox, len(expected), transport)
            assert [row.rids for row in rows] == [[rid] for rid in expected]  # type: ignore[union-attr]


def test_an_abort_reaches_its_owner_and_later_rows_are_skipped(capfd: pytest.CaptureFixture[str]) -> None:
    transport = transport_named("msgpack")
    with Pipeline(transport="msgpack", splitter="reuse", detokenizers=2, workers=2) as pipeline:
        batches, rids = owned(pipeline, 4, transport)
        pipeline.send(pipeline.entry, batches[0])
        pipeline.send(pipeline.entry, AbortRequest(rids[1], pipeline.workers[1]))
        assert ended(pipeline, 1) == {rids[1]}
        for batch in batches[1:]:
            pipeline.send(pipeline.entry, batch)
        assert ended(pipeline, 3) == {rids[0], rids[2], rids[3]}
        accounts = pipeline.shut_down()
    delivered = {rid: request for account in accounts for rid, request in account.delivered.items()}
    assert delivered[rids[1]].is_aborted
    assert delivered[rids[1]].text == text_of(TOKENS[:1])
    assert sum(account.unknown for account in accounts) == 2  # the aborted request's other two rows
    assert f"Request {rids[1]} is not known here, or has ended; its row is skipped." in capfd.readouterr().err


def test_a_failure_keeps_what_was_delivered_and_signals_the_parent(
    tmp_path: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    """A number as the owner of row 5 passes every check but can't be sent to. Pickle, as MessagePack refuses it."""
    transport = transport_named("pickle")
    owner = f"ipc://{tmp_path}/w"
    with (
        Sockets() as sockets,
        Pipeline(transport="pickle", splitter="reuse", detokenizers=2, workers=[owner, "ipc:///nobody"]) as pipeline,
    ):
        inbox = sockets.receiver(owner)
        batch = make_stream(8, is_rich=True, seed=1, owners=[owner], transport=transport).batches[0]
        batch.http_worker_ipcs[5] = 5  # type: ignore[index,call-overload]
        pipeline.send(pipeline.entry, batch)
        rows = received(inbox, 5, transport)
        with pytest.raises(PipelineError, match="A process of the pipeline failed"):
            pipeline.receive()
        assert pipeline.exit_code("router") == 1
        assert not inbox.poll(0)
    assert [row.rids for row in rows] == [[rid] for rid in (batch.rids or [])[:5]]  # type: ignore[union-attr]
    assert "The router ends: AttributeError" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("message", "detokenizers", "sentence"),
    [
        (TokenBatch(rids=["a"]), 2, "The router ends: DeliveryError: A batch of 1 rows has 0 owners"),
        (AbortRequest("a"), 2, "The router ends: DeliveryError: The abort of request a has no owner"),
        (Submitted(["a"]), 2, "The router ends: TypeError: cannot split Submitted"),
        (TokenBatch(rids=["a", "b", "c"]), 1, "The detokenizer 0 ends: StateError: The state of request a was dropped"),
    ],
)
def test_what_a_process_can_not_do_ends_it(
    message: Message, detokenizers: int, sentence: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with Pipeline(
        transport="msgpack",
        splitter="reference",
        detokenizers=detokenizers,
        workers=["ipc:///a", "ipc:///b"],
        max_states=2,
    ) as pipeline:
        pipeline.send(pipeline.entry, message)
        with pytest.raises(PipelineError, match="failed"):
            pipeline.receive()
    assert sentence in capfd.readouterr().err


def test_another_transport_is_refused_at_the_first_message(capfd: pytest.CaptureFixture[str]) -> None:
    with Pipeline(transport="msgpack", splitter="reference", workers=2) as pipeline, Sockets() as sockets:
        sockets.send(pipeline.entry, transport_named("pickle").encode(FreezeGc()))
        with pytest.raises(PipelineError, match="failed"):
            pipeline.receive()
    assert "is no message over MessagePack" in capfd.readouterr().err


def test_frames_for_a_worker_that_is_not_there_wait_without_an_error(tmp_path: Any) -> None:
    """With no limit on queues a dead worker is a leak in the sender's memory; one that comes late gets all of it."""
    transport = transport_named("msgpack")
    address = f"ipc://{tmp_path}/late"
    with Sockets() as sockets:
        for number in range(2_000):
            sockets.send(address, transport.encode(TextBatch(rids=[str(number)])))
        rows = received(sockets.receiver(address), 2_000, transport)
    assert [row.rids for row in rows] == [[str(number)] for number in range(2_000)]  # type: ignore[union-attr]
