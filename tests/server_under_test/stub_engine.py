"""An engine that answers as it is told to, for tests: plain threads, sockets and the standard library."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = Callable[[BaseHTTPRequestHandler, dict[str, Any]], None]


def completion(document: dict[str, Any]) -> dict[str, Any]:
    """An answer of vLLM's form: choice i has max_tokens tokens, all of them the request's seed plus i."""
    size, seed = document.get("max_tokens", 16), document.get("seed", 0)
    choices = [
        {
            "index": index,
            "text": "",
            "logprobs": {"token_logprobs": [-0.25 * (index + 1)] * size},
            "finish_reason": "length",
            "token_ids": [seed + index] * size,
            "prompt_logprobs": [None, *({str(token): {"logprob": -token}} for token in document["prompt"][1:])],
        }
        for index in range(document.get("n", 1))
    ]
    return {"id": "cmpl-1", "object": "text_completion", "choices": choices}


def send(handler: BaseHTTPRequestHandler, status: int, body: bytes, content_type: str = "application/json") -> None:
    handler.send_response(status)
    handler.send_header("Content-Type", content_type)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def right(handler: BaseHTTPRequestHandler, document: dict[str, Any]) -> None:
    send(handler, 200, json.dumps(completion(document)).encode())


class StubEngine(ThreadingHTTPServer):
    """answer: what to do with a request; requests: the bodies that came."""

    request_queue_size = 256

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests: list[dict[str, Any]] = []
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: Any) -> None:
        """A client that goes away is what some tests are about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: StubEngine

    def do_POST(self) -> None:
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(document)
        self.server.answer(self, document)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def stub_engine(answer: Answer = right) -> Iterator[StubEngine]:
    engine = StubEngine(answer)
    thread = threading.Thread(target=engine.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield engine
    finally:
        engine.shutdown()
        engine.socket.close()
        thread.join()


def drop_connection(handler: BaseHTTPRequestHandler) -> None:
    """Close the connection without another byte."""
    handler.close_connection = True
    handler.connection.shutdown(socket.SHUT_RDWR)


@contextmanager
def held_engine() -> Iterator[tuple[StubEngine, threading.Event]]:
    """An engine that answers when the event is set."""
    release = threading.Event()

    def answer(handler: BaseHTTPRequestHandler, document: dict[str, Any]) -> None:
        release.wait(30)
        right(handler, document)

    with stub_engine(answer) as engine:
        try:
            yield engine, release
        finally:
            release.set()
