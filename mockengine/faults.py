"""Faults: which kinds there are, and which request gets which, repeatably. No I/O; the clock is passed in.

A plan is a list of rules. Each rule has a stream of random numbers of its own and takes one of them for every request,
so that the same seed and the same order of arrivals give the same faults, and so that a rule does not change what
another one does. Of the rules that hit a request the first in the list has it.
"""

from __future__ import annotations

import difflib
import math
import random
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from mockengine.durations import DurationError, parse_duration


class FaultError(ValueError):
    """The words describe no fault; the text is a sentence for the user."""


class Outcome(StrEnum):
    """What a correct server makes of the future whose request met the fault."""

    DELIVERED = "delivered"
    ALTERED = "altered"  # delivered as the engine sent it, which is not what the model sampled
    RETRIED = "retried"
    FAILED = "failed"


class Moment(StrEnum):
    """When a fault strikes: before the request has a slot, or after its service time."""

    ARRIVAL = "arrival"
    ANSWER = "answer"


@dataclass(frozen=True)
class Kind:
    """effect: what happens. duty: what a correct server must make of it. defaults: the kind's own parameters.

    The table of docs/engine.md says the same.
    """

    moment: Moment
    outcome: Outcome
    effect: str
    duty: str
    defaults: Mapping[str, Any] = field(default_factory=dict)
    needs_choices: int = 1


_REFUSED = "It was not executed: send it again after the Retry-After, a bounded number of times; then fail the future."
_UNSURE = "It may have been executed: fail the future, with the status in the sentence."
_BROKEN = "Fail the future with a sentence; close the connection."
_UNUSABLE = "Fail the future with a sentence that says what is wrong with the answer."
_AS_SENT = "Deliver it: NaN or an infinity at these positions, the other logprobs as they are."
_PATIENCE = "Wait as long as the time-out of its requests allows, then deliver."
_HTML = {"html": False}
_REFUSAL = {"html": False, "retry_after": 1.0}

