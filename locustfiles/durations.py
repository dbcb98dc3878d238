"""Lengths of time on the command line: ``300s``, ``250ms``, ``1.5m``."""

from __future__ import annotations

import argparse
import re

LONGEST_S = 365 * 24 * 3600.0
_UNITS_S = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PATTERN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?", re.ASCII)


def parse_duration(text: str) -> float:
    """Seconds; a bare number is seconds too. Raises argparse.ArgumentTypeError with a sentence."""
    match = _PATTERN.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"expected a length of time such as 300s, 250ms or 1.5m, found '{text}'")
    seconds = float(match[1]) * _UNITS_S[match[2] or "s"]
    if seconds > LONGEST_S:
        raise argparse.ArgumentTypeError("expected a length of time of at most a year, found more")
    return seconds
