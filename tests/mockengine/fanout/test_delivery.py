"""Who gets which message, in which order, and what has been delivered when something fails."""

from __future__ import annotations

from typing import Any

import pytest

from mockengine.fanout.batches import AbortRequest, FreezeGc, Message, Shutdown, TextBatch, TokenBatch
from mockengine.fanout.delivery import DeliveryError, detokenizer_of, fan_out, route
from mockengine.fanout.splitting import SPLITTERS, Splitter
from mockengine.fanout.transport import TRANSPORTS, TransportName, transport_named
from tests.mockengine.fanout.samples import OWNERS, embedding_batch, text_batch

DETOKENIZERS = ("ipc:///d0", "ipc:///d1", "ipc:///d2")
EVERY_SPLITTER = pytest.mark.parametrize("splitter", SPLITTERS.values(), ids=SPLITTERS)
EVERY_TRANSPORT = pytest.mark.parametrize("transport_name", TRANSPORTS)


class Outbox:
    """Keeps what is sent; raises OSError at the sending with this number."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.sent: list[tuple[str, Message]] = []
        self.calls = 0
        self._fails_at = fails_at

    def __call__(self, address: str, message: Message) -> None:
        self.calls += 1
        if self.calls - 1 == self._fails_at:
            raise OSError("no more")
        self.sent.append((address, message))

    @property
    def rows(self) -> list[tuple[str, str]]:
        return [(address, message.rids[0]) for address, message in self.sent]  # type: ignore[union-attr,index]


@EVERY_TRANSPORT
@EVERY_SPLITTER
def test_rows_go_to_their_owners_in_order(splitter: Splitter, transport_name: TransportName) -> None:
    transport, outbox = transport_named(transport_name), Outbox()
    fan_out(text_batch(7, transport), splitter, transport, outbox)
    assert outbox.rows == [(OWNERS[row % 3], f"r{row}") for row in range(7)]


@EVERY_TRANSPORT
@EVERY_SPLITTER
def test_embeddings_with_garbage_for_metadata_are_delivered(splitter: Splitter, transport_name: TransportName) -> None:
    transport, outbox = transport_named(transport_name), Outbox()
    fan_out(embedding_batch(5), splitter, transport, outbox)
    assert outbox.rows == [(OWNERS[row % 3], f"r{row}") for row in range(5)]


@EVERY_TRANSPORT
@EVERY_SPLITTER
@pytest.mark.parametrize("fails_at", [0, 1, 4, 6])
def test_a_failed_sending_is_not_repeated(splitter: Splitter, transport_name: TransportName, fails_at: int) -> None:
    """What came before is delivered, what comes after is not even tried."""
    transport, outbox = transport_named(transport_name), Outbox(fails_at)
    with pytest.raises(OSError, match="no more"):
        fan_out(text_batch(7, transport), splitter, transport, outbox)
    assert [rid for _, rid in outbox.rows] == [f"r{row}" for row in range(fails_at)]
    assert outbox.calls == fails_at + 1


@EVERY_SPLITTER
def test_a_bad_owner_keeps_the_rows_before_it(splitter: Splitter) -> None:
    """A number is not None, so no check stops it beforehand."""
    transport, outbox = transport_named("pickle"), Outbox()
    batch = text_batch(8, transport)
    batch.http_worker_ipcs[5] = 5  # type: ignore[index,call-overload]
    with pytest.raises(AttributeError):
        route(batch, DETOKENIZERS, splitter, transport, outbox)
    assert [rid for _, rid in outbox.rows] == ["r0", "r1", "r2", "r3", "r4"]


@EVERY_SPLITTER
def test_a_row_that_nobody_owns_is_dropped_after_it_was_made(
    splitter: Splitter, capsys: pytest.CaptureFixture[str]
) -> None:
    transport, outbox = transport_named("msgpack"), Outbox()
    batch = text_batch(3, transport)
    batch.http_worker_ipcs = ["ipc:///a", None, "ipc:///b"]
    fan_out(batch, splitter, transport, outbox)
    assert outbox.rows == [("ipc:///a", "r0"), ("ipc:///b", "r2")]
    assert transport.decodes == {"reference": 6, "reuse": 4, "sliced-once": 2}[splitter.name]
    assert "Request r1 has no owner" in capsys.readouterr().err


@EVERY_SPLITTER
def test_the_router_sets_the_owner_and_keeps_to_one_detokenizer_a_worker(splitter: Splitter) -> None:
    transport, outbox = transport_named("msgpack"), Outbox()
    route(text_batch(7, transport), DETOKENIZERS, splitter, transport, outbox)
    for row, (address, message) in enumerate(outbox.sent):
        assert isinstance(message, TextBatch)
        assert message.http_worker_ipcs == [OWNERS[row % 3]]
        assert address == detokenizer_of(OWNERS[row % 3], DETOKENIZERS)


REFUSED: list[tuple[Any, str]] = [
    (None, "3 rows has 0 owners"),
    (["ipc:///a"], "3 rows has 1 owners"),
    (["ipc:///a", None, "ipc:///b"], "1 of 3 rows have no owner"),
]


@pytest.mark.parametrize(("owners", "sentence"), REFUSED)
def test_the_router_refuses_rows_without_owner_before_it_sends_any(owners: Any, sentence: str) -> None:
    transport, outbox = transport_named("pickle"), Outbox()
    batch = text_batch(3, transport)
    batch.http_worker_ipcs = owners
    with pytest.raises(DeliveryError, match=sentence):
        route(batch, DETOKENIZERS, SPLITTERS["reference"], transport, outbox)
    assert not outbox.sent


@pytest.mark.parametrize("message", [FreezeGc(), Shutdown(), TokenBatch(rids=[])])
def test_the_router_sends_to_all_what_belongs_to_nobody(message: Message) -> None:
    outbox = Outbox()
    route(message, DETOKENIZERS, SPLITTERS["reference"], transport_named("pickle"), outbox)
    assert outbox.sent == [(address, message) for address in DETOKENIZERS]


def test_an_abort_goes_whole_to_its_owner() -> None:
    transport, splitter = transport_named("pickle"), SPLITTERS["reference"]
    abort, routed, sent = AbortRequest("r1", OWNERS[1]), Outbox(), Outbox()
    route(abort, DETOKENIZERS, splitter, transport, routed)
    fan_out(abort, splitter, transport, sent)
    assert routed.sent == [(detokenizer_of(OWNERS[1], DETOKENIZERS), abort)]
    assert sent.sent == [(OWNERS[1], abort)]


def test_an_abort_without_owner_ends_the_router_and_is_dropped_after_it(capsys: pytest.CaptureFixture[str]) -> None:
    transport, splitter, outbox = transport_named("pickle"), SPLITTERS["reference"], Outbox()
    with pytest.raises(DeliveryError, match="abort of request r1 has no owner"):
        route(AbortRequest("r1"), DETOKENIZERS, splitter, transport, outbox)
    fan_out(AbortRequest("r1"), splitter, transport, outbox)
    assert not outbox.sent
    assert "abort of request r1 has no owner and is dropped" in capsys.readouterr().err


def test_what_can_not_be_split_is_refused() -> None:
    with pytest.raises(TypeError, match="cannot split Shutdown"):
        fan_out(Shutdown(), SPLITTERS["reuse"], transport_named("pickle"), Outbox())


def test_the_detokenizer_is_chosen_by_the_crc_of_the_owner() -> None:
    """0xCBF43926 is the published check value of CRC-32, that of "123456789"."""
    for count in (1, 2, 3, 7):
        addresses = [f"ipc:///d{number}" for number in range(count)]
        assert detokenizer_of("123456789", addresses) == addresses[0xCBF43926 % count]
