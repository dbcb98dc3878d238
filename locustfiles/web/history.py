"""The time series of a run, kept in bounded memory however long it is. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

LIMIT = 1200  # points: more than a chart has pixels, and some 200 kB of JSON

# Counters and levels of which the newest counts when two samples become one; of the others the larger does, so that
# no peak is lost.
_NEWEST = frozenset(
    {
        *("t_s", "reported_s", "seen_s"),
        *("delivered", "failed", "lost", "outstanding", "target_cpu_s", "load_cpu_s", "engine_cpu_s"),
    }
)


class Sample(NamedTuple):
    """One moment of a run. t_s: since its start. Counters are cumulative; None is not measured.

    reported_s, seen_s: t_s of what the load and the observer say. Where they are late, it is that of the sample before.
    expected_bytes: the target's memory at rest and what it must keep. p50_s and so on: of the futures that ended
    within the last seconds.
    """

    t_s: float
    delivered: int
    failed: int
    lost: int
    outstanding: int
    reported_s: float | None = None
    seen_s: float | None = None
    running: int | None = None
    waiting: int | None = None
    rss_bytes: int | None = None
    expected_bytes: float | None = None
    target_cpu_s: float | None = None
    load_cpu_s: float | None = None
    engine_cpu_s: float | None = None
    target_lag_s: float | None = None
    load_lag_s: float | None = None
    fds: int | None = None
    p50_s: float | None = None
    p90_s: float | None = None
    p99_s: float | None = None


def merged(first: Sample, second: Sample) -> Sample:
    """One sample for two moments, the later one's."""
    return Sample(*map(_merged, Sample._fields, first, second))


def _merged(name: str, first: Any, second: Any) -> Any:
    if first is None or second is None or name in _NEWEST:
        return first if second is None else second
    return max(first, second)


class History:
    """Samples at even distances. When there are more than ``limit``, each two become one, and the distance doubles.

    limit: an even number.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self._limit = limit
        self._samples: list[Sample] = []
        self._stride = 1  # added samples that one kept sample stands for
        self._in_last = 0

    def add(self, sample: Sample) -> None:
        if self._samples and self._in_last < self._stride:
            self._samples[-1] = merged(self._samples[-1], sample)
            self._in_last += 1
            return
        if len(self._samples) >= self._limit:
            self._halve()
        self._samples.append(sample)
        self._in_last = 1

    def _halve(self) -> None:
        pairs = zip(self._samples[::2], self._samples[1::2], strict=True)
        self._samples = [merged(first, second) for first, second in pairs]
        self._stride *= 2

    @property
    def stride(self) -> int:
        """It changes when everything that a reader already has must be read again."""
        return self._stride

    def __len__(self) -> int:
        return len(self._samples)

    def columns(self, start: int = 0) -> dict[str, list[Any]]:
        """Field -> its values from sample number ``start`` on. The last sample may still change."""
        tail = self._samples[start:]
        return {name: [sample[place] for sample in tail] for place, name in enumerate(Sample._fields)}
