"""The run folder's data model: what ``run.json`` holds, and the rows of its time series.

Every structure is frozen and typed. ``None`` means "was not measured"; it is never written for zero.
Times are seconds, sizes are bytes; counters are cumulative since the start of the run.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

# History of schema_version: 1 the first (what came later is none where it is missing).
SCHEMA_VERSION = 1

Verdict = Literal["pass", "fail", "invalid"]
Ended = Literal["complete", "cut", "aborted"]
MemoryConclusion = Literal["levels off at retention", "allocator keeps freed memory", "leak", "too short to say"]
LimitedBy = Literal["engine", "target", "load", "machine", "arrivals"]


class Stage(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a load that changes: a rate of arrivals or a number outstanding, one of which is not None.

    ramp: it is reached evenly from the level of the stage before.
    """

    duration_s: float
    rate_per_s: float | None = None
    outstanding: int | None = None
    ramp: bool = False

    def __str__(self) -> str:
        level = f"{self.outstanding:,} outstanding" if self.rate_per_s is None else f"{self.rate_per_s:g}/s"
        return f"{self.duration_s:g} s {'to' if self.ramp else 'at'} {level}"


class Workload(msgspec.Struct, frozen=True, kw_only=True):
    """What the load was asked to do."""

    requests: int
    max_tokens: int
    lengths: str
    prompt_tokens: int
    in_flight: int  # futures that one user (one SDK client) keeps outstanding at most
    outstanding: int  # futures outstanding at most, over all users
    users: int
    processes: int
    poll_preset: str
    protocol: str
    arrivals: str
    body_profile: str | None  # None: the engine is not ours
    seed: int
    stages: list[Stage] = []
    real_sdk_percent: int = 0  # of the futures, that the real SDK followed


class FutureCounts(msgspec.Struct, frozen=True, kw_only=True):
    """How the futures ended. submitted == delivered + failed + lost + cancelled + abandoned at the end of a run."""

    submitted: int = 0
    delivered: int = 0
    failed: int = 0
    lost: int = 0
    cancelled: int = 0
    abandoned: int = 0
    doubled: int = 0
    foreign: int = 0
    verified: int = 0


class PollCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Requests for results. total counts every poll; re_polls those after a future's first."""

    total: int = 0
    re_polls: int = 0
    timeouts: int = 0
    try_again: int = 0
    errors_by_class: dict[str, int] = {}


class ErrorExample(msgspec.Struct, frozen=True, kw_only=True):
    """One class of error (a low-cardinality name such as ``poll 503``) with its count and one example text."""

    name: str
    count: int
    example: str


class TargetSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the target's configuration; None where it is not ours to know.

    acknowledged: the load acknowledges every result that it has, and the target keeps it no longer.
    """

    url: str
    retrieved_ttl_s: float | None = None
    completed_ttl_s: float | None = None
    sweep_interval_s: float | None = None
    poll_hold_s: float | None = None
    acknowledged: bool = False


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the engine's configuration; the whole structure is absent when the engine is not ours."""

    url: str
    slots: int
    service_time: str
    body_profile: str


class InjectedFault(msgspec.Struct, frozen=True, kw_only=True):
    """How often the mock engine injected a kind of fault, and what a correct target makes of a future that meets one.

    outcome: failed, retried, delivered, or altered: delivered as the engine sent it, which is not what it should be.
    """

    kind: str
    outcome: str
    count: int


class WorkerUse(msgspec.Struct, frozen=True, kw_only=True):
    """What one process of the load used. cpu_utilisation is of one core, over the steady window or the run."""

    cpu_s: float
    cpu_utilisation: float
    lag_max_s: float  # worst delay of a greenlet that wanted to wake up at a given time
    lag_p99_s: float
    rss_peak_bytes: int


class RunEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened at one moment of a run, in a few words."""

    monotonic_s: float
    unix_s: float
    kind: Literal["fault", "restart", "engine", "drain"]
    text: str


class LoadFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the load knows of a run, handed to ``reports`` at each checkpoint and at the end.

    ended: None while the run goes on; "complete" when the count (or the run time asked for) was reached and
    drained; "aborted" when a threshold stopped it; otherwise "cut". Of both cut_reason has a sentence.
    histograms: name -> HdrHistogram in its standard compressed base64 encoding, in microseconds. Names: submit,
    work, unfetched, delivery, future; first_poll, poll, session_poll; and in open arrivals lateness.
    verification: "corpus" when every delivered result was compared with the bytes it must be, "shape" otherwise.
    engine_served_at_start: requests the engine had finished before the run, for reconciliation.
    """

    name: str
    command: str
    started_utc: str
    started_monotonic_s: float
    duration_s: float
    workload: Workload
    target: TargetSettings
    engine: EngineSettings | None
    futures: FutureCounts
    polls: PollCounts
    errors: list[ErrorExample]
    histograms: dict[str, str]
    workers: list[WorkerUse]
    verification: Literal["corpus", "shape"]
    ended: Ended | None = None
    cut_reason: str | None = None
    notes: list[str] = []
    injected: list[InjectedFault] | None = None  # None: the engine is not ours, or could not be asked
    thresholds: list[str] = []  # as they were asked for, see reports.thresholds
    events: list[RunEvent] = []


