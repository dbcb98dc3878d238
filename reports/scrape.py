"""Questions to a server over HTTP, asked beside the sampling so that a slow answer does not hold it up."""

from __future__ import annotations

import http.client
import math
import threading
import time
from collections.abc import Callable, Mapping
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import urlsplit

from prometheus_client.parser import text_string_to_metric_families

from reports.schema import InjectedFault

Answer = TypeVar("Answer")

TIMEOUT_S = 5.0

# Metric name -> field of ResourceRow. A metric that the server does not have leaves its cell empty.
TARGET_METRICS = {
    "server_outstanding_futures": "target_outstanding",
    "server_held_bytes": "target_held_bytes",
    "server_results_served_total": "target_results_served",
    "server_event_loop_lag_max_seconds": "target_loop_lag_max_s",
}
ENGINE_METRICS = {
    "vllm:num_requests_running": "engine_running",
    "mockengine_peak_running": "engine_peak_running",
    "vllm:num_requests_waiting": "engine_waiting",
    "vllm:request_success_total": "engine_finished",
    "mockengine_slot_seconds_total": "engine_slot_seconds",
    "mockengine_service_time_drawn_seconds_sum": "engine_service_time_sum_s",
    "mockengine_service_time_drawn_seconds_count": "engine_service_time_count",
}
_INJECTED = "mockengine_faults_injected_total{"


def parse_metrics(text: str, wanted: Mapping[str, str]) -> dict[str, float]:
    """Field -> value, summed over labels, of the wanted metrics that a Prometheus text has. NaN is no value.

    Only their lines are parsed: a real engine's page has a thousand others, which would cost 20 ms a second.
    """
    names = tuple(wanted)
    lines = "".join(line for line in text.splitlines(keepends=True) if line.startswith(names))
    totals: dict[str, float] = {}
    for family in text_string_to_metric_families(lines):
        for sample in family.samples:
            field = wanted.get(sample.name)
            if field is not None and math.isfinite(sample.value):
                totals[field] = totals.get(field, 0.0) + sample.value
    return totals


def injected_faults(url: str) -> list[InjectedFault] | None:
    """What the mock engine counts at its Prometheus page; None when it does not answer."""
    try:
        status, body = _get(url)
    except (OSError, http.client.HTTPException):
        return None
    return parse_injected(body.decode()) if status == 200 else None


def parse_injected(text: str) -> list[InjectedFault]:
    lines = "".join(line for line in text.splitlines(keepends=True) if line.startswith(_INJECTED))
    return [
        InjectedFault(kind=sample.labels["kind"], outcome=sample.labels["outcome"], count=round(sample.value))
        for family in text_string_to_metric_families(lines)
        for sample in family.samples
    ]


def scrape(url: str, wanted: Mapping[str, str]) -> dict[str, float]:
    """The wanted metrics of a server; none when it does not answer, or not with metrics."""
    try:
        status, body = _get(url)
        return parse_metrics(body.decode(), wanted) if status == 200 else {}
    except (OSError, http.client.HTTPException, ValueError):
        return {}


class Canary(NamedTuple):
    """How long a small request took. A time-out counts as the time-out; None when there was no connection at all."""

    seconds: float | None
    failed: bool


def canary(url: str) -> Canary:
    """Ask for a page that a healthy server answers at once, over a connection of its own."""
    began = time.monotonic()
    try:
        status, _ = _get(url)
    except TimeoutError:
        return Canary(TIMEOUT_S, failed=True)
    except (OSError, http.client.HTTPException):
        return Canary(None, failed=True)
    return Canary(time.monotonic() - began, failed=status != 200)


def _get(url: str) -> tuple[int, bytes]:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.netloc, timeout=TIMEOUT_S)
    try:
        path = parts.path or "/"
        connection.request("GET", f"{path}?{parts.query}" if parts.query else path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


class Question(Generic[Answer]):
    """One question at a time, asked in a thread."""

    def __init__(self, ask: Callable[[], Answer]) -> None:
        self._ask = ask
        self._thread: threading.Thread | None = None
        self._answer: Answer | None = None

    def begin(self) -> bool:
        """Ask, unless an earlier answer is still awaited; whether it was asked now."""
        if self._thread is not None:
            return False
        self._answer = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return True

    def answer_by(self, deadline_s: float) -> Answer | None:
        """The answer, if it comes before this moment of the monotonic clock."""
        if self._thread is None:
            return None
        self._thread.join(max(deadline_s - time.monotonic(), 0.0))
        if self._thread.is_alive():
            return None
        self._thread = None
        return self._answer

    def _run(self) -> None:
        self._answer = self._ask()
