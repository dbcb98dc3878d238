"""A slope that outliers do not move, with its interval: P. K. Sen, Journal of the American Statistical Association 63,
1968. Some lines of numpy, checked against scipy in the tests; scipy itself would add 110 MB to an installation."""

from __future__ import annotations

import numpy as np

from reports.schema import Slope
from reports.series import Column

# Two-sided 95 % of the normal distribution.
_Z = 1.959963984540054


def theil_sen(x: Column, y: Column) -> Slope | None:
    """The median of the slopes between all pairs, in units of y per unit of x, and its 95 % interval.

    The interval comes from the distribution of Kendall's tau, corrected for ties of either. None for fewer than three
    points, or when x never changes.
    """
    first, second = np.triu_indices(len(x), k=1)
    steps = x[second] - x[first]
    apart = steps != 0
    slopes = np.sort((y[second] - y[first])[apart] / steps[apart])
    if len(x) < 3 or not slopes.size:
        return None
    reach = _Z * np.sqrt(max(_variance(len(x)) - _tied(x) - _tied(y), 0.0))
    low = max(int(np.round((slopes.size - reach) / 2)) - 1, 0)
    high = min(int(np.round((slopes.size + reach) / 2)), slopes.size - 1)
    return Slope(estimate=float(np.median(slopes)), low=float(slopes[low]), high=float(slopes[high]))


def _variance(count: int) -> float:
    """Of Kendall's number of concordant less discordant pairs among so many points, under no trend."""
    return count * (count - 1) * (2 * count + 5) / 18


def _tied(values: Column) -> float:
    """What groups of equal values take off that variance."""
    _, sizes = np.unique(values, return_counts=True)
    return float(sum(_variance(int(size)) for size in sizes))
