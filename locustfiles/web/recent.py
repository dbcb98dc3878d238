"""Percentiles of what was recorded lately, out of histograms that only grow."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from locustfiles.measures import summed

WINDOW = 10  # calls, which are a second apart


class RecentPercentiles:
    """Of the values that were added to cumulative histograms within the last ``window`` calls."""

    def __init__(self, percentiles: Sequence[float], window: int = WINDOW) -> None:
        self._percentiles = percentiles
        self._earlier: deque[NDArray[np.int64]] = deque(maxlen=window)

    def of(self, encoded: Iterable[str]) -> list[float | None]:
        """In seconds; encoded: every worker's histogram as it is now, in microseconds. None where nothing ended."""
        with summed(encoded) as histogram:
            counts = np.array(histogram.encoder.payload.counts, dtype=np.int64)
            if not self._earlier:
                self._earlier.append(np.zeros_like(counts))
            recent = counts - self._earlier[0]
            self._earlier.append(counts)
            up_to = np.cumsum(np.maximum(recent, 0))
            total = int(up_to[-1])
            if total == 0:
                return [None] * len(self._percentiles)
            places = np.searchsorted(up_to, [max(1.0, total * percentile / 100) for percentile in self._percentiles])
            return [histogram.get_value_from_index(int(place)) / 1e6 for place in places]
