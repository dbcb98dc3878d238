"""Latency percentiles out of HdrHistograms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hdrh.histogram import HdrHistogram

from reports.schema import Percentiles

_MICROSECOND = 1e-6


@contextmanager
def decoded(encoded: str) -> Iterator[HdrHistogram]:
    """The histogram, for as long as the context lasts.

    A histogram and its encoder hold each other, so that its 200 kB would stay until the garbage collector comes, which
    in a load process it seldom does: here they let go.
    """
    histogram = HdrHistogram.decode(encoded)
    try:
        yield histogram
    finally:
        histogram.encoder = None


def percentiles(encoded: str) -> Percentiles | None:
    """The figures of one histogram in seconds, None when it is empty.

    ``encoded`` is the standard compressed base64 form, with values in microseconds.
    """
    with decoded(encoded) as histogram:
        count = histogram.get_total_count()
        if not count:
            return None
        at = histogram.get_percentile_to_value_dict([50, 90, 99, 99.9])
        return Percentiles(
            p50=at[50] * _MICROSECOND,
            p90=at[90] * _MICROSECOND,
            p99=at[99] * _MICROSECOND,
            p999=at[99.9] * _MICROSECOND,
            max=histogram.get_max_value() * _MICROSECOND,
            count=count,
        )


def curve(encoded: str, at_percent: Sequence[float]) -> list[tuple[float, float]]:
    """(percentile, seconds) for each of the percentiles that the number of values still resolves."""
    with decoded(encoded) as histogram:
        count = histogram.get_total_count()
        resolved = [percent for percent in at_percent if count * (1 - percent / 100) >= 1]
        values = histogram.get_percentile_to_value_dict(resolved) if resolved else {}
    return [(percent, values[percent] * _MICROSECOND) for percent in resolved]
