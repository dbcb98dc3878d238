"""What the time of a delivered future was spent on, told apart by what the target says of its own part. Pure."""

from __future__ import annotations

import re

# A metric of the Server-Timing header (W3C Server Timing): how long the result had been ready when the answer began.
_UNFETCHED = re.compile(r"(?:^|,)\s*unfetched\s*;\s*dur=(\d+(?:\.\d+)?)\s*(?:[,;]|$)")


def phases(server_timing: str, since_submit_s: float, body_s: float) -> dict[str, float]:
    """Phase -> seconds, from the accepted submit to the result's last byte; only ``delivery`` if the target is silent.

    work: until the result was ready. unfetched: until the poll that got it was answered. delivery: the answer's body.
    """
    said = _UNFETCHED.search(server_timing)
    if said is None:
        return {"delivery": body_s}
    unfetched_s = float(said[1]) / 1000
    work_s = max(0.0, since_submit_s - unfetched_s - body_s)
    return {"work": work_s, "unfetched": unfetched_s, "delivery": body_s}
