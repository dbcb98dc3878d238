"""What a future-polling API is to the load: requests to send, and what the answers to them mean.

A protocol is pure: it builds requests and reads answers, sends nothing and keeps no clock. ``ProtocolClient`` does the
rest: it sends, waits, repeats what got no answer, and counts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple
from urllib.parse import urljoin, urlsplit

from locustfiles.lengths import JobLengths
from locustfiles.protocols import completions
from server_under_test.proto import SampleResponse

# A server that asks for a longer pause than this means something else: seconds since 1970, say, or milliseconds.
LONGEST_RETRY_AFTER_S = 3600.0


class BadAnswerError(Exception):
    """An answer that is not what the API promises. error_class: its low-cardinality name."""

    def __init__(self, error_class: str, detail: str) -> None:
        super().__init__(detail)
        self.error_class = error_class


class Job(NamedTuple):
    """The work of one future: ``seed`` tells the mock engine which answer to give. model: whose answer is wanted."""

    model: str
    seed: int
    lengths: JobLengths


class Call(NamedTuple):
    """A request. path: what stands in the request line, from the first slash on."""

    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = {}


class Reply(NamedTuple):
    """An answer. headers: by their names in lower case; ``date`` is always there.

    body_s: from the end of the headers to that of the body.
    """

    status: int
    headers: Mapping[str, str] = {}
    body: bytes = b""
    body_s: float = 0.0

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "")


class Ticket(NamedTuple):
    """An accepted future. id: the server's name of it, another one for each future. path: where to ask for it."""

    id: str
    path: str


class Pending(NamedTuple):
    """Not yet: ask again after delay_s; None where the server does not say, and the client decides.

    path: where to ask from now on, when the server has said so.
    """

    delay_s: float | None = None
    path: str | None = None


class Ready(NamedTuple):
    result: bytes


class FetchAt(NamedTuple):
    """The result is there; this call fetches it, and its answer is read by ``observed`` as well."""

    call: Call


class Failed(NamedTuple):
    """error_class: a low-cardinality name. retryable: the same call may succeed after delay_s; None as in Pending."""

    error_class: str
    detail: str = ""
    retryable: bool = False
    delay_s: float | None = None


class Lost(NamedTuple):
    """The server does not know the future."""

    error_class: str
    detail: str = ""


class Cancelled(NamedTuple):
    """Somebody has cancelled the future."""

    error_class: str
    detail: str = ""


Outcome = Pending | Ready | FetchAt | Failed | Lost | Cancelled


class Protocol(ABC):
    """One API. Its methods may raise BadAnswerError, which fails the future."""

    @abstractmethod
    def submit(self, job: Job) -> Call: ...

    @abstractmethod
    def accepted(self, reply: Reply) -> Ticket | Ready | Failed:
        """What the answer to a submit says; Ready when the result is in it already."""

    @abstractmethod
    def poll(self, ticket: Ticket, wait_s: float) -> Call:
        """wait_s: how long the server may hold the call at most."""

    @abstractmethod
    def observed(self, ticket: Ticket, reply: Reply) -> Outcome:
        """What the answer to a poll, or to the call of a FetchAt, says."""

    def sample(self, result: bytes) -> SampleResponse:
        """The sample in a result, for its verification; here that of a completion in vLLM's JSON.

        Raises ValueError when there is none.
        """
        return completions.sample(result)


def refusal(reply: Reply) -> Failed:
    """A submit that was answered by a status without a meaning of its own in the API.

    Only 429 and 503 say that nothing was begun; after any other, a second submit could run the work twice.
    """
    retryable = reply.status in (429, 503)
    return _failed("submit", reply, retryable)


def unexpected(reply: Reply) -> Failed | Lost:
    """A poll that was answered by a status without a meaning of its own in the API."""
    if reply.status in (404, 410):
        return Lost(f"poll {reply.status}", excerpt(reply.body))
    return _failed("poll", reply, retryable=reply.status in (408, 429) or reply.status >= 500)


def _failed(what: str, reply: Reply, retryable: bool) -> Failed:
    delay_s = retry_after_s(reply) if retryable else None
    return Failed(f"{what} {reply.status}", excerpt(reply.body), retryable, delay_s)


def retry_after_s(reply: Reply) -> float | None:
    """The pause that the server asks for, in seconds or as a date (RFC 9110, 10.2.3); None where it asks for none.

    A date is compared with the server's own, so that the clocks need not agree. Raises BadAnswerError.
    """
    text = reply.headers.get("retry-after")
    if text is None:
        return None
    delay_s = float(text) if text.isascii() and text.isdecimal() else _until_s(text, reply.headers.get("date", ""))
    if delay_s is None or delay_s > LONGEST_RETRY_AFTER_S:
        raise BadAnswerError("Retry-After that makes no sense", f"Retry-After: {text[:100]}")
    return max(0.0, delay_s)


def _until_s(then: str, now: str) -> float | None:
    try:
        return (_moment(then) - _moment(now)).total_seconds()
    except ValueError:
        return None


def _moment(date: str) -> datetime:
    moment = parsedate_to_datetime(date)
    if moment.tzinfo is None:
        raise ValueError("a date without a zone")
    return moment


def location(reply: Reply, base: str) -> str | None:
    """Where the Location header points to, as a path of the same server, whatever name that has for itself.

    base: the path of the request. None without one.
    """
    text = reply.headers.get("location")
    if not text:
        return None
    try:
        parts = urlsplit(urljoin(base, text))
    except ValueError as error:
        raise BadAnswerError("Location that is no URL", text[:100]) from error
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not path.startswith("/") or not path.isascii() or not path.isprintable() or " " in path:
        raise BadAnswerError("Location that is no URL", text[:100])
    return path


def excerpt(body: bytes) -> str:
    return body[:200].decode("utf-8", "replace")
