"""Samples of Prometheus text: parsed, added up over workers, and written again. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client.core import Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

Labels = tuple[tuple[str, str], ...]


def parse_samples(text: str) -> dict[tuple[str, Labels], float]:
    """Name and sorted labels -> value."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def add_up(texts: Iterable[str]) -> bytes:
    """One text whose every sample is the sum of those of the same name and labels, in the order of their coming."""
    families: dict[str, Metric] = {}
    totals: dict[str, dict[tuple[str, Labels], float]] = {}
    for text in texts:
        for family in text_string_to_metric_families(text):
            families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
            sums = totals.setdefault(family.name, {})
            for sample in family.samples:
                key = sample.name, tuple(sample.labels.items())
                sums[key] = sums.get(key, 0.0) + sample.value
    for name, sums in totals.items():
        for (sample_name, labels), value in sums.items():
            families[name].add_sample(sample_name, dict(labels), value)
    return generate_latest(_Fixed(list(families.values())))


class _Fixed(Collector):
    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families