KINDS: dict[str, Kind] = {
    "http_400": Kind(
        Moment.ARRIVAL,
        Outcome.FAILED,
        "Status 400 with vLLM's error, or with a router's HTML page.",
        "Fail the future with the engine's message.",
        _HTML,
    ),
    "http_408": Kind(
        Moment.ANSWER,
        Outcome.FAILED,
        "Status 408 in place of the answer, as from a router that waited too long.",
        _UNSURE,
        _HTML,
    ),
    "http_429": Kind(
        Moment.ARRIVAL, Outcome.RETRIED, "Status 429, too many requests, with Retry-After.", _REFUSED, _REFUSAL
    ),
    "http_500": Kind(
        Moment.ANSWER, Outcome.FAILED, "Status 500, an internal error, in place of the answer.", _UNSURE, _HTML
    ),
    "http_502": Kind(
        Moment.ANSWER,
        Outcome.FAILED,
        "Status 502 in place of the answer, as from a router that lost its engine.",
        _UNSURE,
        _HTML,
    ),
    "http_503": Kind(Moment.ARRIVAL, Outcome.RETRIED, "Status 503, overloaded, with Retry-After.", _REFUSED, _REFUSAL),
    "html_200": Kind(Moment.ANSWER, Outcome.FAILED, "A router's HTML page with status 200.", _UNUSABLE),
    "empty_200": Kind(Moment.ANSWER, Outcome.FAILED, "Status 200 with an empty body.", _UNUSABLE),
    "truncated_json": Kind(
        Moment.ANSWER, Outcome.FAILED, "Half of the JSON, and a Content-Length that agrees with it.", _UNUSABLE
    ),
    "wrong_content_length": Kind(
        Moment.ANSWER,
        Outcome.FAILED,
        "The Content-Length is `by` too large, and the connection is closed after the body.",
        _BROKEN,
        {"by": 10},
    ),
    "reset_before_headers": Kind(
        Moment.ANSWER,
        Outcome.FAILED,
        "The connection is reset in place of an answer.",
        "Fail the future. Only when it comes at once and on a connection that was used before, it can't be told from "
        "`close_on_reuse`: send it again once.",
    ),
    "reset_in_headers": Kind(
        Moment.ANSWER, Outcome.FAILED, "The connection is reset within the answer's headers.", _BROKEN
    ),
    "reset_in_body": Kind(Moment.ANSWER, Outcome.FAILED, "The connection is reset within the answer's body.", _BROKEN),
    "stall_before_first_byte": Kind(
        Moment.ANSWER, Outcome.DELIVERED, "Nothing for `seconds`, then the answer.", _PATIENCE, {"seconds": 30.0}
    ),
    "stall_in_body": Kind(
        Moment.ANSWER, Outcome.DELIVERED, "Half of the body, the rest after `seconds`.", _PATIENCE, {"seconds": 30.0}
    ),
    "slow_drip": Kind(
        Moment.ANSWER,
        Outcome.DELIVERED,
        "The body in small pieces, `bytes_per_s` altogether.",
        _PATIENCE,
        {"bytes_per_s": 10_000},
    ),
    "idle_close": Kind(
        Moment.ANSWER,
        Outcome.DELIVERED,
        "The keep-alive connection is closed once it was idle for `seconds` after the answer.",
        "Notice the close, and open another connection for the next request.",
        {"seconds": 5.0},
    ),
    "close_on_reuse": Kind(
        Moment.ANSWER,
        Outcome.RETRIED,
        "The keep-alive connection is closed exactly when the next request comes on it.",
        "Send that next request again, once, on a new connection.",
    ),
    "null_logprobs": Kind(Moment.ANSWER, Outcome.ALTERED, "null at two places of token_logprobs.", _AS_SENT),
    "nan_logprobs": Kind(Moment.ANSWER, Outcome.ALTERED, "The literal NaN at two places.", _AS_SENT),
    "infinite_logprobs": Kind(Moment.ANSWER, Outcome.ALTERED, "The literal -Infinity at two places.", _AS_SENT),
    "missing_logprobs": Kind(Moment.ANSWER, Outcome.FAILED, "logprobs is null though they were asked for.", _UNUSABLE),
    "empty_logprobs": Kind(Moment.ANSWER, Outcome.FAILED, "The arrays within logprobs are empty.", _UNUSABLE),
    "token_count": Kind(
        Moment.ANSWER,
        Outcome.FAILED,
        "`by` tokens more or fewer than max_tokens, with finish_reason length.",
        _UNUSABLE,
        {"by": -1},
    ),
    "duplicate_choice": Kind(Moment.ANSWER, Outcome.FAILED, "The first choice comes twice.", _UNUSABLE),
    "reordered_choices": Kind(
        Moment.ANSWER,
        Outcome.DELIVERED,
        "The choices in the reverse order; strikes only where there are several.",
        "Put them in the order of their index.",
        needs_choices=2,
    ),
    "finish_reason": Kind(
        Moment.ANSWER, Outcome.FAILED, "The first choice's finish_reason is `value`.", _UNUSABLE, {"value": "abort"}
    ),
    "duplicate_response": Kind(
        Moment.ANSWER,
        Outcome.DELIVERED,
        "The whole response comes twice.",
        "Deliver the first; close the connection, for the second answers nobody.",
    ),
    "restart": Kind(
        Moment.ARRIVAL,
        Outcome.FAILED,
        "The process dies and is back after `seconds`, or as soon as it can. It keeps its counts of faults and of "
        "finished requests.",
        "Fail what was under way. What could not connect was not executed: try again, within a deadline.",
        {"seconds": 1.0},
    ),
    "port_closed": Kind(
        Moment.ARRIVAL,
        Outcome.DELIVERED,
        "New connections are refused for `seconds`; those that exist go on, and so does the request that met it.",
        "A refused connection was not executed: try again until the port is back, within a deadline.",
        {"seconds": 1.0},
    ),
}


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One entry of the list. Times are seconds since the list was set.

    first: the rule ends after so many faults. every: only each so-manieth request that it sees can be hit.
    after_s, before_s: it sees only requests between the two. model: it sees only requests for this model.
    parameters: the kind's own, complete.
    """

    kind: str
    probability: float = 1.0
    first: int | None = None
    every: int = 1
    after_s: float = 0.0
    before_s: float = math.inf
    model: str | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)


def parse_rule(words: Mapping[str, object]) -> Rule:
    """A rule from its names and values, the latter as text or as what TOML and JSON make of them. Raises FaultError."""
    values = dict(words)
    name = values.pop("kind", None)
    kind = KINDS.get(str(name))
    if kind is None:
        raise FaultError(f"There is no fault of the kind '{name}'. {_nearest(str(name), KINDS)}")
    parameters = dict(kind.defaults)
    limits: dict[str, Any] = {}
    for key, value in values.items():
        if key in parameters:
            parameters[key] = _READERS[key](key, value)
        elif key in _LIMITS:
            limits[_LIMITS[key]] = _READERS[key](key, value)
        else:
            raise FaultError(f"The fault {name} has no '{key}'. {_nearest(key, [*_LIMITS, *parameters])}")
    return Rule(kind=str(name), parameters=parameters, **limits)


def parse_rule_words(text: str) -> Rule:
    """A rule from the command line: ``KIND`` or ``KIND:name=value,name=value``. Raises FaultError."""
    kind, _, rest = text.partition(":")
    words: dict[str, object] = {"kind": kind}
    for word in rest.split(",") if rest else ():
        key, equals, value = word.partition("=")
        if not equals:
            raise FaultError(f"A fault is written as KIND:name=value,name=value, found '{text}'.")
        words[key] = value
    return parse_rule(words)


def read_rules(path: Path) -> list[Rule]:
    """The ``[[fault]]`` tables of a TOML file, in their order. Raises FaultError."""
    try:
        document = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise FaultError(f"The faults can't be read from {path}: {error.strerror}.") from error
    except ValueError as error:
        raise FaultError(f"{path} is not TOML: {error}.") from error
    return parse_rules(document.get("fault"), str(path))


def parse_rules(tables: object, where: str) -> list[Rule]:
    """Rules from a list of mappings. where: what they came from, for the sentence of a FaultError."""
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise FaultError(f"{where} should hold a list of faults, each with its kind and limits.")
    return [parse_rule(table) for table in tables]


def describe(rule: Rule) -> dict[str, object]:
    """The rule as parse_rule takes it."""
    limits = {key: getattr(rule, attribute) for key, attribute in _LIMITS.items()}
    defaults = {key: getattr(Rule, attribute, None) for key, attribute in _LIMITS.items()}
    return {
        "kind": rule.kind,
        **{key: value for key, value in limits.items() if value != defaults[key]},
        **rule.parameters,
    }


@dataclass
class _Progress:
    random_numbers: random.Random
    seen: int = 0
    drawn: int = 0


class Plan:
    """The rules in force, what each has drawn, and what was injected so far, by kind."""

    def __init__(self, rules: Sequence[Rule], seed: int, now: float) -> None:
        self.injected: dict[str, int] = {}
        self._seed = seed
        self.set(rules, now)

    @property
    def rules(self) -> Sequence[Rule]:
        return self._rules

    @property
    def since(self) -> float:
        return self._since

    def set(self, rules: Sequence[Rule], now: float) -> None:
        """Put these rules in force in place of all others. What was injected stays counted."""
        self._rules = tuple(rules)
        self._since = now
        self._progress = [_Progress(random.Random(f"{self._seed} {number}")) for number in range(len(rules))]

    def draw(self, model: str, choices: int, now: float) -> Rule | None:
        """The rule that has this request, if any."""
        hit: Rule | None = None
        for rule, progress in zip(self._rules, self._progress, strict=True):
            if rule.model not in (None, model) or not rule.after_s <= now - self._since < rule.before_s:
                continue
            progress.seen += 1
            strikes = progress.random_numbers.random() < rule.probability and progress.seen % rule.every == 0
            ended = rule.first is not None and progress.drawn >= rule.first
            if strikes and not ended and hit is None and choices >= KINDS[rule.kind].needs_choices:
                progress.drawn += 1
                hit = rule
        return hit

    def count(self, rule: Rule) -> None:
        """The rule's fault was injected."""
        self.injected[rule.kind] = self.injected.get(rule.kind, 0) + 1

    def saved(self, now: float) -> dict[str, Any]:
        """All of it, for ``resume`` in another process."""
        return {
            "rules": [describe(rule) for rule in self._rules],
            "progress": [(progress.seen, progress.drawn) for progress in self._progress],
            "elapsed_s": now - self._since,
            "injected": self.injected,
        }

    def resume(self, saved: Mapping[str, Any], now: float) -> None:
        """Go on where the saved one was: its random numbers too."""
        self.set([parse_rule(rule) for rule in saved["rules"]], now - saved["elapsed_s"])
        self.injected = dict(saved["injected"])
        for progress, (seen, drawn) in zip(self._progress, saved["progress"], strict=True):
            progress.seen, progress.drawn = seen, drawn
            for _ in range(seen):
                progress.random_numbers.random()


