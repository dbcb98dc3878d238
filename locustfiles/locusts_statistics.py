"""Locust's own statistics, kept from growing for as long as a run lasts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from locust.stats import RequestStats

THIN_EVERY_S = 60.0
READ_S = 60  # Locust reads counts of the last 12 seconds
HISTORY_LIMIT = 1200  # entries of its charts, one every 5 s: all of them are in its page


def thin(statistics: RequestStats) -> None:
    """Drop the counts of seconds that nobody will read, and what is older than the charts should be.

    The live charts are those that go back to the start of the run.
    """
    oldest_s = (statistics.last_request_timestamp or 0.0) - READ_S
    for entry in (statistics.total, *statistics.entries.values()):
        for counts in (entry.num_reqs_per_sec, entry.num_fail_per_sec):
            for second in [second for second in counts if second < oldest_s]:
                del counts[second]
    del statistics.history[:-HISTORY_LIMIT]
