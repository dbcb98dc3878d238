"""Messages survive the way through bytes, and foreign bytes are refused with a sentence."""

from __future__ import annotations

import pickle

import msgspec
import numpy as np
import pytest

from mockengine.fanout import timing
from mockengine.fanout.batches import AbortRequest, FreezeGc, Message, Shutdown, Wrapped
from mockengine.fanout.timing import Timing
from mockengine.fanout.transport import TRANSPORTS, TransportError, TransportName, transport_named
from tests.mockengine.fanout.samples import embedding_batch, text_batch, token_batch


@pytest.mark.parametrize("transport_name", TRANSPORTS)
def test_messages_come_back_as_they_were(transport_name: TransportName) -> None:
    transport = transport_named(transport_name)
    messages: list[Message] = [
        text_batch(3, transport),
        token_batch(3, transport),
        embedding_batch(4),
        AbortRequest("r1", "ipc:///a"),
        FreezeGc(),
        Shutdown(),
    ]
    for message in messages:
        decoded = transport.decode(transport.encode(message))
        assert type(decoded) is type(message)
        assert transport.encode(decoded) == transport.encode(message)


def test_arrays_keep_type_and_shape() -> None:
    transport = transport_named("msgpack")
    tensor = np.arange(6, dtype=np.float16).reshape(2, 3)
    decoded = transport.decode(transport.encode(token_batch(1, transport, routed_experts=[tensor])))
    found = decoded.routed_experts[0]  # type: ignore[union-attr,index]
    assert found.dtype == tensor.dtype
    assert found.tolist() == tensor.tolist()  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("transport_name", "frame"),
    [
        ("msgpack", pickle.dumps(Shutdown())),
        ("msgpack", b""),
        ("msgpack", msgspec.msgpack.encode(["NoSuchMessage", 1])),
        ("pickle", msgspec.msgpack.encode(Shutdown())),
        ("pickle", pickle.dumps("a string")),
    ],
)
def test_a_frame_of_another_transport_is_refused(transport_name: TransportName, frame: bytes) -> None:
    with pytest.raises(TransportError, match="start all processes with the same transport"):
        transport_named(transport_name).decode(frame)


def test_only_unwrapping_what_is_wrapped_counts() -> None:
    for name, expected in (("msgpack", 1), ("pickle", 0)):
        transport = transport_named(name)  # type: ignore[arg-type]
        assert transport.unwrap(transport.wrap([1])) == [1]
        assert transport.unwrap([1]) == [1]
        assert transport.unwrap(None) is transport.wrap(None) is None
        assert transport.decodes == expected


def test_wrapped_pickles_have_the_default_protocol() -> None:
    assert transport_named("msgpack").wrap([1]) == Wrapped(pickle.dumps([1]))


def test_timestamps_move_to_the_receivers_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = pickle.dumps(Timing(queue=100.0, forward=101.5))
    wall = Timing(queue=100.0, forward=101.5).wall_times_s()
    monkeypatch.setattr(timing, "CLOCK_OFFSET_S", timing.CLOCK_OFFSET_S - 25.0)
    received = pickle.loads(sent)
    assert received.queue_entry_time == pytest.approx(125.0, abs=5e-6)
    assert received.response_sent_time == 0.0  # not yet: must not become a time
    again = pickle.loads(pickle.dumps(received))  # a second hop keeps them
    assert again.wall_times_s() == pytest.approx(wall, abs=5e-6)


def test_timing_without_metrics_sends_nothing() -> None:
    received = pickle.loads(pickle.dumps(Timing(is_enabled=False, queue=5.0)))
    assert (received.is_enabled, received.queue_entry_time) == (False, 0.0)
    assert received.__getstate__() == {}
