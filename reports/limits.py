"""What limited this run: the rules, in the order in which they are asked, and the figures that they look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from reports import formats
from reports.schema import LimitRule, LoadUse, ResourceRow
from reports.series import Column, column, growth, within
from reports.steady import Window

# One process of the load is one thread. From 0.9 of a core on, work waits for its turn about ten times as long as it
# takes (1 / (1 - 0.9), the M/M/1 queue), and latencies contain that wait.
SATURATED_UTILISATION = 0.9
# A greenlet that wakes up this late adds as much to the latency it measures, which is felt like the target's own lag
# (TARGET_LAG_S). Less than that comes about without saturation: a hundred bodies of 262 KB that are there at the same
# moment are 0.13 s of work for a process that is otherwise half idle.
SATURATED_LAG_S = 0.25

# Handing a slot from one request to the next takes a moment, so a full engine stays a little below 1.
ENGINE_FULL = 0.95
# The target is one process with one event loop, so one core is all that it can use.
TARGET_BUSY_CORES = 0.9
# The loop was this late in every other sample's worst case: long enough to be felt in every answer.
TARGET_LAG_S = 0.25
# Interrupts and sampling leave a few per cent idle on a machine that has nothing left to give.
MACHINE_BUSY = 0.95


class Utilisation(NamedTuple):
    """How busy each part was over a window; None is what was not measured."""

    engine: float | None  # occupied share of the slots
    target_cores: float | None
    target_lag_s: float | None  # the median of the samples' worst loop lags
    machine: float | None  # busy share of all cores
    engine_waiting: float | None  # the median of the requests that wait for a slot, in the engine or before it


def is_saturated(cpu_utilisation: float, lag_p99_s: float) -> bool:
    return cpu_utilisation > SATURATED_UTILISATION or lag_p99_s > SATURATED_LAG_S


def saturation(cpu_utilisation: float, lag_p99_s: float) -> str:
    return (
        f"its busiest process used {cpu_utilisation:.2f} of a core (saturated: {SATURATED_UTILISATION:.2f}), "
        f"and 1 in 100 wake-ups was {1000 * lag_p99_s:.0f} ms late or more (saturated: {1000 * SATURATED_LAG_S:.0f} ms)"
    )


def utilisation(resources: Sequence[ResourceRow], window: Window, slots: int | None) -> Utilisation:
    """The figures over a window. ``slots`` is None for an engine that is not ours."""
    times = column(resources, "monotonic_s")

    def rate(name: str) -> float | None:
        grown = growth(times, column(resources, name), *window)
        return grown[0] / grown[1] if grown else None

    def samples(name: str) -> Column:
        return within(times, column(resources, name), *window)

    occupied = rate("engine_slot_seconds")
    lags = samples("target_loop_lag_max_s")
    machine = samples("machine_cpu_utilisation")
    waiting = within(times, _waiting_for_a_slot(resources), *window)
    return Utilisation(
        engine=occupied / slots if occupied is not None and slots else None,
        target_cores=rate("target_cpu_s"),
        target_lag_s=float(np.median(lags)) if lags.size else None,
        machine=float(machine.mean()) if machine.size else None,
        engine_waiting=float(np.median(waiting)) if waiting.size else None,
    )


def _waiting_for_a_slot(resources: Sequence[ResourceRow]) -> Column:
    """Those in the engine's queue, or those pending at the target, which may hold back what there is no slot for."""
    pending = column(resources, "target_outstanding") - column(resources, "engine_running")
    return np.fmax(column(resources, "engine_waiting"), pending)


def limit_rules(load: LoadUse, use: Utilisation, arrivals: str) -> list[LimitRule]:
    """Every rule with its figure, in order; the first that holds names what limited the run.

    The load comes first, because nothing can be said of the rest when it was saturated. The engine comes before the
    target: a full engine that others wait for is the intended limit, however busy the target is. Arrivals hold when
    nothing else does, and everything else was measured.
    """
    load_figures = saturation(load.cpu_utilisation, load.lag_p99_s)
    rules = [
        LimitRule(limited_by="load", holds=load.saturated, why=f"{formats.capital(load_figures)}."),
        _engine(use.engine, use.engine_waiting),
        _target(use.target_cores, use.target_lag_s),
        _machine(use.machine),
    ]
    return [*rules, _arrivals(rules, arrivals)]


def _engine(utilisation: float | None, waiting: float | None) -> LimitRule:
    if utilisation is None:
        return LimitRule(limited_by="engine", holds=None, why="Its occupied slots were not measured.")
    why = f"{100 * utilisation:.1f} % of its slot time was occupied (full: {100 * ENGINE_FULL:.0f} %)."
    if waiting is not None:
        why += f" Typically {waiting:,.0f} waited for a slot (it is the limit when any do)."
    holds = utilisation >= ENGINE_FULL and (waiting is None or waiting >= 1)
    return LimitRule(limited_by="engine", holds=holds, why=why)


def _target(cores: float | None, lag_s: float | None) -> LimitRule:
    if cores is None:
        return LimitRule(limited_by="target", holds=None, why="Its CPU was not measured.")
    stalled = lag_s is not None and lag_s >= TARGET_LAG_S
    lag = "was not measured" if lag_s is None else f"was {1000 * lag_s:.0f} ms (stalled: {1000 * TARGET_LAG_S:.0f} ms)"
    why = f"It used {cores:.2f} cores (busy: {TARGET_BUSY_CORES:.2f}). Its event loop's worst lag, typically, {lag}."
    return LimitRule(limited_by="target", holds=cores >= TARGET_BUSY_CORES or stalled, why=why)


def _machine(utilisation: float | None) -> LimitRule:
    if utilisation is None:
        return LimitRule(limited_by="machine", holds=None, why="Its CPU was not measured.")
    why = f"{100 * utilisation:.0f} % of all its cores was in use (full: {100 * MACHINE_BUSY:.0f} %)."
    return LimitRule(limited_by="machine", holds=utilisation >= MACHINE_BUSY, why=why)


def _arrivals(others: list[LimitRule], arrivals: str) -> LimitRule:
    if any(rule.holds for rule in others):
        return LimitRule(limited_by="arrivals", holds=False, why="Something else was at its limit.")
    if any(rule.holds is None for rule in others):
        return LimitRule(limited_by="arrivals", holds=None, why="Cannot be told, as not all else was measured.")
    asked = "keeps a number of futures outstanding" if arrivals == "closed" else f"has {arrivals} arrivals"
    why = f"Nothing else was at its limit: the load, which {asked}, asked for no more."
    return LimitRule(limited_by="arrivals", holds=True, why=why)
