"""Runs made up for the tests: the facts of a small one, and a simulated main job."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hdrh.histogram import HdrHistogram

from reports.schema import (
    EngineSettings,
    ErrorExample,
    FutureCounts,
    LoadFacts,
    PollCounts,
    ResourceRow,
    TargetSettings,
    TimelineRow,
    WorkerUse,
    Workload,
)

Run = tuple[LoadFacts, list[TimelineRow], list[ResourceRow]]

STARTED_S = 5000.0  # of the monotonic clock
UNIX_S = 1.75e9


def histogram(seconds: list[float]) -> str:
    recorded = HdrHistogram(1, 3_600_000_000, 3)
    for value in seconds:
        recorded.record_value(int(value * 1e6))
    return recorded.encode().decode()


FACTS = LoadFacts(
    name="small",
    command="locust -f locustfiles/soak.py --headless --requests 1000",
    started_utc="2026-01-02T03:04:05Z",
    started_monotonic_s=STARTED_S,
    duration_s=20.0,
    workload=Workload(
        requests=1000,
        max_tokens=512,
        lengths="fixed",
        prompt_tokens=16,
        in_flight=100,
        outstanding=100,
        users=1,
        processes=1,
        poll_preset="sdk",
        protocol="tinker",
        arrivals="closed",
        body_profile="seed-equivalent",
        seed=0,
    ),
    target=TargetSettings(url="http://127.0.0.1:8001", retrieved_ttl_s=300.0, sweep_interval_s=1.0),
    engine=EngineSettings(
        url="http://127.0.0.1:8000", slots=50, service_time="fixed:1s", body_profile="seed-equivalent"
    ),
    futures=FutureCounts(submitted=1000, delivered=1000, verified=1000),
    polls=PollCounts(total=1010, re_polls=10, timeouts=10),
    errors=[],
    histograms={"submit": histogram([0.001, 0.002, 0.003])},
    workers=[WorkerUse(cpu_s=5.0, cpu_utilisation=0.25, lag_max_s=0.02, lag_p99_s=0.01, rss_peak_bytes=10**8)],
    verification="corpus",
    ended="complete",
)


@pytest.fixture
def make_facts() -> Callable[..., LoadFacts]:
    """The facts of a small run in which all went well, with some of them replaced."""

    def make(**changes: Any) -> LoadFacts:
        return msgspec.structs.replace(FACTS, **changes)

    return make


@pytest.fixture
def make_row() -> Callable[..., TimelineRow]:
    """A row of the timeline at ``at`` seconds of the run, all of its counters zero but those given."""

    def make(at: float, **counters: float) -> TimelineRow:
        cells = dict.fromkeys(TimelineRow.__struct_fields__, 0) | counters
        return msgspec.convert(
            cells | {"monotonic_s": STARTED_S + at, "unix_s": UNIX_S + at}, TimelineRow, strict=False
        )

    return make


@pytest.fixture
def make_sample() -> Callable[..., ResourceRow]:
    """A row of resources.csv at ``at`` seconds of the run, with the given cells."""

    def make(at: float, **cells: Any) -> ResourceRow:
        return ResourceRow(monotonic_s=STARTED_S + at, unix_s=UNIX_S + at, **cells)

    return make


@pytest.fixture
def main_job() -> Run:
    """131,072 futures through 2,048 slots of 5 s, 17,000 outstanding, results of 90 kB kept for 300 s."""
    return simulate(131_072, 17_000, 2048, 5.0, 90_000, ttl_s=300.0)


def simulate(
    requests: int, most_outstanding: int, slots: int, service_s: float, result_bytes: int, ttl_s: float
) -> Run:
    """A run second by second, made noisy by a seeded generator."""
    chance = random.Random(1)
    submitted = delivered = polls = timeouts = 0
    slot_s = machine_s = target_cpu = engine_cpu = load_cpu = 0.0
    history: list[int] = []
    timeline, resources = [], [_sample(-1.0, 0, 0, 0, 0, slots, 0.0, 0.0, 0.0, chance, 0)]
    second = 0
    while delivered < requests:
        submit = min(2500, requests - submitted, most_outstanding - (submitted - delivered))
        submitted += submit
        running = min(slots, submitted - delivered)
        done = 0 if second < service_s / 2 else min(round(chance.gauss(running / service_s, 12)), submitted - delivered)
        done = max(done, min(running, 25)) if second > service_s else done
        delivered += done
        waited_out = round(0.008 * max(0, submitted - delivered - slots) / 3) if second > 45 else 0
        timeouts += waited_out
        polls += submit + waited_out
        slot_s += running
        target_cpu += done * 0.00175 + 0.02
        engine_cpu += done * 0.0006 + 0.01
        load_cpu += done * 0.0008 + submit * 0.0001 + 0.01
        history.append(delivered)
        kept = delivered - (history[int(second - ttl_s)] if second > ttl_s else 0)
        timeline.append(
            TimelineRow(
                monotonic_s=STARTED_S + second + 1,
                unix_s=UNIX_S + second + 1,
                submitted=submitted,
                delivered=delivered,
                failed=0,
                lost=0,
                outstanding=submitted - delivered,
                polls=polls,
                re_polls=timeouts,
                re_polls_timeout=timeouts,
                re_polls_try_again=0,
                re_polls_error=0,
                delivered_bytes=delivered * result_bytes,
                load_cpu_s=load_cpu,
                load_lag_max_s=0.004 + chance.expovariate(200),
            )
        )
        machine_s += 1
        resources.append(
            _sample(
                second + 1.2,
                submitted - delivered,
                kept * result_bytes,
                delivered,
                running,
                slots,
                slot_s,
                target_cpu,
                engine_cpu,
                chance,
                round(slot_s / service_s),
            )
        )
        second += 1
    facts = msgspec.structs.replace(
        FACTS,
        name="main-job",
        command="locust -f locustfiles/soak.py --headless --requests 131072 --max-tokens 8192 --in-flight 17000",
        duration_s=float(second),
        workload=msgspec.structs.replace(
            FACTS.workload, requests=requests, max_tokens=8192, in_flight=17_000, outstanding=most_outstanding
        ),
        engine=EngineSettings(
            url="http://127.0.0.1:8000",
            slots=slots,
            service_time="lognormal:mean=5s,cv=0.8,max=20s",
            body_profile="seed-equivalent",
        ),
        futures=FutureCounts(submitted=requests, delivered=requests, verified=requests),
        polls=PollCounts(
            total=polls, re_polls=timeouts, timeouts=timeouts, errors_by_class={"poll connection reset": 3}
        ),
        errors=[ErrorExample(name="poll connection reset", count=3, example="[Errno 104] Connection reset by peer")],
        histograms={
            "submit": histogram([0.002 + chance.expovariate(400) for _ in range(5000)]),
            "work": histogram([5 + chance.expovariate(1) for _ in range(5000)]),
            "unfetched": histogram([chance.expovariate(4) for _ in range(5000)]),
            "delivery": histogram([chance.expovariate(900) for _ in range(5000)]),
            "first_poll": histogram([min(45.0, 36 + chance.lognormvariate(1.4, 0.7)) for _ in range(5000)]),
            "session_poll": histogram([min(30.0, chance.expovariate(2)) for _ in range(500)]),
            "poll": histogram([min(45.0, chance.lognormvariate(3.4, 0.5)) for _ in range(6000)]),
            "future": histogram([36 + chance.lognormvariate(1.4, 0.7) for _ in range(5000)]),
        },
        workers=[
            WorkerUse(cpu_s=load_cpu, cpu_utilisation=0.36, lag_max_s=0.12, lag_p99_s=0.018, rss_peak_bytes=6 * 10**8)
        ],
    )
    return facts, timeline, resources


def _sample(
    at: float,
    outstanding: int,
    held: int,
    delivered: int,
    running: int,
    slots: int,
    slot_s: float,
    target_cpu: float,
    engine_cpu: float,
    chance: random.Random,
    drawn: int,
) -> ResourceRow:
    return ResourceRow(
        monotonic_s=STARTED_S + at,
        unix_s=UNIX_S + at,
        target_rss_bytes=int(95e6 + 1.12 * held + 12_000 * outstanding),
        target_uss_bytes=int(90e6 + 1.12 * held) if int(at) % 30 == 0 else None,
        target_cpu_s=target_cpu,
        target_fds=30 + outstanding + running,
        target_threads=3,
        target_outstanding=outstanding,
        target_held_bytes=held,
        target_results_served=delivered,
        target_loop_lag_max_s=0.006 + chance.expovariate(80),
        canary_s=0.003 + chance.expovariate(150),
        canary_failures=0,
        engine_rss_bytes=int(210e6),
        engine_cpu_s=engine_cpu,
        engine_running=running,
        engine_peak_running=min(slots, running),
        engine_waiting=max(0, outstanding - running),
        engine_finished=delivered,
        engine_slot_seconds=slot_s,
        engine_service_time_sum_s=drawn * 5.0,
        engine_service_time_count=drawn,
        machine_cpu_utilisation=min(0.99, 0.72 + chance.gauss(0, 0.04)) if running else 0.03,
        machine_available_bytes=int(22e9 - 1.12 * held),
    )
