"""Rows that are wrong, missing, doubled or elsewhere are found, each kind by its own sentence."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from mockengine.fanout.detokenizer import Detokenizer
from mockengine.fanout.splitting import Reference
from mockengine.fanout.streams import Stream, make_stream
from mockengine.fanout.timing import Timing
from mockengine.fanout.transport import TRANSPORTS, Transport, TransportName, transport_named
from mockengine.fanout.verification import Arrival, WrongRowError, verify

ENDPOINTS = 3


def arrivals_of(stream: Stream, transport: Transport) -> list[Arrival]:
    """What a faultless pipeline delivers."""
    detokenizer = Detokenizer()
    found = []
    for step, batch in enumerate(stream.batches):
        for row, message in enumerate(Reference().rows(detokenizer.text_batch(batch), transport)):
            received = transport.decode(transport.encode(message))
            opaque = [transport.unwrap(getattr(received, name)) for name in ("time_stats", "customized_info")]
            found.append(Arrival(step, row % ENDPOINTS, received, *opaque))
    return found


def stream_of(transport: Transport, *, is_rich: bool = True, seed: int = 7) -> Stream:
    return make_stream(7, is_rich=is_rich, seed=seed, owners=["a", "b", "c"], transport=transport)


@pytest.mark.parametrize("transport_name", TRANSPORTS)
@pytest.mark.parametrize("is_rich", [True, False])
def test_what_a_faultless_pipeline_delivers_is_right(transport_name: TransportName, is_rich: bool) -> None:
    transport = transport_named(transport_name)
    stream = stream_of(transport, is_rich=is_rich)
    verify(arrivals_of(stream, transport), stream, ENDPOINTS)


def swapped(arrivals: list[Arrival], one: int, other: int) -> list[Arrival]:
    arrivals[one], arrivals[other] = arrivals[other], arrivals[one]
    return arrivals


def changed(arrivals: list[Arrival], at: int, **fields: Any) -> list[Arrival]:
    """A row with other values in its message, or in what was unwrapped of it."""
    arrival = arrivals[at]
    unwrapped = {name: value for name, value in fields.items() if name in arrival._fields}
    message = copy.copy(arrival.message)
    for name, value in fields.items():
        if name not in unwrapped:
            setattr(message, name, value)
    arrivals[at] = arrival._replace(message=message, **unwrapped)
    return arrivals


MISTAKES: list[tuple[Callable[[list[Arrival]], list[Arrival]], str]] = [
    (lambda rows: rows[:-1], "Endpoint 0 got 8 rows, but 9"),
    (lambda rows: [*rows, rows[-1]], "Endpoint 0 got 10 rows, but 9"),
    (lambda rows: [*rows[:1], rows[0], *rows[1:3], *rows[4:]], "has rids"),  # one doubled, another missing
    (lambda rows: swapped(rows, 0, 3), "Row 7-0 of batch 0 at endpoint 0 has rids"),
    (lambda rows: [rows[0]._replace(endpoint=1), rows[1]._replace(endpoint=0), *rows[2:]], "has rids"),
    (lambda rows: [rows[0]._replace(step=1), *rows[1:]], "came as a TextBatch of batch 1"),
    (lambda rows: changed(rows, 4, output_strs=[" w9"]), "Row 7-4 of batch 0 at endpoint 1 has output_strs"),
    (lambda rows: changed(rows, 4, prompt_tokens=None), "has prompt_tokens None, but it must be"),
    (lambda rows: changed(rows, 4, dp_ranks=[0]), "has dp_ranks"),
    (lambda rows: changed(rows, 4, finished_reasons=[{"type": "stop"}]), "has finished_reasons"),
    (lambda rows: changed(rows, 4, customized_info={"score": [[0.1]]}), "has customized_info"),
    (lambda rows: changed(rows, 4, customized_info=None), "has customized_info None"),
    (lambda rows: changed(rows, 4, time_stats=None), "has the times"),
    (lambda rows: changed(rows, 4, time_stats=rows[5].time_stats), "has the times"),
    (lambda rows: changed(rows, 4, time_stats=[shifted(rows[4].time_stats[0], 1e-5)]), "has the times"),
    # an unset time that was moved like one that is set
    (lambda rows: changed(rows, 4, time_stats=[shifted(rows[4].time_stats[0], 0.0, 1e-9)]), "has the times"),
]


def shifted(timing: Timing, by_s: float, sent_s: float = 0.0) -> Timing:
    return Timing(queue=timing.queue_entry_time + by_s, forward=timing.forward_entry_time, sent=sent_s)


@pytest.mark.parametrize(("mistake", "sentence"), MISTAKES)
def test_a_mistake_is_found(mistake: Callable[[list[Arrival]], list[Arrival]], sentence: str) -> None:
    transport = transport_named("msgpack")
    stream = stream_of(transport)
    with pytest.raises(WrongRowError, match=sentence):
        verify(mistake(arrivals_of(stream, transport)), stream, ENDPOINTS)


def test_times_may_differ_by_rounding() -> None:
    transport = transport_named("msgpack")
    stream = stream_of(transport)
    arrivals = arrivals_of(stream, transport)
    verify(changed(arrivals, 4, time_stats=[shifted(arrivals[4].time_stats[0], 1e-6)]), stream, ENDPOINTS)


def test_another_stream_is_another() -> None:
    """Of the same shape, so only rids, times and infos tell."""
    transport = transport_named("msgpack")
    with pytest.raises(WrongRowError, match="has rids"):
        verify(arrivals_of(stream_of(transport, seed=8), transport), stream_of(transport), ENDPOINTS)
