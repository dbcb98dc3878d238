"""Lengths of time on the command line: ``300s``, ``250ms``, ``1.5m``."""

from __future__ import annotations

import argparse
import re

_UNITS_S = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PATTERN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)?")


def parse_duration(text: str) -> float:
    """Seconds; a bare number is seconds too. Raises argparse.ArgumentTypeError with a sentence."""
    match = _PATTERN.fullmatch(text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"expected a length of time such as 300s, 250ms or 1.5m, found '{text}'")
    return float(match[1]) * _UNITS_S[match[2] or "s"]
