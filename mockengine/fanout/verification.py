"""Whether what arrived is what had to arrive, row by row. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from mockengine.fanout.batches import Message, TextBatch
from mockengine.fanout.streams import TOKENS, Stream
from mockengine.fanout.vocabulary import text_of

# Moving a timestamp to another clock and back rounds it.
_CLOCK_TOLERANCE_S = 5e-6


class Arrival(NamedTuple):
    """A row as an endpoint got it. step: of which batch; the opaque fields have been unwrapped."""

    step: int
    endpoint: int
    message: Message
    time_stats: Any
    customized_info: Any


class WrongRowError(Exception):
    """A row that is not what it had to be, or not where; the text is a sentence."""


def verify(arrivals: Sequence[Arrival], stream: Stream, endpoints: int) -> None:
    """Every row of the stream, once, at its endpoint, in the stream's order there, and equal in every field.

    Raises WrongRowError.
    """
    for endpoint in range(endpoints):
        here = [arrival for arrival in arrivals if arrival.endpoint == endpoint]
        expected = [
            (step, row)
            for step in range(len(stream.rows))
            for row in range(endpoint, len(stream.rows[step]), endpoints)
        ]
        if len(here) != len(expected):
            raise WrongRowError(f"Endpoint {endpoint} got {len(here)} rows, but {len(expected)} are its own.")
        for arrival, (step, row) in zip(here, expected, strict=True):
            _verify_row(arrival, step, stream.rows[step][row])
    _verify_texts(arrivals, stream)


def _verify_row(arrival: Arrival, step: int, expected: dict[str, Any]) -> None:
    message = arrival.message
    where = f"Row {expected['rids']} of batch {step} at endpoint {arrival.endpoint}"
    if not isinstance(message, TextBatch) or arrival.step != step:
        raise WrongRowError(f"{where} came as a {type(message).__name__} of batch {arrival.step}.")
    for name in message.__struct_fields__:
        if name in ("time_stats", "customized_info"):
            continue
        wanted = [expected[name]] if name in expected else None
        if (found := getattr(message, name)) != wanted:
            raise WrongRowError(f"{where} has {name} {found!r}, but it must be {wanted!r}.")
    if arrival.customized_info != (info := _one_row(expected.get("customized_info"))):
        raise WrongRowError(f"{where} has customized_info {arrival.customized_info!r}, but it must be {info!r}.")
    found_s, wanted_s = _wall_times_s(arrival.time_stats), _wall_times_s(_in_list(expected.get("time_stats")))
    if len(found_s) != len(wanted_s) or not all(map(_is_same_time, found_s, wanted_s)):
        raise WrongRowError(f"{where} has the times {found_s}, but they must be {wanted_s}.")


def _verify_texts(arrivals: Sequence[Arrival], stream: Stream) -> None:
    """Belt and braces: the pieces of each request make up its whole text, however the rows are looked at."""
    texts: dict[str, str] = {}
    for arrival in arrivals:
        assert isinstance(arrival.message, TextBatch)
        for rid, text in zip(arrival.message.rids or [], arrival.message.output_strs or [], strict=True):
            texts[rid] = texts.get(rid, "") + text
    if texts != {row["rids"]: text_of(TOKENS) for row in stream.rows[0]}:
        raise WrongRowError("The pieces of text do not add up to the text of all tokens.")


def _one_row(info: dict[str, Any] | None) -> dict[str, Any] | None:
    return info and {key: [value] for key, value in info.items()}


def _in_list(value: Any) -> Any:
    return None if value is None else [value]


def _wall_times_s(time_stats: Any) -> list[float]:
    return [] if time_stats is None else [at for timing in time_stats for at in timing.wall_times_s()]


def _is_same_time(found: float, wanted: float) -> bool:
    return found == wanted if 0.0 in (found, wanted) else abs(found - wanted) <= _CLOCK_TOLERANCE_S
