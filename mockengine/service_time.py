"""How long a request occupies its slot: models parsed from a few words, drawn in the order of admission."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from mockengine.durations import DurationError, parse_duration

_MAX_CV = 100.0  # past it, draws are all but zero or endless

FORMS = {
    "fixed": "fixed:TIME",
    "lognormal": "lognormal:mean=TIME,cv=NUMBER[,max=TIME]",
    "tokens": "tokens:ttft=TIME,tpot=TIME",
    "load": "load:ttft=TIME,tpot=TIME,slope=TIME or load:ttft=TIME,SLOTS=TIME,SLOTS=TIME,...",
    "trace": "trace:FILE",
    "barrier": "barrier:NUMBER[,timeout=TIME]",
}


class ServiceTimeError(ValueError):
    """The words describe no service time; the text is a sentence for the user."""


class ServiceTime(Protocol):
    def draw(self, random_numbers: random.Random, max_tokens: int, occupied: int) -> float:
        """A request's service time in seconds.

        max_tokens: what the request asks for. occupied: slots in use when it is admitted, its own included.
        """


@dataclass(frozen=True)
class Fixed:
    seconds: float

    def draw(self, random_numbers: random.Random, max_tokens: int, occupied: int) -> float:
        return self.seconds


@dataclass(frozen=True)
class Lognormal:
    """Log-normal with the given mean (seconds) and coefficient of variation; longer draws are cut to max_s."""

    mean_s: float
    cv: float
    max_s: float = math.inf

    def draw(self, random_numbers: random.Random, max_tokens: int, occupied: int) -> float:
        # For a log-normal, cv**2 = exp(sigma**2) - 1 and mean = exp(mu + sigma**2 / 2).
        variance = math.log1p(self.cv**2)
        drawn = random_numbers.lognormvariate(math.log(self.mean_s) - variance / 2, math.sqrt(variance))
        return min(drawn, self.max_s)


@dataclass(frozen=True)
class Tokens:
    """Time to first token, and time per output token for each one after it, as vLLM's benchmarks define them."""

    ttft_s: float
    tpot_s: float

    def draw(self, random_numbers: random.Random, max_tokens: int, occupied: int) -> float:
        return self.ttft_s + self.tpot_s * (max_tokens - 1)


@dataclass(frozen=True)
class LoadSlope:
    """As Tokens, but each occupied slot besides a request's own adds slope_s to the time per token."""

    ttft_s: float
    tpot_s: float
    slope_s: float

    def draw(self, random_numbers: random.Random, max_tokens: int, occupied: int) -> float:
        return self.ttft_s + (self.tpot_s + self.slope_s * (occupied - 1)) * (max_tokens - 1)


@dataclass(frozen=True)
class LoadPoints:
    """As Tokens, with the time per token measured at a few numbers of occupied slots and straight lines between.

    points: (occupied slots, seconds per token), in the order of the slots. Beyond the first and last it stays level.
    """

    ttft_s: float
    points: tuple[tuple[int, float], ...]

    def draw(self, random_numbers: random.Random, max_tokens: int, occupied: int) -> float:
        slots, times = zip(*self.points, strict=True)
        return self.ttft_s + float(np.interp(occupied, slots, times)) * (max_tokens - 1)


@dataclass(frozen=True)
class Recorded:
    """Durations in the order in which they were recorded, over and over."""

    durations_s: tuple[float, ...]
    _next: Iterator[float] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_next", itertools.cycle(self.durations_s))

    def draw(self, random_numbers: random.Random, max_tokens: int, occupied: int) -> float:
        return next(self._next)


@dataclass(frozen=True)
class Barrier:
    """No time of its own: ``size`` requests are held and let go together, or after timeout_s those that there are."""

    size: int
    timeout_s: float = math.inf

    def draw(self, random_numbers: random.Random, max_tokens: int, occupied: int) -> float:
        return 0.0


