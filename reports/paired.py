"""Arms measured side by side in the same rounds: how one differs from the other, and whether that can be told. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

Better = Literal["lower", "higher"]
Finding = Literal["lower", "higher", "not detectable"]

# As many as scipy.stats.bootstrap takes: the ends of the interval then wander by less than they mean.
_RESAMPLES = 9_999
_CONFIDENCE = 0.95


class Interval(NamedTuple):
    """Both ends belong to it."""

    low: float
    high: float

    def overlaps(self, other: Interval) -> bool:
        return self.low <= other.high and other.low <= self.high


class Paired(msgspec.Struct, frozen=True, kw_only=True):
    """An arm beside its baseline. ``ratio`` is the median over the rounds of arm / baseline, with its 95 % interval.

    The ratio of the two medians is another figure: it compares rounds that did not run side by side.
    """

    rounds: int
    baseline_median: float
    median: float
    ratio: float
    interval: Interval
    won: int  # rounds in which the arm was better than its baseline; a tie is not won
    finding: Finding

    @property
    def reduction_percent(self) -> float:
        """How much less than the baseline; below zero when the arm has more."""
        return 100 * (1 - self.ratio)


def noise_floor(baseline: Sequence[float], again: Sequence[float], seed: int = 0) -> Interval:
    """The 95 % interval of the ratio of an arm to itself, measured as two arms (A/A): what means no difference."""
    return median_interval(_ratios(baseline, again), seed)


def compare(
    baseline: Sequence[float], arm: Sequence[float], floor: Interval | None, better: Better = "lower", seed: int = 0
) -> Paired:
    """Compare two arms; ``baseline[i]`` and ``arm[i]`` were measured in the same round, in one unit, and are above 0.

    A difference is detectable when its interval lies outside both the noise floor and 1, so a floor that missed 1 by
    chance cannot make a difference out of none. Without a floor (None) it is 1 alone. Raises ValueError.
    """
    ratios = _ratios(baseline, arm)
    interval = median_interval(ratios, seed)
    nothing = Interval(1.0, 1.0) if floor is None else Interval(min(floor.low, 1.0), max(floor.high, 1.0))
    return Paired(
        rounds=len(ratios),
        baseline_median=float(np.median(baseline)),
        median=float(np.median(arm)),
        ratio=float(np.median(ratios)),
        interval=interval,
        won=int(np.count_nonzero(ratios < 1 if better == "lower" else ratios > 1)),
        finding="not detectable" if interval.overlaps(nothing) else "lower" if interval.high < 1 else "higher",
    )


def _ratios(baseline: ArrayLike, arm: ArrayLike) -> NDArray[np.float64]:
    below, above = np.asarray(baseline, dtype=np.float64), np.asarray(arm, dtype=np.float64)
    if below.shape != above.shape or below.ndim != 1:
        raise ValueError(f"paired arms need a value each in every round, but have {below.size} and {above.size}.")
    if below.size < 2:
        raise ValueError(f"an interval needs two rounds or more, but there are {below.size}.")
    if not (np.isfinite(below) & np.isfinite(above) & (below > 0) & (above > 0)).all():
        raise ValueError("ratios need values above zero in every round.")
    ratios: NDArray[np.float64] = above / below
    return ratios


def median_interval(values: ArrayLike, seed: int = 0) -> Interval:
    """The 95 % interval of the median of a value for each round: ratios of both arms, or of one arm alone.

    By the percentile bootstrap (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 13): rounds are
    drawn again, and the same seed gives the same interval. With fewer than six rounds even the smallest and the largest
    value enclose the true one less often than 95 times in 100 (1 - 0.5 ** (n - 1)).
    """
    of_rounds = np.asarray(values, dtype=np.float64)
    drawn = np.random.default_rng(seed).integers(len(of_rounds), size=(_RESAMPLES, len(of_rounds)))
    tail = (1 - _CONFIDENCE) / 2
    low, high = np.quantile(np.median(of_rounds[drawn], axis=1), [tail, 1 - tail])
    return Interval(float(low), float(high))
