"""What limited a run, on runs made to be limited by each."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reports.limits import Utilisation, is_saturated, limit_rules, utilisation
from reports.schema import LoadUse, ResourceRow
from reports.steady import Window

RELAXED = Utilisation(engine=0.5, target_cores=0.5, target_lag_s=0.01, machine=0.5, engine_waiting=20)


def load(saturated: bool) -> LoadUse:
    return LoadUse(cpu_s=1.0, cpu_s_per_result=None, cpu_utilisation=0.5, lag_p99_s=0.01, saturated=saturated)


@pytest.mark.parametrize(
    ("use", "saturated", "limited_by"),
    [
        (RELAXED, False, "arrivals"),
        (RELAXED, True, "load"),
        (RELAXED._replace(engine=0.97), False, "engine"),
        (RELAXED._replace(engine=0.97, engine_waiting=None), False, "engine"),
        (RELAXED._replace(engine=0.97, engine_waiting=0), False, "arrivals"),  # full, and nobody waits
        (RELAXED._replace(target_cores=0.93), False, "target"),
        (RELAXED._replace(target_lag_s=0.3), False, "target"),
        (RELAXED._replace(target_lag_s=None), False, "arrivals"),
        (RELAXED._replace(machine=0.96), False, "machine"),
        (RELAXED._replace(engine=0.97, target_cores=0.93, machine=0.99), False, "engine"),
        (RELAXED._replace(engine=0.97), True, "load"),
        (RELAXED._replace(target_cores=0.93, machine=0.99), False, "target"),
        (RELAXED._replace(engine=None), False, None),
        (RELAXED._replace(engine=None, target_cores=0.93), False, "target"),
        (Utilisation(*[None] * 5), False, None),
    ],
)
def test_the_first_rule_that_holds(use: Utilisation, saturated: bool, limited_by: str | None) -> None:
    rules = limit_rules(load(saturated), use, "closed")
    assert [rule.limited_by for rule in rules] == ["load", "engine", "target", "machine", "arrivals"]
    assert next((rule.limited_by for rule in rules if rule.holds), None) == limited_by


@pytest.mark.parametrize(
    ("cpu", "lag_s", "saturated"), [(0.9, 0.25, False), (0.91, 0.0, True), (0.0, 0.26, True), (0.0, 0.0, False)]
)
def test_saturation(cpu: float, lag_s: float, saturated: bool) -> None:
    assert is_saturated(cpu, lag_s) is saturated


def test_utilisation_is_that_of_the_window(make_sample: Callable[..., ResourceRow]) -> None:
    """A busy minute between two idle ones."""
    samples = []
    slot_s = cpu_s = 0.0
    for second in range(181):
        busy = 60 <= second < 120
        cells = {
            "engine_waiting": 30 * busy,
            "machine_cpu_utilisation": 0.7 if 60 <= second <= 120 else 0.0,
            "target_loop_lag_max_s": 0.2 * busy,
        }
        samples.append(make_sample(second, engine_slot_seconds=slot_s, target_cpu_s=cpu_s, **cells))
        slot_s += 9.0 * busy
        cpu_s += 0.6 * busy
    start = samples[0].monotonic_s
    use = utilisation(samples, Window(start + 60, start + 120), slots=10)
    assert use == pytest.approx((0.9, 0.6, 0.2, 0.7, 30))
    assert utilisation(samples, Window(start + 60, start + 120), slots=None).engine is None
    assert utilisation([], Window(start, start + 60), slots=10) == (None,) * 5
