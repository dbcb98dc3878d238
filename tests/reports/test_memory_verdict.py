"""The memory verdict on servers made up: what each keeps, loses and gives back is known."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reports.memory_verdict import memory_verdict
from reports.schema import LoadFacts, MemoryVerdict, ResourceRow, TimelineRow
from tests.reports.conftest import FACTS, STARTED_S

IDLE = 100_000_000
RATE = 50  # results a second
SIZE = 20_000  # bytes of one
TTL_S, SWEEP_S = 60, 1


class Server(NamedTuple):
    """Its memory: what a kept byte takes, what each result loses, what the allocator never gives back."""

    per_byte: float = 1.1
    leaked: float = 0.0
    highest: bool = False  # RSS never falls
    warm_up: float = 0.0  # bytes, most of them taken early
    outstanding: Callable[[int], int] = lambda second: 200
    per_future: float = 10_000.0
    noise: float = 300_000.0


def judged(
    server: Server,
    load_s: int,
    settle_s: int = 0,
    rate: Callable[[int], float] = lambda second: RATE,
    **target: Any,
) -> MemoryVerdict:
    noise = random.Random(load_s)
    delivered = [0.0]
    for second in range(load_s + settle_s):
        delivered.append(delivered[-1] + (rate(second) if second < load_s else 0))
    timeline, resources = [], []
    highest = 0.0
    kept_s = TTL_S + SWEEP_S
    for second, total in enumerate(delivered):
        outstanding = server.outstanding(second) if second < load_s else 0
        cells = dict.fromkeys(TimelineRow.__struct_fields__, 0) | {
            "monotonic_s": STARTED_S + second,
            "delivered": int(total),
            "delivered_bytes": int(total) * SIZE,
            "outstanding": outstanding,
        }
        timeline.append(TimelineRow(**cells))
        kept = (total - delivered[max(0, second - kept_s)]) * SIZE
        warm = server.warm_up * (1 - 0.97 ** (second))
        rss = IDLE + server.per_byte * kept + server.per_future * outstanding + server.leaked * total + warm
        highest = max(highest, rss)
        seen = highest if server.highest else rss
        resources.append(
            ResourceRow(
                monotonic_s=STARTED_S + second + 0.3,
                unix_s=0.0,
                target_rss_bytes=int(seen + noise.gauss(0, server.noise)),
            )
        )
    settings = msgspec.structs.replace(FACTS.target, **{"retrieved_ttl_s": TTL_S, "sweep_interval_s": SWEEP_S} | target)
    facts = msgspec.structs.replace(FACTS, target=settings, duration_s=float(load_s))
    return memory_verdict(facts, timeline, resources, None, IDLE)


@pytest.mark.parametrize(
    ("server", "load_s", "settle_s", "conclusion"),
    [
        (Server(), 600, 0, "levels off at retention"),
        (Server(), 600, 120, "levels off at retention"),
        (Server(per_byte=1.0), 600, 0, "levels off at retention"),
        (Server(leaked=2_000), 600, 0, "leak"),
        (Server(leaked=2_000), 600, 120, "leak"),
        (Server(leaked=2_000, highest=True), 600, 120, "leak"),
        (Server(highest=True), 600, 120, "allocator keeps freed memory"),
        (Server(warm_up=30e6), 1200, 0, "levels off at retention"),
        # It grows for two thirds of a run that is short, and slows down.
        (Server(warm_up=400e6), 240, 0, "allocator keeps freed memory"),
        # So little in all, 15 MB, as an allocator may wander by.
        (Server(leaked=500), 600, 0, "levels off at retention"),
        (Server(leaked=700), 600, 0, "leak"),
        # Twice as much as two bounds allow, from an early peak.
        (Server(warm_up=200e6), 1200, 0, "allocator keeps freed memory"),
        # More and more outstanding is no leak, though memory grows with them.
        (Server(outstanding=lambda second: 10 * second, per_future=20_000), 600, 0, "levels off at retention"),
        (Server(), 182, 0, "too short to say"),
        (Server(leaked=50_000), 182, 300, "too short to say"),
        (Server(), 0, 0, "too short to say"),
    ],
)
def test_each_server_is_recognised(server: Server, load_s: int, settle_s: int, conclusion: str) -> None:
    verdict = judged(server, load_s, settle_s)
    assert verdict.conclusion == conclusion, verdict.why


def test_three_lifetimes_are_enough() -> None:
    assert judged(Server(), 3 * (TTL_S + SWEEP_S) + 1).conclusion == "levels off at retention"
    assert judged(Server(), 3 * (TTL_S + SWEEP_S) + 1, acknowledged=True).conclusion is not None


def test_judged_is_what_follows_the_first_lifetime_until_the_last_delivery() -> None:
    verdict = judged(Server(), 600, 120)
    assert (verdict.from_s, verdict.to_s) == (1 + TTL_S + SWEEP_S, 600)


def test_a_rate_that_changes_is_no_leak_and_hides_none() -> None:
    """Retention doubles in the middle of the run; an average would take that for growth."""

    def doubled(second: int) -> float:
        return RATE if second < 600 else 2 * RATE

    assert judged(Server(), 1200, rate=doubled).conclusion == "levels off at retention"
    assert judged(Server(leaked=20_000), 1200, rate=doubled).conclusion == "leak"


@given(
    leaked=st.integers(1_500, 50_000),
    rate=st.integers(20, 200),
    highest=st.booleans(),
    settle_s=st.sampled_from([0, 150]),
)
@settings(max_examples=25, deadline=None)
def test_what_a_leak_loses_is_measured(leaked: int, rate: int, highest: bool, settle_s: int) -> None:
    verdict = judged(Server(leaked=leaked, highest=highest), 900, settle_s, lambda second: rate)
    assert verdict.conclusion == "leak"
    assert verdict.per_result_bytes is not None
    assert verdict.per_hour_bytes is not None
    assert verdict.per_result_bytes.estimate == pytest.approx(leaked, rel=0.1, abs=150)
    assert verdict.per_hour_bytes.estimate == pytest.approx(verdict.per_result_bytes.estimate * rate * 3600, rel=0.05)
    assert verdict.per_result_bytes.low <= verdict.per_result_bytes.estimate <= verdict.per_result_bytes.high


def test_what_grew_and_was_given_back_is_no_leak() -> None:
    server = Server(outstanding=lambda second: 10 * second, per_future=200_000)  # beyond any bound, yet not lost
    assert judged(server, 600).conclusion == "leak"
    assert judged(server, 600, 120).conclusion == "levels off at retention"


def test_without_the_time_to_live_or_samples_nothing_is_said(make_facts: Callable[..., LoadFacts]) -> None:
    verdict = judged(Server(), 600, retrieved_ttl_s=None)
    assert verdict.conclusion is None
    assert "--retrieved-ttl" in verdict.why
    assert memory_verdict(make_facts(), [], [], None, None).conclusion is None