# Names of a rule's limits as users write them, and of the fields that hold them.
_LIMITS = {
    "probability": "probability",
    "first": "first",
    "every": "every",
    "after": "after_s",
    "before": "before_s",
    "model": "model",
}


def _seconds(key: str, value: object) -> float:
    if isinstance(value, str):
        try:
            return parse_duration(value)
        except DurationError as error:
            raise FaultError(f"{key}: {error}") from error
    return _number(key, value, 0.0, math.inf)


def _number(key: str, value: object, least: float, most: float) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        number = math.nan
    if not least <= number <= most:
        top = "" if most == math.inf else f" and at most {most:g}"
        raise FaultError(f"{key} should be a number of at least {least:g}{top}, found {value!r}.")
    return number


def _whole(key: str, value: object, least: float = 1.0) -> int:
    number = _number(key, value, least, math.inf)
    if not number.is_integer():
        raise FaultError(f"{key} should be a whole number, found {value!r}.")
    return int(number)


def _difference(key: str, value: object) -> int:
    number = _whole(key, value, -math.inf)
    if number == 0:
        raise FaultError(f"{key} should be another number than 0.")
    return number


def _text(key: str, value: object) -> str:
    return str(value)


def _flag(key: str, value: object) -> bool:
    if str(value).lower() not in ("true", "false"):
        raise FaultError(f"{key} should be true or false, found {value!r}.")
    return str(value).lower() == "true"


def _nearest(word: str, names: Mapping[str, object] | Sequence[str]) -> str:
    near = difflib.get_close_matches(word, list(names), n=1)
    return f"Did you mean '{near[0]}'?" if near else f"There are: {', '.join(names)}."


_READERS: dict[str, Any] = {
    "probability": lambda key, value: _number(key, value, 0.0, 1.0),
    "first": _whole,
    "every": _whole,
    "after": _seconds,
    "before": _seconds,
    "model": _text,
    "html": _flag,
    "retry_after": _seconds,
    "seconds": _seconds,
    "bytes_per_s": _whole,
    "by": _difference,
    "value": _text,
}
