"""Paired rounds: against scipy's bootstrap, on simulated rounds of a known effect, and the rules by table."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from reports.paired import Interval, compare, noise_floor

VALUES = st.floats(1e-3, 1e6)
ROUNDS = st.lists(st.tuples(VALUES, VALUES), min_size=2, max_size=30)


def simulated(
    random: np.random.Generator, rounds: int, effect: float, noise: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """A baseline, the same again, and an arm of that effect: the rounds drift by far more than the arms differ."""
    drift = random.lognormal(1.0, 0.5, rounds)
    first, second, third = drift * random.lognormal(0.0, noise, (3, rounds))
    return first, second, effect * third


def test_a_table_worked_out_by_hand() -> None:
    found = compare([10, 20, 40], [5, 18, 8], None)
    assert (found.rounds, found.baseline_median, found.median, found.won) == (3, 20, 8, 3)
    assert found.ratio == 0.5
    assert found.reduction_percent == 50
    assert found.interval == (0.2, 0.9)


@pytest.mark.parametrize("rounds", [5, 9, 10, 31])
def test_the_interval_is_that_of_scipy(rounds: int) -> None:
    random = np.random.default_rng(rounds)
    baseline, _, arm = simulated(random, rounds, 0.8, 0.1)
    expected = stats.bootstrap(
        (baseline, arm),
        lambda below, above, axis: np.median(above / below, axis=axis),
        paired=True,
        vectorized=True,
        method="percentile",
        confidence_level=0.95,
        n_resamples=20_000,
        rng=random,
    ).confidence_interval
    found = compare(list(baseline), list(arm), None)
    assert found.interval == pytest.approx((expected.low, expected.high), rel=5e-3)


def test_the_interval_encloses_the_true_effect_as_often_as_it_says() -> None:
    random = np.random.default_rng(20)
    trials = 1000
    enclosed = 0
    for trial in range(trials):
        baseline, _, arm = simulated(random, 9, 0.9, 0.05)
        low, high = compare(list(baseline), list(arm), None, seed=trial).interval
        enclosed += low <= 0.9 <= high
    # Of nine rounds, the second to the eighth ratio enclose the median with 1 - 20 / 512; three standard errors around.
    expected = 1 - 20 / 512
    assert enclosed / trials == pytest.approx(expected, abs=3 * math.sqrt(expected * (1 - expected) / trials))


def test_no_effect_is_seldom_detected_and_a_large_one_always() -> None:
    random = np.random.default_rng(21)
    findings: dict[float, list[str]] = {1.0: [], 0.7: [], 1.3: []}
    for effect, found in findings.items():
        for trial in range(200):
            baseline, again, arm = simulated(random, 9, effect, 0.05)
            floor = noise_floor(list(baseline), list(again), trial)
            found.append(compare(list(baseline), list(arm), floor, seed=trial).finding)
    assert findings[1.0].count("not detectable") >= 0.95 * 200
    assert set(findings[0.7]) == {"lower"}
    assert set(findings[1.3]) == {"higher"}


@pytest.mark.parametrize(
    ("arm", "floor", "finding"),
    [
        (0.8, None, "lower"),
        (1.25, None, "higher"),
        (1.0, None, "not detectable"),
        (0.8, Interval(0.9, 1.1), "lower"),
        (0.8, Interval(0.8, 1.1), "not detectable"),
        (1.2, Interval(0.9, 1.1), "higher"),
        (1.05, Interval(0.9, 1.1), "not detectable"),
        (1.0, Interval(1.01, 1.1), "not detectable"),  # a floor that missed 1
        (0.97, Interval(0.9, 0.95), "not detectable"),  # between the floor and 1
    ],
)
def test_what_overlaps_the_noise_floor_is_not_detectable(arm: float, floor: Interval | None, finding: str) -> None:
    assert compare([1, 1, 1], [arm, arm, arm], floor).finding == finding


def test_rounds_won_depend_on_which_way_is_better() -> None:
    baseline, arm = [1.0, 1.0, 1.0, 1.0], [0.5, 1.0, 2.0, 0.9]
    assert compare(baseline, arm, None, "lower").won == 2
    assert compare(baseline, arm, None, "higher").won == 1


@given(rounds=ROUNDS)
def test_the_interval_encloses_its_median_and_stays_within_the_ratios(rounds: list[tuple[float, float]]) -> None:
    baseline, arm = zip(*rounds, strict=True)
    found = compare(baseline, arm, None)
    ratios = [above / below for below, above in rounds]
    assert min(ratios) <= found.interval.low <= found.ratio <= found.interval.high <= max(ratios)


@given(rounds=ROUNDS, exponent=st.integers(-20, 20))
def test_the_unit_does_not_matter(rounds: list[tuple[float, float]], exponent: int) -> None:
    baseline, arm = zip(*rounds, strict=True)
    scaled = [[math.ldexp(value, exponent) for value in values] for values in (baseline, arm)]
    found, of_scaled = compare(baseline, arm, None), compare(scaled[0], scaled[1], None)
    assert (of_scaled.ratio, of_scaled.interval, of_scaled.finding) == (found.ratio, found.interval, found.finding)


@given(rounds=ROUNDS, seed=st.integers(0, 2**32))
def test_the_same_seed_gives_the_same_interval(rounds: list[tuple[float, float]], seed: int) -> None:
    baseline, arm = zip(*rounds, strict=True)
    assert compare(baseline, arm, None, seed=seed) == compare(baseline, arm, None, seed=seed)


@pytest.mark.parametrize(
    ("baseline", "arm", "message"),
    [
        ([1, 2], [1], "have 2 and 1"),
        ([1], [1], "two rounds or more"),
        ([], [], "two rounds or more"),
        ([1, 0], [1, 1], "above zero"),
        ([1, 1], [1, -1], "above zero"),
        ([1, 1], [1, math.nan], "above zero"),
        ([1, math.inf], [1, 1], "above zero"),
    ],
)
def test_rounds_that_cannot_be_compared_are_refused(baseline: list[float], arm: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compare(baseline, arm, None)
