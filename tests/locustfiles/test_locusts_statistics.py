"""Locust's own statistics in a long run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from locustfiles.locusts_statistics import HISTORY_LIMIT, READ_S, thin


@dataclass
class Entry:
    """Of one kind of request; the names are Locust's, which itself can't be imported beside asyncio's tests."""

    num_reqs_per_sec: Counter[int] = field(default_factory=Counter)
    num_fail_per_sec: Counter[int] = field(default_factory=Counter)


@dataclass
class Statistics:
    last_request_timestamp: float | None = None
    total: Entry = field(default_factory=Entry)
    entries: dict[str, Entry] = field(default_factory=lambda: {"poll": Entry()})
    history: list[dict[str, int]] = field(default_factory=list)


def lasting(seconds: int) -> Any:
    """A request a second, which fails; an entry of the history every 5 s; thinned every minute."""
    statistics: Any = Statistics()
    for second in range(seconds):
        for entry in (statistics.total, *statistics.entries.values()):
            entry.num_reqs_per_sec[second] += 1
            entry.num_fail_per_sec[second] += 1
        statistics.last_request_timestamp = second + 0.5
        if second % 5 == 0:
            statistics.history.append({"time": second})
        if second % 60 == 0:
            thin(statistics)
    return statistics


@pytest.mark.parametrize("seconds", [100, 3600, 86_400])
def test_what_is_read_is_kept_and_no_more(seconds: int) -> None:
    statistics = lasting(seconds)
    assert len(statistics.history) <= HISTORY_LIMIT + 60 / 5
    assert [one["time"] for one in statistics.history][-10:] == list(range(seconds - 50, seconds, 5))
    thin(statistics)
    for entry in (statistics.total, statistics.entries["poll"]):
        assert (
            list(entry.num_reqs_per_sec)
            == list(entry.num_fail_per_sec)
            == list(range(max(0, seconds - READ_S), seconds))
        )


def test_before_the_first_request_there_is_nothing_to_do() -> None:
    statistics: Any = Statistics()
    thin(statistics)
    assert statistics == Statistics()
