"""The connection pool and what becomes of connections, against servers of plain sockets and threads."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from typing import Any

import pytest

# Each test runs in a child, since gevent's monkey patching must come before everything else, as it does in Locust.
PRELUDE = """
from gevent import monkey
monkey.patch_all()
import gevent, json
from gevent.server import StreamServer
from locustfiles.transport import Transport, TimedOutError, ConnectionFailedError

connections = []
OK = b"HTTP/1.1 200 OK\\r\\nContent-Type: text/plain\\r\\nContent-Length: 2\\r\\n\\r\\nhi"

def read_request(file):
    head = b""
    while not head.endswith(b"\\r\\n\\r\\n"):
        line = file.readline()
        if not line:
            return None
        head += line
    length = next(int(l.split(b":")[1]) for l in head.split(b"\\r\\n") if l.lower().startswith(b"content-length"))
    return head, file.read(length)

def serve(handle):
    server = StreamServer(("127.0.0.1", 0), lambda sock, address: handle(sock, address), backlog=4096)
    server.start()
    return f"http://127.0.0.1:{server.server_port}"

def outcome(call):
    try:
        reply = call()
        return [reply.status, reply.content_type, reply.body]
    except (TimedOutError, ConnectionFailedError) as error:
        return [type(error).__name__, str(error)]

def post(transport, timeout_s=20.0):
    return transport.post("/x", b'{"a":1}', {"Accept": "text/plain"}, timeout_s)

def text(reply):
    return [reply[0], reply[1], reply[2].decode()] if isinstance(reply[0], int) else reply
