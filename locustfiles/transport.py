"""HTTP requests over a pool of keep-alive connections, for tens of thousands of long polls in one process.

Sockets, pool and response parser are geventhttpclient's. Requests are written here, and two things of its pool are
replaced:

* its liveness test calls ``select``, which takes no file number above 1023, so that every later connection counts
  as dead and is thrown away after one request; ``poll`` has no such limit;
* it resolves the host for every connection; once is enough.

Locust's own HTTP users cost 1.5 times the CPU of this per request (measured), most of it in building headers and firing
events that a ledger makes superfluous.
"""

from __future__ import annotations

import errno
import itertools
import select
import socket
import time
from collections.abc import Mapping, Sequence
from email.utils import formatdate
from typing import Any
from urllib.parse import urlsplit

import gevent
import gevent.socket
from gevent import monkey
from geventhttpclient.connectionpool import ConnectionPool
from geventhttpclient.response import HTTPConnectionClosed, HTTPParseError, HTTPSocketPoolResponse

from locustfiles.protocols.interface import Call, Reply

# At 64 KB bodies the block size makes no difference; at 256 KB, 32 KiB was up to 1.4 times faster than 4 KiB or 64 KiB.
BLOCK_BYTES = 32 * 1024
CONNECT_TIMEOUT_S = 30.0
NETWORK_TIMEOUT_S = 3600.0

_IP_BIND_ADDRESS_NO_PORT = 24  # of <linux/in.h>; the standard library has no name for it before 3.12

_poll_factory = monkey.get_original("select", "poll")


class TimedOutError(Exception):
    """No complete answer came within the time that the client gives it."""


# What this process has run out of, by the system's error: local ports, and open files of its own or of the machine.
_OWN_LIMITS = {errno.EADDRNOTAVAIL: "client_ports", errno.EMFILE: "client_files", errno.ENFILE: "client_files"}


class ConnectionFailedError(Exception):
    """Refused, reset, closed early, or an answer that is not HTTP. ``str()`` is low-cardinality.

    own_limit: ``client_ports`` or ``client_files`` when it was this process that had none left.
    """

    def __init__(self, text: str, own_limit: str | None = None) -> None:
        super().__init__(text)
        self.own_limit = own_limit


class _Pool(ConnectionPool):
    """A pool that keeps connections with any file number, and knows its address from the start."""

    def __init__(self, host: str, port: int, size: int, sources: Sequence[str]) -> None:
        super().__init__(
            host,
            port,
            host,
            port,
            size=size,
            connection_timeout=CONNECT_TIMEOUT_S,
            # Every call has a time-out of its own; this one, on each socket operation, never comes first.
            network_timeout=NETWORK_TIMEOUT_S,
        )
        self._addresses = super()._resolve()
        self._sources = itertools.cycle(sources) if sources else None

    def _create_tcp_socket(self, family: int, socktype: int, protocol: int) -> gevent.socket.socket:
        connection = super()._create_tcp_socket(family, socktype, protocol)
        if self._sources is not None:
            try:
                # Else bind takes a port that no other connection of this address has, whatever it is connected to.
                connection.setsockopt(socket.SOL_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
                connection.bind((next(self._sources), 0))
            except OSError:
                connection.close()
                raise
        return connection

    def _resolve(self) -> Any:
        return self._addresses

    def _is_socket_alive(self, sock: Any) -> bool:
        """An idle connection with something to read has been closed, or holds bytes that are nobody's."""
        if sock is None or sock.fileno() < 0:
            return False
        poller = _poll_factory()
        poller.register(sock.fileno(), select.POLLIN)
        return not poller.poll(0)


class Transport:
    """Requests to one server. At most ``connections`` requests are under way at once; more wait.

    sources: local addresses to connect from in turn, of the target's family; none to leave it to the system.
    Raises OSError when the host's name cannot be resolved.
    """

    def __init__(self, url: str, connections: int, headers: Mapping[str, str], sources: Sequence[str] = ()) -> None:
        parts = urlsplit(url)
        host = parts.hostname or ""
        port = parts.port or 80
        self._pool = _Pool(host, port, connections, sources)
        common = {"Host": f"{host}:{port}", "Content-Type": "application/json", **headers}
        self._common = _header_lines(common)
        self._failing_since_s: float | None = None
        self._failed_s = 0.0

    def post(self, path: str, body: bytes, headers: Mapping[str, str], timeout_s: float) -> Reply:
        """``send`` of a POST."""
        return self.send(Call("POST", path, body, headers), timeout_s)

    def send(self, call: Call, timeout_s: float) -> Reply:
        """The answer to one request, read whole within timeout_s seconds.

        Raises TimedOutError and ConnectionFailedError; after either the connection is closed.
        """
        request = b"%b %b HTTP/1.1\r\n%b%bContent-Length: %d\r\n\r\n%b" % (
            call.method.encode("ascii"),
            call.path.encode("ascii"),
            self._common,
            _header_lines(call.headers),
            len(call.body),
            call.body,
        )
        try:
            with gevent.Timeout(timeout_s, TimedOutError):
                reply = self._exchange(call.method, request)
        except TimedOutError:  # it was there to be waited for
            self._failing_since_s = None
            raise
        except (OSError, HTTPParseError) as error:
            limit = _OWN_LIMITS.get(error.errno or 0) if isinstance(error, OSError) else None
            if limit is None:
                self._failed_s = time.monotonic()
                self._failing_since_s = self._failed_s if self._failing_since_s is None else self._failing_since_s
            raise ConnectionFailedError(_low_cardinality(error), limit) from error
        self._failing_since_s = None
        return reply

    @property
    def failing_for_s(self) -> float:
        """Between the first and the last failed connection since anything was answered or waited for in vain."""
        return 0.0 if self._failing_since_s is None else self._failed_s - self._failing_since_s

    def _exchange(self, method: str, request: bytes) -> Reply:
        connection = self._pool.get_socket()
        try:
            connection.sendall(request)
        except BaseException:
            self._pool.release_socket(connection)
            raise
        # From here on the response gives the connection back: to the pool when read whole, else closed.
        response = HTTPSocketPoolResponse(connection, self._pool, block_size=BLOCK_BYTES, method=method)
        began_s = time.monotonic()
        body = response.read()
        body_s = time.monotonic() - began_s
        if not response.message_complete:
            raise ConnectionResetError("closed in the body")
        headers = {"date": formatdate(usegmt=True)} if "date" not in response else {}
        headers.update((name.lower(), value) for name, value in response.items())
        return Reply(response.status_code, headers, body, body_s)

    def close(self) -> None:
        self._pool.close()


def _header_lines(headers: Mapping[str, str]) -> bytes:
    return "".join([f"{name}: {value}\r\n" for name, value in headers.items()]).encode("latin-1")


def _low_cardinality(error: Exception) -> str:
    """What went wrong, without addresses or ids, so that equal troubles count as one class."""
    if isinstance(error, HTTPConnectionClosed):
        return "closed without an answer"
    if isinstance(error, HTTPParseError):
        return "answer cut short or not HTTP"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
