"""Completions as long-running operations: a resource with ``done``, then ``response`` or ``error``.

The shape is that of google.longrunning.Operation (AIP-151), and ``wait`` that of its WaitOperation: the answer comes
when the operation is done or when the time is over, or earlier.
"""

from __future__ import annotations

import re

import msgspec

from locustfiles.polling import failure_class
from locustfiles.protocols import completions
from locustfiles.protocols.interface import (
    BadAnswerError,
    Call,
    Cancelled,
    Failed,
    Job,
    Outcome,
    Pending,
    Protocol,
    Ready,
    Reply,
    Ticket,
    excerpt,
    refusal,
    retry_after_s,
    unexpected,
)

SUBMIT_PATH = "/v1/completions:submit"
CANCELLED = 1  # google.rpc.Code

# A wait may end early, even at once: polls are not to become a hot loop where the server says nothing of a pause.
EARLY_PAUSE_S = 0.1

_NAME = re.compile(r"[A-Za-z0-9_.~/-]+")


class _Error(msgspec.Struct, frozen=True):
    code: int = 0
    message: str = ""


class _Operation(msgspec.Struct, frozen=True):
    name: str
    done: bool = False
    response: msgspec.Raw = msgspec.Raw()
    error: _Error | None = None


_operation = msgspec.json.Decoder(_Operation)


class Operations(Protocol):
    def submit(self, job: Job) -> Call:
        body = completions.request(job.model, job.seed, *job.lengths)
        return Call("POST", SUBMIT_PATH, body)

    def accepted(self, reply: Reply) -> Ticket | Ready | Failed:
        if reply.status != 200:
            return refusal(reply)
        operation = _read("submit", reply)
        if not operation.done:
            return Ticket(operation.name, f"/v1/{operation.name}")
        end = _end(operation)
        return Failed(*end) if isinstance(end, Cancelled) else end

    def poll(self, ticket: Ticket, wait_s: float) -> Call:
        return Call("POST", f"{ticket.path}:wait", b'{"timeout":"%ds"}' % wait_s)

    def observed(self, ticket: Ticket, reply: Reply) -> Outcome:
        if reply.status != 200:
            return unexpected(reply)
        operation = _read("poll", reply)
        if operation.name != ticket.id:
            raise BadAnswerError("poll: another operation", f"asked for {ticket.id}, found {operation.name[:100]}")
        if operation.done:
            return _end(operation)
        delay_s = retry_after_s(reply)
        return Pending(EARLY_PAUSE_S if delay_s is None else delay_s)


def _read(what: str, reply: Reply) -> _Operation:
    try:
        operation = _operation.decode(reply.body)
    except msgspec.MsgspecError as error:
        raise BadAnswerError(f"{what}: not an operation", f"{error}: {excerpt(reply.body)}") from error
    if not _NAME.fullmatch(operation.name):
        raise BadAnswerError(f"{what}: not an operation", f"name: {operation.name[:100]!r}")
    return operation


def _end(operation: _Operation) -> Ready | Failed | Cancelled:
    """An operation that is done has either a response or an error."""
    response = bytes(operation.response)
    if (operation.error is None) == (not response):
        raise BadAnswerError("poll: done without one end", f"{operation.name}: response or error, one of them")
    if operation.error is None:
        return Ready(response)
    if operation.error.code == CANCELLED:
        return Cancelled("operation cancelled", operation.error.message)
    return Failed(failure_class(operation.error.message), operation.error.message)
