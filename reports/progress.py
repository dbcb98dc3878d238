"""The line that tells how a headless run is going."""

from __future__ import annotations

from reports import formats
from reports.schema import TimelineRow


def progress_line(
    earlier: TimelineRow | None, now: TimelineRow, requests: int, target_rss_bytes: int | None = None
) -> str:
    """One line: delivered of total, rate, outstanding, re-polls, failed, the server's RSS and the time left.

    The rate is that between the rows ``earlier`` and ``now``; rows some ten seconds apart give a calm figure. Lost
    futures are counted with the failed ones.
    """
    elapsed_s = now.monotonic_s - earlier.monotonic_s if earlier else 0.0
    rate = (now.delivered - earlier.delivered) / elapsed_s if earlier and elapsed_s > 0 else None
    left = max(requests - now.delivered - now.failed - now.lost, 0)
    parts = [
        f"{formats.count(now.delivered)} of {formats.count(requests)} delivered",
        formats.rate(rate),
        f"{formats.count(now.outstanding)} outstanding",
        f"{formats.count(now.re_polls)} re-polls",
        f"{formats.count(now.failed + now.lost)} failed",
        f"server {formats.size(target_rss_bytes)}",
        f"{formats.duration(left / rate if rate else None)} left",
    ]
    return " | ".join(parts)
