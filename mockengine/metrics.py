"""What the engine counts, as Prometheus text: vLLM's metric names where vLLM has one, ``mockengine_`` otherwise."""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from mockengine.admission import Admission

# vLLM's own buckets for request latencies (vllm/v1/metrics/loggers.py).
_LATENCY_BUCKETS_S = (
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0, 960.0,
)  # fmt: skip


class Metrics:
    """The counters of one engine. The registry holds nothing else: a process collector would list all open files."""

    def __init__(self, model: str, admission: Admission) -> None:
        self._registry = CollectorRegistry()
        self._model = model
        self._admission = admission

        def counter(name: str, text: str) -> Counter:
            return Counter(name, text, ["model_name"], registry=self._registry).labels(model)

        def gauge(name: str, text: str) -> Gauge:
            return Gauge(name, text, ["model_name"], registry=self._registry).labels(model)

        def histogram(name: str, text: str) -> Histogram:
            labels = ["model_name"]
            return Histogram(name, text, labels, registry=self._registry, buckets=_LATENCY_BUCKETS_S).labels(model)

        gauge("vllm:num_requests_running", "Requests in a slot.").set_function(lambda: admission.running)
        gauge("vllm:num_requests_waiting", "Requests in the queue.").set_function(lambda: admission.waiting)
        self.prompt_tokens = counter("vllm:prompt_tokens", "Prompt tokens of finished requests.")
        self.generation_tokens = counter("vllm:generation_tokens", "Tokens sent.")
        self.queue_time_s = histogram("vllm:request_queue_time_seconds", "Time in the queue.")
        self.inference_time_s = histogram("vllm:request_inference_time_seconds", "Time in a slot.")
        self.finished = Counter(
            "vllm:request_success", "Finished requests.", ["model_name", "finished_reason"], registry=self._registry
        ).labels(model, "length")
        self.disconnects = counter("mockengine_disconnects", "Requests whose client went away before the answer.")
        drawn = "mockengine_service_time_drawn_seconds"
        self.service_time_drawn_s = Histogram(
            drawn, "Service times drawn by the model.", registry=self._registry, buckets=_LATENCY_BUCKETS_S
        )
        Gauge("mockengine_slots", "Requests served at once.", registry=self._registry).set(admission.slots)
        Gauge("mockengine_peak_running", "Most requests in slots so far.", registry=self._registry).set_function(
            lambda: admission.peak_running
        )
        self._slot_seconds = Counter(
            "mockengine_slot_seconds", "Integral of occupied slots over time.", registry=self._registry
        )
        self._slot_seconds_shown = 0.0

    def text(self) -> bytes:
        """Everything, in the Prometheus text format."""
        slot_seconds = self._admission.slot_seconds(time.monotonic())
        self._slot_seconds.inc(slot_seconds - self._slot_seconds_shown)
        self._slot_seconds_shown = slot_seconds
        return generate_latest(self._registry)

    def summary(self) -> str:
        """One sentence on all that was served, and on the most that slots and service times would have let through."""

        def value(name: str, **labels: str) -> float:
            return self._registry.get_sample_value(name, labels) or 0.0

        finished = value("vllm:request_success_total", model_name=self._model, finished_reason="length")
        gone = value("mockengine_disconnects_total", model_name=self._model)
        admitted = value("mockengine_service_time_drawn_seconds_count")
        drawn_s = value("mockengine_service_time_drawn_seconds_sum")
        slots, peak = self._admission.slots, self._admission.peak_running
        ceiling = f", a ceiling of {slots * admitted / drawn_s:.1f} requests/s" if drawn_s else ""
        mean_s = drawn_s / admitted if admitted else 0.0
        return (
            f"{finished:.0f} requests finished and {gone:.0f} clients went away; at most {peak} of {slots} slots were "
            f"occupied; the mean service time was {mean_s:.3g} s{ceiling}."
        )
