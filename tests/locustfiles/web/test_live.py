"""The figures of a run as people watch it."""

from __future__ import annotations

import argparse
import gc
import tracemalloc

import pytest

from locustfiles.controller import Tick
from locustfiles.options import add_arguments
from locustfiles.settings import Settings, settings_from
from locustfiles.web.history import LIMIT
from locustfiles.web.live import LiveRun
from reports.schema import ResourceRow, TimelineRow


def settings(*args: str) -> Settings:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    options: argparse.Namespace = parser.parse_args(args)
    for name in ("host", "processes", "expect_workers", "num_users"):
        setattr(options, name, None)
    return settings_from(options)


def tick(second: int, rate: int = 10, **resource: float) -> Tick:
    """``rate`` results of 100 bytes a second."""
    cells = dict.fromkeys(TimelineRow.__struct_fields__, 0)
    cells |= {"delivered": rate * second, "delivered_bytes": 100 * rate * second, "outstanding": 50, "lost": 1}
    row = TimelineRow(**cells | {"monotonic_s": 1000 + second})
    seen = ResourceRow(monotonic_s=1000.0 + second, unix_s=0.0, **resource)  # type: ignore[arg-type]
    return Tick(None, row, row.monotonic_s - 0.2, seen, [])


def figures(live: LiveRun) -> dict[str, tuple[str, str]]:
    return {figure.figure: (figure.value, figure.remark) for figure in live.figures()}


def test_the_figures_of_this_second() -> None:
    live = LiveRun(settings("--requests", "1001", "--outstanding", "50", "--slots", "8", "--retrieved-ttl", "20s"))
    assert live.figures() == []
    for second in range(41):
        live.add(
            tick(second, target_rss_bytes=1_000_000, target_cpu_s=0.5 * second, engine_running=6, engine_waiting=3)
        )
    shown = figures(live)
    assert shown["delivered"][0] == "400 of 1,001"
    assert shown["rate"][0] == "10.0/s"
    assert shown["time left"][0] == "1 min 00 s"  # 600 of them
    assert shown["outstanding"] == ("50", "50 at most")
    assert shown["server CPU"][0] == "0.50 cores"
    assert shown["engine occupancy"] == ("75.0 %", "6 of 8 slots, 3 waiting")
    # Of 20 s and one sweep of 1 s: 210 results of 100 bytes, on top of the 1 MB at rest.
    assert shown["retention predicted"] == ("21 kB", "with 1 MB at rest: 1 MB")
    assert live.history.columns()["expected_bytes"][-1] == 1_021_000
    assert {name: live.history.columns()[name][-1] for name in ("t_s", "reported_s", "seen_s")} == {
        "t_s": 40.0,
        "reported_s": 39.8,
        "seen_s": 40.0,
    }


@pytest.mark.parametrize(
    ("run_time_s", "rate", "left"),
    [
        (None, 10, ("1 min 00 s", "at this rate")),
        (3600.0, 10, ("1 min 00 s", "at this rate")),
        (70.0, 10, ("30 s", "of the run time")),
        (70.0, 0, ("30 s", "of the run time")),  # nothing comes
        (30.0, 10, ("0 s", "of the run time")),  # it drains
        (None, 0, ("–", "at this rate")),
    ],
)
def test_the_time_left_ends_with_the_count_or_the_run_time(
    run_time_s: float | None, rate: int, left: tuple[str, str]
) -> None:
    live = LiveRun(settings("--requests", "1001"), run_time_s)
    for second in range(41):
        live.add(tick(second, rate))
    assert figures(live)["time left"] == left


def test_a_server_that_was_started_anew_has_no_negative_rate() -> None:
    live = LiveRun(settings())
    for second in range(5):
        live.add(tick(second, target_cpu_s=100.0 if second < 4 else 0.1))
    assert figures(live)["server CPU"][0] == "–"


def test_the_lag_that_was_said_last_stays_while_a_server_is_late_with_the_next_and_no_longer() -> None:
    live = LiveRun(settings())
    for second in range(3):
        live.add(tick(second, target_loop_lag_max_s=0.04))
    live.add(tick(3))
    assert figures(live)["loop lag"][0] == "40 ms"
    for second in range(4, 20):
        live.add(tick(second))
    assert figures(live)["loop lag"][0] == "–"


@pytest.mark.parametrize("ttl", ["10s", "24h"])
def test_a_day_takes_bounded_memory(ttl: str) -> None:
    live = LiveRun(settings("--retrieved-ttl", ttl))

    def day(start: int) -> int:
        for second in range(start, start + 86_400, 60):
            live.add(tick(second, target_rss_bytes=1))
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        first = day(0)
        assert day(86_400) < 1.5 * first
    finally:
        tracemalloc.stop()
    assert len(live.history) <= LIMIT
