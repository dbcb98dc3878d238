"""The quantities of a run that thresholds, comparisons and experiments speak of, by name, with dimension and source."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal, NamedTuple

from reports import formats
from reports.schema import Percentiles, RunDocument

if TYPE_CHECKING:  # the observer, which is to stay small, should not import numpy for the sake of a name
    from reports.paired import Better

Dimension = Literal["count", "rate", "time", "size", "share"]
Source = Literal["load", "schedule", "target", "engine"]  # whose own word or observation it rests on


class Quantity(NamedTuple):
    """Something measured. ``of`` takes it out of a run, in 1, 1/s, seconds, bytes or a fraction; None: not measured."""

    name: str
    dimension: Dimension
    better: Better
    source: Source
    meaning: str
    of: Callable[[RunDocument], float | None]

    @property
    def stops(self) -> bool:
        """Whether a run can be stopped for it: it says something while the run goes on, and more of it is worse."""
        return self.better == "lower" and self.name not in _AT_THE_END

    def text(self, value: float | None, beside: float | None = None) -> str:
        """A value of it for people, with its unit; exact when it would read like the other value that it is not."""
        short, unit = _TEXTS[self.dimension]
        if value is not None and beside is not None and value != beside and short(value) == short(beside):
            return f"{value:.12g}{unit}"
        return short(value)


# What is known, or right, only when a run has ended.
_AT_THE_END = frozenset({"abandoned", "rss_idle", "rss_expected", "canary_p99", "leak_per_result"})

_TEXTS: dict[Dimension, tuple[Callable[[float | None], str], str]] = {
    "count": (formats.count, ""),
    "rate": (formats.rate, "/s"),
    "time": (formats.seconds, " s"),
    "size": (formats.size, " B"),
    "share": (formats.percent, ""),
}


def nearest(name: str) -> str:
    """The end of a sentence about a name that there is not: the one that was probably meant, or all of them."""
    close = get_close_matches(name.lower(), QUANTITIES, n=1)
    return f"did you mean {close[0]}?" if close else f"there are {', '.join(QUANTITIES)}."


def _expected_rss(run: RunDocument) -> float | None:
    idle, retention = run.target.rss_idle_bytes, run.target.retention_predicted_bytes
    return None if idle is None or retention is None else idle + retention


def _leak_per_result(run: RunDocument) -> float | None:
    memory = run.memory
    if memory is None or memory.per_result_bytes is None:
        return None
    return memory.per_result_bytes.estimate if memory.conclusion == "leak" else 0.0


def _counts() -> list[Quantity]:
    meanings = {
        "submitted": "futures submitted",
        "delivered": "futures delivered",
        "verified": "results compared with what they must be, and found right",
        "failed": "futures that the target failed, or the client gave up",
        "lost": "futures that the target no longer knew",
        "cancelled": "futures cancelled by the client",
        "abandoned": "futures outstanding when the run ended",
        "doubled": "futures that ended twice, or two under one id",
        "foreign": "futures that got another one's result",
    }
    more = ("submitted", "delivered", "verified")

    def of(name: str) -> Callable[[RunDocument], float | None]:
        return lambda run: getattr(run.futures, name)

    return [
        Quantity(name, "count", "higher" if name in more else "lower", "load", meaning, of(name))
        for name, meaning in meanings.items()
    ]


def _latencies() -> list[Quantity]:
    phases: dict[str, tuple[Source, str]] = {
        "future": ("load", "latency from submit to result"),
        "future_sdk": ("load", "latency from submit to result of the futures that the real SDK followed"),
        "submit": ("load", "latency of a submit"),
        "work": ("load", "from the accepted submit until the result was ready, if the target tells"),
        "unfetched": ("load", "from the ready result until it was polled for, if the target tells"),
        "delivery": ("load", "from the first byte of a result's answer to its last"),
        "first_poll": ("load", "latency of a future's first poll"),
        "poll": ("load", "latency of a poll"),
        "session_poll": (
            "load",
            "latency of a poll for all futures of a session, which the target holds until one has ended",
        ),
        "lateness": ("schedule", "from a future's intended start to its submit"),
    }
    points = {"p50": "median", "p90": "90th percentile", "p99": "99th percentile", "p999": "99.9th percentile"}

    def of(phase: str, point: str) -> Callable[[RunDocument], float | None]:
        def value(run: RunDocument) -> float | None:
            figures: Percentiles | None = run.latency_s.get(phase)
            return None if figures is None else getattr(figures, point)

        return value

    return [
        Quantity(f"{phase}_{point}", "time", "lower", source, f"{of_what}, {what}", of(phase, point))
        for phase, (source, of_what) in phases.items()
        for point, what in {**points, "max": "slowest"}.items()
    ]


_OTHERS = [
    Quantity("polls", "count", "lower", "load", "requests for results", lambda run: run.polls.total),
    Quantity("re_polls", "count", "lower", "load", "polls after a future's first", lambda run: run.polls.re_polls),
    Quantity("timeouts", "count", "lower", "load", "polls that the client gave up", lambda run: run.polls.timeouts),
    Quantity(
        "errors",
        "count",
        "lower",
        "load",
        "requests that ended in an error",
        lambda run: sum(run.polls.errors_by_class.values()),
    ),
    Quantity("duration", "time", "lower", "load", "length of the run", lambda run: run.run.duration_s),
    Quantity(
        "throughput",
        "rate",
        "higher",
        "load",
        "futures delivered a second, in the steady window",
        lambda run: run.throughput.steady_per_s,
    ),
    Quantity(
        "throughput_overall",
        "rate",
        "higher",
        "load",
        "futures delivered a second, over the whole run",
        lambda run: run.throughput.overall_per_s,
    ),
    Quantity("load_cpu", "time", "lower", "load", "the load's CPU a result", lambda run: run.load.cpu_s_per_result),
    Quantity(
        "load_lag_p99", "time", "lower", "load", "how late the load's wake-ups were", lambda run: run.load.lag_p99_s
    ),
    Quantity(
        "rss_idle", "size", "lower", "target", "the target's RSS before the run", lambda run: run.target.rss_idle_bytes
    ),
    Quantity("rss_peak", "size", "lower", "target", "the target's largest RSS", lambda run: run.target.rss_peak_bytes),
    Quantity("rss_expected", "size", "lower", "target", "rss_idle plus the predicted retention", _expected_rss),
    Quantity(
        "leak_per_result",
        "size",
        "lower",
        "target",
        "memory that the target lost with each result, 0 when the memory verdict is another one than leak",
        _leak_per_result,
    ),
    Quantity(
        "target_cpu", "time", "lower", "target", "the target's CPU a result", lambda run: run.target.cpu_s_per_result
    ),
    Quantity(
        "fds_peak", "count", "lower", "target", "the target's open files, at most", lambda run: run.target.fds_peak
    ),
    Quantity(
        "loop_lag_max",
        "time",
        "lower",
        "target",
        "how late the target's event loop ran at worst",
        lambda run: run.target.loop_lag_max_s,
    ),
    Quantity(
        "canary_p99",
        "time",
        "lower",
        "target",
        "a trivial request beside the load, 99th percentile",
        lambda run: run.target.canary_p99_s,
    ),
    Quantity(
        "canary_failures",
        "count",
        "lower",
        "target",
        "trivial requests that failed",
        lambda run: run.target.canary_failures,
    ),
    Quantity(
        "engine_ceiling",
        "rate",
        "higher",
        "engine",
        "slots / mean service time",
        lambda run: run.throughput.engine_ceiling_per_s,
    ),
    Quantity(
        "engine_utilisation",
        "share",
        "higher",
        "engine",
        "occupied part of the slots' time",
        lambda run: run.engine.utilisation,
    ),
    Quantity(
        "engine_cpu", "time", "lower", "engine", "the engine's CPU a result", lambda run: run.engine.cpu_s_per_result
    ),
]

QUANTITIES: dict[str, Quantity] = {quantity.name: quantity for quantity in [*_counts(), *_latencies(), *_OTHERS]}
