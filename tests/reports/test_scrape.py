"""Metrics pages as prometheus_client writes them, and servers that do not answer as they should."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from reports import scrape
from reports.scrape import Canary, Question, parse_metrics


@contextmanager
def answering(answer: bytes | None) -> Iterator[str]:
    """A server that answers one request with these bytes, or never when they are None."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            if answer is not None:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/page"
        thread.join()


def refusing() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}/page"


def test_only_the_wanted_metrics_are_read_and_labels_are_summed() -> None:
    registry = CollectorRegistry()
    finished = Counter("vllm:request_success", "", ["model_name", "finished_reason"], registry=registry)
    finished.labels('a "quoted" } name', "length").inc(3)
    finished.labels("b", "stop").inc(4)
    Gauge("vllm:num_requests_running", "", registry=registry).set(2048)
    Gauge("vllm:num_requests_running_elsewhere", "", registry=registry).set(1)
    Histogram("drawn_seconds", "", registry=registry).observe(2.5)
    wanted = {
        "vllm:request_success_total": "finished",
        "vllm:num_requests_running": "running",
        "drawn_seconds_sum": "sum",
        "drawn_seconds_count": "count",
        "absent": "absent",
    }
    text = generate_latest(registry).decode()
    assert parse_metrics(text, wanted) == {"finished": 7, "running": 2048, "sum": 2.5, "count": 1}


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 404 Not Found\r\n\r\nwanted 1\n",
        b"HTTP/1.1 200 OK\r\n\r\nwanted one\n",
        b"HTTP/1.1 200 OK\r\n\r\n\xff\xfe",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nwanted 1\n",
        b"no HTTP\r\n\r\n",
        b"",
    ],
)
def test_a_page_that_is_no_metrics_page_gives_nothing(answer: bytes) -> None:
    with answering(answer) as url:
        assert scrape.scrape(url, {"wanted": "wanted"}) == {}


def test_a_metrics_page() -> None:
    with answering(b"HTTP/1.1 200 OK\r\n\r\nwanted 1\n") as url:
        assert scrape.scrape(url, {"wanted": "wanted"}) == {"wanted": 1.0}
    assert scrape.scrape(refusing(), {"wanted": "wanted"}) == {}


@pytest.mark.parametrize(("status", "failed"), [("200 OK", False), ("503 Service Unavailable", True)])
def test_a_canary_is_timed_and_fails_unless_200(status: str, failed: bool) -> None:
    with answering(f"HTTP/1.1 {status}\r\n\r\n".encode()) as url:
        answer = scrape.canary(url)
    assert answer.failed is failed
    assert answer.seconds is not None


def test_a_canary_without_a_connection_has_no_time() -> None:
    assert scrape.canary(refusing()) == Canary(None, failed=True)


def test_a_canary_that_times_out_took_that_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scrape, "TIMEOUT_S", 0.05)
    with answering(None) as url:
        assert scrape.canary(url) == Canary(0.05, failed=True)


def test_a_late_answer_is_taken_with_the_next_sample() -> None:
    released = threading.Event()
    asked: list[int] = []

    def ask() -> str:
        asked.append(1)
        released.wait()
        return "answer"

    question = Question(ask)
    assert question.begin()
    assert question.answer_by(time.monotonic()) is None
    assert not question.begin()  # still the same one
    released.set()
    assert question.answer_by(time.monotonic() + 60) == "answer"
    assert question.answer_by(time.monotonic() + 60) is None
    assert len(asked) == 1
