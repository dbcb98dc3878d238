"""Mistakes that servers with such a pipeline have made, each to choose by its name; docs/fanout.md has their symptoms.

What strikes single rows strikes every EVERY-th that a process handles, so that it repeats.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from mockengine.fanout.batches import AnyBatch, GeneratedBatch, Message, TextBatch
from mockengine.fanout.delivery import Send
from mockengine.fanout.splitting import Splitter
from mockengine.fanout.timing import Timing
from mockengine.fanout.transport import Transport, TransportName

EVERY = 7
FEW_STATES = 2


class Fault(NamedTuple):
    """effect: what goes wrong. symptom: how it shows."""

    effect: str
    symptom: str


FAULTS: dict[str, Fault] = {
    "no_owner": Fault(
        "the scheduler names no owner for every seventh row",
        "with a router it ends, and so does the engine; without one the row is dropped with a warning and its client "
        "waits for ever, while `/health` answers 200",
    ),
    "abort_without_owner": Fault(
        "a request that the scheduler aborts (`--max-rows`) loses its owner",
        "without a router its client waits for ever, while `/health` answers 200; a router ends",
    ),
    "not_sticky": Fault(
        "the router deals rows to the detokenizers in turn",
        "a detokenizer without the state of a request breaks characters, and rows overtake each other",
    ),
    "info_not_padded": Fault(
        "one key of the customized info lacks the last row, and the splitters read on",
        "the splitting process ends with an IndexError; the rows before are delivered",
    ),
    "missing_as_list": Fault(
        "one key of the customized info lacks the last row, which gets an empty list instead of None",
        "the HTTP worker finds an info of another shape than the row's tokens, and answers 500",
    ),
    "field_dropped": Fault(
        "splitters leave out `output_ids`", "the HTTP worker ends with a TypeError at the first row"
    ),
    "timing_forgotten": Fault(
        "a timing object forgets on its first hop that metrics are on", "queue times are 0.0 after the second hop"
    ),
    "unset_time_moved": Fault(
        "a time that is not set is moved to the receiver's clock like others",
        "latencies as long as the machine has been up",
    ),
    "few_states": Fault(
        "a detokenizer keeps the states of two requests", "it ends at the first batch of more than two requests"
    ),
    "never_commits": Fault(
        "a detokenizer's states never advance",
        "texts are right, but tokens decoded grow with the square of the length",
    ),
    "other_transport": Fault("the detokenizers speak the other transport", "the first message ends them"),
    "send_fails": Fault(
        "sending the seventh row raises", "the process ends; the rows before are delivered, none after"
    ),
    "unbounded_queues": Fault(
        "queues have no end, as in the server that this follows",
        "frames for a worker that is dead pile up in the sender's memory, without an error",
    ),
    "row_doubled": Fault("every seventh row to an HTTP worker is sent twice", "its answer is wrong: 500"),
    "rows_swapped": Fault("every seventh row of a request comes after its next", "its answer is wrong: 500"),
    "row_misdelivered": Fault(
        "every seventh row goes to another HTTP worker",
        "one worker skips a row that it does not know; answers are wrong",
    ),
}


def prepare_timing(fault: str | None) -> None:
    """For the whole process."""
    Timing.forgets = fault == "timing_forgotten"
    Timing.moves_unset = fault == "unset_time_moved"


def other_transport(name: TransportName) -> TransportName:
    return "pickle" if name == "msgpack" else "msgpack"


def faulty_splitter(fault: str | None, splitter: Splitter) -> Splitter:
    """The splitter itself, or with a fault of splitters."""
    return _FaultySplitter(fault, splitter) if fault in _OF_SPLITTERS else splitter


def faulty_send(fault: str | None, send: Send) -> Send:
    """The way of rows to HTTP workers, or a faulty one."""
    return _FaultySend(fault, send) if fault in _OF_SENDING else send


_OF_SPLITTERS = ("info_not_padded", "missing_as_list", "field_dropped")
_OF_SENDING = ("send_fails", "row_doubled", "rows_swapped", "row_misdelivered")


class _FaultySplitter:
    def __init__(self, fault: str | None, splitter: Splitter) -> None:
        self.name = splitter.name
        self._fault = fault
        self._splitter = splitter

    def rows(self, batch: AnyBatch, transport: Transport) -> Iterator[AnyBatch]:
        info = transport.unwrap(batch.customized_info) if isinstance(batch, GeneratedBatch) else None
        for number, row in enumerate(self._splitter.rows(batch, transport)):
            if isinstance(row, GeneratedBatch):
                self._spoil(row, number, info or {}, transport)
            yield row

    def _spoil(self, row: GeneratedBatch, number: int, info: dict[str, list[Any]], transport: Transport) -> None:
        if self._fault == "field_dropped":
            row.output_ids = None
        elif self._fault == "info_not_padded":
            row.customized_info = transport.wrap({key: [rows[number]] for key, rows in info.items()})
        else:
            lists = {key: [rows[number] if number < len(rows) else []] for key, rows in info.items()}
            row.customized_info = transport.wrap(lists)


class _FaultySend:
    def __init__(self, fault: str | None, send: Send) -> None:
        self._fault = fault
        self._send = send
        self._rows = 0
        self._held: dict[str, tuple[str, Message]] = {}
        self._addresses: list[str] = []

    def __call__(self, address: str, message: Message) -> None:
        if not isinstance(message, TextBatch) or not message.rids:
            self._send(address, message)
            return
        self._rows += 1
        if address not in self._addresses:
            self._addresses.append(address)
        (self._strike if self._rows % EVERY == 0 else self._pass)(address, message)

    def _pass(self, address: str, message: TextBatch) -> None:
        self._send(address, message)
        if held := self._held.pop((message.rids or [""])[0], None):
            self._send(*held)

    def _strike(self, address: str, message: TextBatch) -> None:
        rid = (message.rids or [""])[0]
        match self._fault:
            case "send_fails":
                raise OSError("the sending was made to fail")
            case "row_doubled":
                self._send(address, message)
                self._send(address, message)
            case "row_misdelivered":
                others = [other for other in self._addresses if other != address]
                self._send(others[0] if others else address, message)
            case _:
                is_last = message.finished_reasons is not None and message.finished_reasons[0] is not None
                if is_last or rid in self._held:
                    self._pass(address, message)
                else:
                    self._held[rid] = (address, message)