def parse_service_time(spec: str) -> ServiceTime:
    """The model that one of FORMS describes. Raises ServiceTimeError."""
    kind, _, rest = spec.partition(":")
    parser = _PARSERS.get(kind)
    if parser is None:
        raise ServiceTimeError(f"A service time is one of {'; '.join(FORMS.values())}, found '{spec}'.")
    try:
        return parser(spec, rest)
    except DurationError as error:
        raise ServiceTimeError(f"{error} It stands in '{spec}'.") from error


def _fixed(spec: str, rest: str) -> Fixed:
    return Fixed(parse_duration(rest))


def _lognormal(spec: str, rest: str) -> Lognormal:
    words = _words(spec, rest, {"mean", "cv"}, {"max"})
    mean_s = parse_duration(words["mean"])
    max_s = parse_duration(words["max"]) if "max" in words else math.inf
    try:
        cv = float(words["cv"])
    except ValueError:
        cv = math.nan
    if not (mean_s > 0 and 0 < cv <= _MAX_CV and max_s > 0):
        raise ServiceTimeError(
            f"The mean, cv and max of a lognormal must be above 0, and cv at most {_MAX_CV:.0f}, found '{spec}'."
        )
    return Lognormal(mean_s, cv, max_s)


def _tokens(spec: str, rest: str) -> Tokens:
    words = _words(spec, rest, {"ttft", "tpot"})
    return Tokens(parse_duration(words["ttft"]), parse_duration(words["tpot"]))


def _load(spec: str, rest: str) -> LoadSlope | LoadPoints:
    words = dict(word.partition("=")[::2] for word in rest.split(","))
    if "slope" in words:
        words = _words(spec, rest, {"ttft", "tpot", "slope"})
        return LoadSlope(*(parse_duration(words[name]) for name in ("ttft", "tpot", "slope")))
    ttft = words.pop("ttft", "")
    if not words or not all(slots.isdecimal() and int(slots) > 0 for slots in words):
        raise ServiceTimeError(f"load is written as {FORMS['load']}, found '{spec}'.")
    points = sorted((int(slots), parse_duration(time)) for slots, time in words.items())
    return LoadPoints(parse_duration(ttft), tuple(points))


def _trace(spec: str, rest: str) -> Recorded:
    try:
        durations_s = tuple(float(word) for word in Path(rest).read_text("utf-8").split())
    except OSError as error:
        raise ServiceTimeError(f"The durations of '{spec}' can't be read: {error.strerror}.") from error
    except ValueError as error:
        raise ServiceTimeError(f"The file of '{spec}' should hold seconds, one a line, but {error}.") from error
    if not durations_s or not all(0 <= duration < math.inf for duration in durations_s):
        raise ServiceTimeError(f"The file of '{spec}' should hold seconds, one a line, at least one and none below 0.")
    return Recorded(durations_s)


def _barrier(spec: str, rest: str) -> Barrier:
    size, _, timeout = rest.partition(",timeout=")
    if not (size.isdecimal() and int(size) > 0):
        raise ServiceTimeError(f"barrier is written as {FORMS['barrier']}, found '{spec}'.")
    return Barrier(int(size), parse_duration(timeout)) if timeout else Barrier(int(size))


_PARSERS: dict[str, Callable[[str, str], ServiceTime]] = {
    "fixed": _fixed,
    "lognormal": _lognormal,
    "tokens": _tokens,
    "load": _load,
    "trace": _trace,
    "barrier": _barrier,
}


def _words(spec: str, rest: str, needed: Set[str], optional: Set[str] = frozenset()) -> dict[str, str]:
    words = dict(word.partition("=")[::2] for word in rest.split(","))
    if not needed <= words.keys() <= needed | optional:
        kind = spec.partition(":")[0]
        raise ServiceTimeError(f"{kind} is written as {FORMS[kind]}, found '{spec}'.")
    return words
