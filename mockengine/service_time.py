"""How long a request occupies its slot: models parsed from a few words, drawn in the order of admission."""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass
from typing import Protocol

_UNITS_S = {"ms": 1e-3, "s": 1.0, "m": 60.0}
_DURATION = re.compile(r"(\d{1,9}(?:\.\d+)?)(ms|s|m)")
_MAX_CV = 100.0  # past it, draws are all but zero or endless


class ServiceTimeError(ValueError):
    """The words describe no service time; the text is a sentence for the user."""


class ServiceTime(Protocol):
    def draw(self, random_numbers: random.Random) -> float:
        """The next request's service time in seconds."""


@dataclass(frozen=True)
class Fixed:
    seconds: float

    def draw(self, random_numbers: random.Random) -> float:
        return self.seconds


@dataclass(frozen=True)
class Lognormal:
    """Log-normal with the given mean (seconds) and coefficient of variation; longer draws are cut to max_s."""

    mean_s: float
    cv: float
    max_s: float = math.inf

    def draw(self, random_numbers: random.Random) -> float:
        # For a log-normal, cv**2 = exp(sigma**2) - 1 and mean = exp(mu + sigma**2 / 2).
        variance = math.log1p(self.cv**2)
        drawn = random_numbers.lognormvariate(math.log(self.mean_s) - variance / 2, math.sqrt(variance))
        return min(drawn, self.max_s)


def parse_service_time(spec: str) -> ServiceTime:
    """``fixed:5s`` or ``lognormal:mean=5s,cv=0.8[,max=20s]``. Raises ServiceTimeError."""
    kind, _, rest = spec.partition(":")
    if kind == "fixed":
        return Fixed(_seconds(spec, rest))
    if kind == "lognormal":
        return _lognormal(spec, rest)
    raise ServiceTimeError(f"A service time is fixed:TIME or lognormal:mean=TIME,cv=NUMBER[,max=TIME], found '{spec}'.")


def _lognormal(spec: str, rest: str) -> Lognormal:
    words = dict(word.partition("=")[::2] for word in rest.split(","))
    if not {"mean", "cv"} <= words.keys() <= {"mean", "cv", "max"}:
        raise ServiceTimeError(f"lognormal takes mean=TIME,cv=NUMBER[,max=TIME], found '{spec}'.")
    mean_s = _seconds(spec, words["mean"])
    max_s = _seconds(spec, words["max"]) if "max" in words else math.inf
    try:
        cv = float(words["cv"])
    except ValueError:
        cv = math.nan
    if not (mean_s > 0 and 0 < cv <= _MAX_CV and max_s > 0):
        raise ServiceTimeError(
            f"The mean, cv and max of a lognormal must be above 0, and cv at most {_MAX_CV:.0f}, found '{spec}'."
        )
    return Lognormal(mean_s, cv, max_s)


def _seconds(spec: str, text: str) -> float:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ServiceTimeError(f"A time is written like 5s, 250ms or 1.5m, found '{text}' in '{spec}'.")
    return float(match[1]) * _UNITS_S[match[2]]