class TimelineRow(msgspec.Struct, frozen=True, kw_only=True):
    """One second of the load, a row of ``timeline.csv``. Counters are cumulative."""

    monotonic_s: float
    unix_s: float
    submitted: int
    delivered: int
    failed: int
    lost: int
    outstanding: int
    polls: int
    re_polls: int
    re_polls_timeout: int  # after the client's own time-out
    re_polls_try_again: int  # after 408 or try_again
    re_polls_error: int  # after any other answer or a failed connection
    delivered_bytes: int  # result bytes, bodies only
    load_cpu_s: float  # sum over all load processes
    load_lag_max_s: float  # worst since the previous row, over all load processes


class ResourceRow(msgspec.Struct, frozen=True, kw_only=True):
    """One sample of target, engine and machine, a row of ``resources.csv``. Empty cells are None."""

    monotonic_s: float
    unix_s: float
    target_rss_bytes: int | None = None
    target_uss_bytes: int | None = None
    target_cpu_s: float | None = None
    target_fds: int | None = None
    target_threads: int | None = None
    target_cgroup_bytes: int | None = None
    target_restarts: int | None = None  # seen by the observer, of a target that it knows by port or command line
    target_outstanding: int | None = None
    target_held_bytes: int | None = None
    target_results_served: int | None = None
    target_loop_lag_max_s: float | None = None
    canary_s: float | None = None  # a time-out is recorded as the time-out, a refused connection as None
    canary_failures: int | None = None  # time-outs, refused connections and answers other than 200
    engine_rss_bytes: int | None = None
    engine_cpu_s: float | None = None
    engine_running: int | None = None
    engine_peak_running: int | None = None
    engine_waiting: int | None = None
    engine_finished: int | None = None
    engine_slot_seconds: float | None = None
    engine_service_time_sum_s: float | None = None
    engine_service_time_count: int | None = None
    machine_cpu_utilisation: float | None = None  # all cores, 0..1, since the previous sample
    machine_available_bytes: int | None = None


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    started_utc: str
    duration_s: float
    command: str
    verdict: Verdict
    reasons: list[str]


class Throughput(msgspec.Struct, frozen=True, kw_only=True):
    """Delivered futures a second; steady_per_s over [steady_from_s, steady_to_s] since the start of the run."""

    overall_per_s: float
    steady_per_s: float | None
    engine_ceiling_per_s: float | None
    steady_from_s: float | None = None
    steady_to_s: float | None = None


class Percentiles(msgspec.Struct, frozen=True, kw_only=True):
    p50: float
    p90: float
    p99: float
    p999: float
    max: float
    count: int


class TargetUse(msgspec.Struct, frozen=True, kw_only=True):
    rss_idle_bytes: int | None = None
    rss_peak_bytes: int | None = None
    retention_predicted_bytes: int | None = None
    cpu_s: float | None = None
    cpu_s_per_result: float | None = None
    fds_peak: int | None = None
    loop_lag_max_s: float | None = None
    canary_p99_s: float | None = None
    canary_failures: int | None = None
    results_served: int | None = None


class LoadUse(msgspec.Struct, frozen=True, kw_only=True):
    cpu_s: float
    cpu_s_per_result: float | None
    cpu_utilisation: float  # of the busiest process, of one core
    lag_p99_s: float
    saturated: bool


class EngineUse(msgspec.Struct, frozen=True, kw_only=True):
    slots: int | None = None
    peak_in_flight: int | None = None
    utilisation: float | None = None
    finished: int | None = None
    cpu_s: float | None = None
    cpu_s_per_result: float | None = None


class LimitRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule of "what limited this run": whether it holds (None: not measured), and its figure in a sentence."""

    limited_by: LimitedBy
    holds: bool | None
    why: str


class Slope(msgspec.Struct, frozen=True, kw_only=True):
    """How something grows, with its 95 % interval."""

    estimate: float
    low: float
    high: float


class MemoryVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the target's memory did. conclusion: None when it was not observed, or what it has to keep is not known.

    The slopes are of what it has beyond that, in bytes, over [from_s, to_s] since the start of the run.
    """

    conclusion: MemoryConclusion | None
    why: str
    per_hour_bytes: Slope | None = None
    per_result_bytes: Slope | None = None
    from_s: float | None = None
    to_s: float | None = None


class ThresholdResult(msgspec.Struct, frozen=True, kw_only=True):
    """A threshold, whether it holds (None: not measured), and what was found, as the rest of a sentence."""

    text: str
    holds: bool | None
    found: str
    value: float | None = None


class RunDocument(msgspec.Struct, frozen=True, kw_only=True):
    """``run.json``."""

    schema_version: int
    run: RunInfo
    workload: Workload
    futures: FutureCounts
    polls: PollCounts
    throughput: Throughput
    latency_s: dict[str, Percentiles]
    target: TargetUse
    load: LoadUse
    engine: EngineUse
    limited_by: LimitedBy | None
    limited_by_why: str
    limits: list[LimitRule]
    environment: dict[str, Any]
    facts: LoadFacts
    thresholds: list[ThresholdResult] = []
    memory: MemoryVerdict | None = None
