"""What the server counts, as Prometheus text. A registry of our own: a process collector would list all open files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from server_under_test.collecting import Scope
from server_under_test.forwarder import Forwarder
from server_under_test.loop_lag import LagMonitor
from server_under_test.store import FutureStore

LAG_BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Metrics:
    """waiting_polls: how many polls are held; whoever holds one counts it."""

    def __init__(self, store: FutureStore, forwarder: Forwarder) -> None:
        self.waiting_polls = 0
        self._registry = CollectorRegistry()
        lag = Histogram(
            "server_event_loop_lag_seconds",
            "How long due timers waited for the event loop.",
            registry=self._registry,
            buckets=LAG_BUCKETS_S,
        )
        self.lag_monitor = LagMonitor(lag.observe)
        self.trim_s = Histogram(
            "server_heap_trim_seconds",
            "How long it took to give freed memory back.",
            registry=self._registry,
            buckets=LAG_BUCKETS_S,
        )
        self._collections_s = Histogram(
            "server_garbage_collection_seconds",
            "How long passes of the garbage collector took, by what they looked at.",
            labelnames=["scope"],
            registry=self._registry,
            buckets=LAG_BUCKETS_S,
        )
        for scope in get_args(Scope):
            self._collections_s.labels(scope)  # from the beginning, not from the first pass
        self._garbage = Counter(
            "server_garbage_collected_objects", "Objects that the garbage collector freed.", registry=self._registry
        )
        self.results_served = Counter("server_results_served", "Complete deliveries.", registry=self._registry)
        self.result_bytes_served = Counter(
            "server_results_served_bytes", "Bytes of complete deliveries.", registry=self._registry
        )
        self._registry.register(_State(store, forwarder, self.lag_monitor, lambda: self.waiting_polls))

    def garbage_collected(self, scope: Scope, seconds: float, objects: int) -> None:
        """One pass of the garbage collector."""
        self._collections_s.labels(scope).observe(seconds)
        self._garbage.inc(objects)

    def text(self) -> bytes:
        """Everything, in the Prometheus text format."""
        return generate_latest(self._registry)


class _State(Collector):
    """Figures that store, forwarder and lag monitor keep themselves, read when somebody asks."""

    def __init__(
        self, store: FutureStore, forwarder: Forwarder, lag_monitor: LagMonitor, waiting_polls: Callable[[], int]
    ) -> None:
        self._waiting_polls = waiting_polls
        self._store = store
        self._forwarder = forwarder
        self._lag_monitor = lag_monitor

    def collect(self) -> Iterator[Metric]:
        store, forwarder = self._store, self._forwarder
        yield GaugeMetricFamily("server_outstanding_futures", "Futures not ended.", value=store.outstanding)
        yield GaugeMetricFamily("server_waiting_polls", "Polls held.", value=self._waiting_polls())
        yield GaugeMetricFamily("server_held_bytes", "Bytes of results held.", value=store.held_bytes)
        yield GaugeMetricFamily("server_engine_requests", "Requests at the engine.", value=forwarder.running)
        yield GaugeMetricFamily("server_engine_queue", "Futures waiting for the engine.", value=forwarder.waiting)
        yield GaugeMetricFamily(
            "server_event_loop_lag_max_seconds",
            "Worst event-loop lag of the last 5 seconds.",
            value=self._lag_monitor.recent_max(),
        )
        yield CounterMetricFamily("server_results_expired", "Results dropped after their time.", value=store.expired)
        yield CounterMetricFamily(
            "server_results_acknowledged", "Results dropped because their client had them.", value=store.acknowledged
        )
        ends = CounterMetricFamily("server_futures", "Futures that ended, by how.", labels=["end"])
        ends.add_metric(["ready"], store.ready)
        ends.add_metric(["failed"], store.failed)
        yield ends
        retries = CounterMetricFamily(
            "server_engine_retries", "Requests sent to the engine again, by why.", labels=["reason"]
        )
        for reason, count in forwarder.retries.items():
            retries.add_metric([reason], count)
        yield retries
