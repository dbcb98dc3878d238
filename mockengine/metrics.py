"""What the engine counts, as Prometheus text: vLLM's metric names where vLLM has one, ``mockengine_`` otherwise.

Every sample is a sum, so that several workers' samples add up to those of one engine.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from mockengine.admission import Admission
from mockengine.faults import KINDS, Plan

# vLLM's own buckets for request latencies (vllm/v1/metrics/loggers.py).
_LATENCY_BUCKETS_S = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
)  # fmt: skip

disable_created_metrics()  # type: ignore[no-untyped-call]  # times of day do not add up


class Metrics:
    """The counters of one engine. The registry holds nothing else: a process collector would list all open files."""

    def __init__(self, model: str, admission: Admission, plan: Plan) -> None:
        self._registry = CollectorRegistry()
        self._model = model
        self._admission = admission
        self._first_request_s: float | None = None

        def counter(name: str, text: str) -> Counter:
            return Counter(name, text, ["model_name"], registry=self._registry).labels(model)

        def gauge(name: str, text: str, value: Callable[[], float]) -> None:
            Gauge(name, text, ["model_name"], registry=self._registry).labels(model).set_function(value)

        def histogram(name: str, text: str) -> Histogram:
            labels = ["model_name"]
            return Histogram(name, text, labels, registry=self._registry, buckets=_LATENCY_BUCKETS_S).labels(model)

        gauge("vllm:num_requests_running", "Requests in a slot.", lambda: admission.running)
        gauge("vllm:num_requests_waiting", "Requests in the queue.", lambda: admission.waiting)
        self.prompt_tokens = counter("vllm:prompt_tokens", "Prompt tokens of finished requests.")
        self.generation_tokens = counter("vllm:generation_tokens", "Tokens sent.")
        self.queue_time_s = histogram("vllm:request_queue_time_seconds", "Time in the queue.")
        self.inference_time_s = histogram("vllm:request_inference_time_seconds", "Time in a slot.")
        finished = ["model_name", "finished_reason"]
        finished_counter = Counter("vllm:request_success", "Finished requests.", finished, registry=self._registry)
        self.finished = {reason: finished_counter.labels(model, reason) for reason in ("stop", "length")}
        self.disconnects = counter("mockengine_disconnects", "Requests whose client went away before the answer.")
        self.refused = counter("mockengine_refused", "Requests that found the queue full.")
        drawn = "mockengine_service_time_drawn_seconds"
        self.service_time_drawn_s = Histogram(
            drawn, "Service times drawn by the model.", registry=self._registry, buckets=_LATENCY_BUCKETS_S
        )
        for name, text, value in (
            ("mockengine_slots", "Requests served at once.", lambda: admission.slots),
            ("mockengine_peak_running", "Most requests in slots so far.", lambda: admission.peak_running),
            (
                "mockengine_ceiling_requests_per_second",
                "The most that slots and the service times drawn let through; +Inf while they are all 0.",
                self._ceiling,
            ),
        ):
            Gauge(name, text, registry=self._registry).set_function(value)
        self._registry.register(_SlotSeconds(self._slot_seconds))
        self._registry.register(_FaultsInjected(plan))

    def request_arrived(self) -> None:
        """Occupancy is counted from the first one on."""
        if self._first_request_s is None:
            self._first_request_s = time.monotonic()

    def finished_so_far(self) -> dict[str, float]:
        """Finished requests by reason, for ``resume`` in another process."""
        return {
            reason: self._registry.get_sample_value(
                "vllm:request_success_total", {"model_name": self._model, "finished_reason": reason}
            )
            or 0.0
            for reason in self.finished
        }

    def resume(self, finished: Mapping[str, float]) -> None:
        """Count on from there."""
        for reason, count in finished.items():
            self.finished[reason].inc(count)

    def text(self) -> bytes:
        """Everything, in the Prometheus text format."""
        return generate_latest(self._registry)

    def _ceiling(self) -> float:
        drawn_s = self._registry.get_sample_value("mockengine_service_time_drawn_seconds_sum") or 0.0
        count = self._registry.get_sample_value("mockengine_service_time_drawn_seconds_count") or 0.0
        return ceiling_per_s(self._admission.slots, count, drawn_s)

    def _slot_seconds(self) -> tuple[float, float]:
        now = time.monotonic()
        since_first_s = 0.0 if self._first_request_s is None else now - self._first_request_s
        return self._admission.slot_seconds(now), self._admission.slots * since_first_s


class _SlotSeconds(Collector):
    def __init__(self, occupied_and_offered: Callable[[], tuple[float, float]]) -> None:
        self._occupied_and_offered = occupied_and_offered

    def collect(self) -> Iterable[CounterMetricFamily]:
        occupied_s, offered_s = self._occupied_and_offered()
        yield CounterMetricFamily("mockengine_slot_seconds", "Integral of occupied slots over time.", value=occupied_s)
        yield CounterMetricFamily(
            "mockengine_slot_seconds_offered",
            "Integral of all slots over time, since the first request; the occupancy is the ratio of the two.",
            value=offered_s,
        )


class _FaultsInjected(Collector):
    def __init__(self, plan: Plan) -> None:
        self._plan = plan

    def collect(self) -> Iterable[CounterMetricFamily]:
        family = CounterMetricFamily(
            "mockengine_faults_injected",
            "Faults injected, and what a correct server must make of a future that meets one.",
            labels=["kind", "outcome"],
        )
        for kind, count in self._plan.injected.items():
            family.add_metric([kind, KINDS[kind].outcome], count)
        yield family


def ceiling_per_s(slots: float, drawn: float, drawn_s: float) -> float:
    """Requests a second that slots let through when ``drawn`` service times sum up to drawn_s."""
    return slots * drawn / drawn_s if drawn_s else math.inf


Samples = Mapping[tuple[str, tuple[tuple[str, str], ...]], float]


def summary(samples: Samples) -> str:
    """A few sentences on all that was served, what the slots would have let through, and the faults by kind.

    samples: name and sorted labels -> value, of one engine or summed over its workers.
    """

    def total(wanted: str) -> float:
        return sum(value for (name, _), value in samples.items() if name == wanted)

    slots, drawn = total("mockengine_slots"), total("mockengine_service_time_drawn_seconds_count")
    drawn_s = total("mockengine_service_time_drawn_seconds_sum")
    ceiling = f", a ceiling of {ceiling_per_s(slots, drawn, drawn_s):.1f} requests/s" if drawn_s else ""
    offered_s = total("mockengine_slot_seconds_offered_total")
    occupancy = total("mockengine_slot_seconds_total") / offered_s if offered_s else 0.0
    refused = total("mockengine_refused_total")
    faults = ", ".join(
        f"{value:.0f} {dict(labels)['kind']}"
        for (name, labels), value in sorted(samples.items())
        if name == "mockengine_faults_injected_total"
    )
    sentences = [
        f"{total('vllm:request_success_total'):.0f} requests finished and {total('mockengine_disconnects_total'):.0f} "
        f"clients went away; at most {total('mockengine_peak_running'):.0f} of {slots:.0f} slots were occupied, "
        f"{occupancy:.1%} on average; the mean service time was {drawn_s / drawn if drawn else 0.0:.3g} s{ceiling}."
    ]
    if refused:
        sentences.append(f"{refused:.0f} requests found the queue full.")
    if faults:
        sentences.append(f"Faults injected: {faults}.")
    return " ".join(sentences)
