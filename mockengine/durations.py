"""Times as a user writes them."""

from __future__ import annotations

import re

_UNITS_S = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d+)?)(us|ms|s|m)")


class DurationError(ValueError):
    """The words are no time; the text is a sentence for the user."""


def parse_duration(text: str) -> float:
    """``5s``, ``250ms``, ``600us`` or ``1.5m`` in seconds. Raises DurationError."""
    match = _DURATION.fullmatch(text)
    if match is None:
        raise DurationError(f"A time is written like 5s, 250ms, 600us or 1.5m, found '{text}'.")
    return float(match[1]) * _UNITS_S[match[2]]
