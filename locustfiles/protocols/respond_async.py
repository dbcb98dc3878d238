"""Completions from a server that honours ``Prefer: respond-async`` (RFC 7240, 4.1).

The server answers 202 with the Location of a status monitor; that one says 202 with an optional Retry-After as long as
the work goes on, and then gives the result, or a 303 that says where it is.
"""

from __future__ import annotations

from locustfiles.protocols import completions
from locustfiles.protocols.interface import (
    BadAnswerError,
    Call,
    Failed,
    FetchAt,
    Job,
    Outcome,
    Pending,
    Protocol,
    Ready,
    Reply,
    Ticket,
    excerpt,
    location,
    refusal,
    retry_after_s,
    unexpected,
)

PREFER = {"Prefer": "respond-async"}


class RespondAsync(Protocol):
    def submit(self, job: Job) -> Call:
        body = completions.request(job.model, job.seed, *job.lengths)
        return Call("POST", completions.PATH, body, PREFER)

    def accepted(self, reply: Reply) -> Ticket | Ready | Failed:
        """A preference may be ignored: then the result comes at once."""
        match reply.status:
            case 202:
                path = _location("submit", reply, completions.PATH)
                return Ticket(path, path)
            case 200:
                return Ready(reply.body)
        return refusal(reply)

    def poll(self, ticket: Ticket, wait_s: float) -> Call:
        return Call("GET", ticket.path, headers={"Prefer": f"wait={int(wait_s)}"})

    def observed(self, ticket: Ticket, reply: Reply) -> Outcome:
        match reply.status:
            case 202:
                return Pending(retry_after_s(reply), location(reply, ticket.path))
            case 200 | 204:
                return Ready(reply.body)
            case 303:
                return FetchAt(Call("GET", _location("poll", reply, ticket.path)))
        return unexpected(reply)


def _location(what: str, reply: Reply, base: str) -> str:
    path = location(reply, base)
    if path is None:
        raise BadAnswerError(f"{what} {reply.status} without a Location", excerpt(reply.body))
    return path