"""


def in_child(code: str) -> Any:
    result = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code)], capture_output=True, text=True, timeout=120
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def test_the_request_is_what_was_asked_for_and_connections_are_reused() -> None:
    found = in_child("""
        requests = []
        def handle(sock, address):
            connections.append(address)
            file = sock.makefile("rb")
            while (request := read_request(file)) is not None:
                requests.append([part.decode() for part in request])
                sock.sendall(OK)
        transport = Transport(serve(handle), 4, {"X-API-Key": "key"})
        replies = [text(outcome(lambda: post(transport))) for _ in range(3)]
        print(json.dumps([replies, len(connections), requests[0]]))
    """)
    replies, connections, (head, body) = found
    assert replies == [[200, "text/plain", "hi"]] * 3
    assert connections == 1
    lines = head.rstrip().split("\r\n")
    assert lines[0] == "POST /x HTTP/1.1"
    assert {"X-API-Key: key", "Accept: text/plain", "Content-Type: application/json"} < set(lines)
    assert json.loads(body) == {"a": 1}


def test_connections_with_high_file_numbers_are_reused() -> None:
    requests, connections = in_child("""
        import resource
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        served = []
        def handle(sock, address):
            connections.append(address)
            file = sock.makefile("rb")
            while read_request(file) is not None:
                served.append(1)
                sock.sendall(OK)
        spare = [open("/dev/null") for _ in range(1100)]
        transport = Transport(serve(handle), 8, {})
        for _ in range(3):
            gevent.joinall([gevent.spawn(post, transport) for _ in range(8)])
        print(json.dumps([len(served), len(connections)]))
    """)
    assert (requests, connections) == (24, 8)


def test_a_poll_that_takes_too_long_is_abandoned_and_its_connection_closed() -> None:
    first, second, connections, closed = in_child("""
        closed = gevent.event.Event()
        def handle(sock, address):
            connections.append(address)
            file = sock.makefile("rb")
            if read_request(file) is not None and len(connections) == 1:
                file.read(1)          # nothing comes but the end
                closed.set()
                return
            sock.sendall(OK)
        import gevent.event
        transport = Transport(serve(handle), 1, {})
        first = outcome(lambda: post(transport, 0.05))
        second = text(outcome(lambda: post(transport)))
        print(json.dumps([first, second, len(connections), closed.wait(10)]))
    """)
    assert first[0] == "TimedOutError"
    assert second == [200, "text/plain", "hi"]
    assert (connections, closed) == (2, True)


@pytest.mark.parametrize(
    ("answer", "detail"),
    [
        (b"", "closed without an answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", "answer cut short or not HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort", "answer cut short or not HTTP"),
        (b"SSH-2.0-OpenSSH_9\r\n", "answer cut short or not HTTP"),
    ],
    ids=["nothing", "in the headers", "in the body", "not HTTP"],
)
def test_an_answer_that_is_cut_short_or_no_http_is_a_failed_connection(answer: bytes, detail: str) -> None:
    failed, then = in_child(f"""
        def handle(sock, address):
            connections.append(address)
            read_request(sock.makefile("rb"))
            sock.sendall({answer!r} if len(connections) == 1 else OK)
            sock.close()
        transport = Transport(serve(handle), 1, {{}})
        print(json.dumps([outcome(lambda: post(transport, 10.0)), text(outcome(lambda: post(transport)))]))
    """)
    assert failed == ["ConnectionFailedError", detail]
    assert then == [200, "text/plain", "hi"]


def test_a_server_that_is_not_there_is_a_failed_connection_without_its_address() -> None:
    kind, text = in_child("""
        from gevent import socket
        probe = socket.socket(); probe.bind(("127.0.0.1", 0)); port = probe.getsockname()[1]; probe.close()
        print(json.dumps(outcome(lambda: post(Transport(f"http://127.0.0.1:{port}", 1, {})))))
    """)
    assert (kind, text) == ("ConnectionFailedError", "Connection refused")


def test_an_idle_connection_that_the_server_closed_is_not_used() -> None:
    replies, connections = in_child("""
        def handle(sock, address):
            connections.append(address)
            read_request(sock.makefile("rb"))
            sock.sendall(OK)
            sock.close()
        transport = Transport(serve(handle), 1, {})
        replies = []
        for _ in range(3):
            replies.append(text(outcome(lambda: post(transport))))
            gevent.sleep(0)
        print(json.dumps([replies, len(connections)]))
    """)
    assert replies == [[200, "text/plain", "hi"]] * 3
    assert connections == 3


def test_a_target_is_gone_while_nothing_but_failures_comes() -> None:
    """Neither an answer nor an own time-out leaves it so; what this process itself runs out of says nothing of it."""
    found = in_child(
        """
        import errno
        from locustfiles import transport as module

        mode = "answer"

        def handle(sock, _):
            request = read_request(sock.makefile("rb"))
            if mode == "answer":
                sock.sendall(OK)
            elif mode == "hold":
                gevent.sleep(60)
            sock.close()

        clock = 100.0
        module.time = type("Clock", (), {"monotonic": staticmethod(lambda: clock)})
        transport = Transport(serve(handle), connections=2, headers={})
        found = []
        for mode, clock, timeout_s in [
            ("answer", 100.0, 20.0), ("close", 101.0, 20.0), ("close", 131.0, 20.0), ("hold", 140.0, 0.2),
            ("close", 150.0, 20.0), ("close", 170.0, 20.0), ("answer", 180.0, 20.0), ("close", 190.0, 20.0),
            ("close", 200.0, 20.0),
        ]:
            what = outcome(lambda: post(transport, timeout_s))[0]
            found.append([what, transport.failing_for_s])

        def no_files(*_):
            raise OSError(errno.EMFILE, "Too many open files")

        transport._pool.get_socket = no_files
        clock = 900.0
        found.append([outcome(lambda: post(transport))[0], transport.failing_for_s])
        print(json.dumps(found))
        """
    )
    failed = "ConnectionFailedError"
    assert found == [
        [200, 0.0], [failed, 0.0], [failed, 30.0], ["TimedOutError", 0.0],
        [failed, 0.0], [failed, 20.0], [200, 0.0], [failed, 0.0],
        [failed, 10.0], [failed, 10.0],
    ]  # fmt: skip
