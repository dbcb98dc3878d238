"""The mock engine's faults, through its admin endpoint: people's browsers may not be able to reach the engine."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

TIMEOUT_S = 10.0

Rule = dict[str, Any]


class EngineFaultsError(Exception):
    """The engine did not do it; a sentence for the user."""


class FaultsInForce(msgspec.Struct, frozen=True):
    """The rules as the engine takes them, how often each kind was injected, and what each known kind does."""

    faults: list[Rule]
    injected: dict[str, int]
    kinds: dict[str, str]


def faults_in_force(engine_url: str) -> FaultsInForce:
    """Raises EngineFaultsError."""
    return _ask(urllib.request.Request(f"{engine_url}/admin/faults"))


def set_faults(engine_url: str, rules: Sequence[Rule]) -> FaultsInForce:
    """These in place of all others; none switches all off. Raises EngineFaultsError."""
    body = msgspec.json.encode({"faults": rules})
    return _ask(urllib.request.Request(f"{engine_url}/admin/faults", data=body, method="POST"))


def described(rules: Sequence[Rule]) -> str:
    """The rules in a sentence, for the list of events."""
    if not rules:
        return "The engine's faults were switched off."
    return f"The engine's faults were set: {', '.join(map(in_words, rules))}."


def in_words(rule: Rule) -> str:
    """The fault's kind and, in brackets, which requests it strikes and how: what docs/engine.md calls its limits and
    parameters."""
    said = [_WORDS[name](value) if name in _WORDS else f"{name} {value}" for name, value in rule.items()]
    kind, *more = filter(None, said)
    return f"{kind} ({', '.join(more)})" if more else kind


_WORDS: dict[str, Callable[[Any], str]] = {
    "kind": str,
    "probability": lambda share: f"{100 * share:g} % of requests",
    "first": lambda most: f"{most} times at most",
    "every": lambda step: f"one request in {step}",
    "after": lambda seconds: f"from {seconds:g} s on",
    "before": lambda seconds: f"until {seconds:g} s",
    "model": lambda model: f"model {model}",
    "html": lambda html: "as an HTML page" if html else "",
    "retry_after": lambda seconds: f"Retry-After {seconds:g} s",
    "seconds": lambda seconds: f"{seconds:g} s",
    "bytes_per_s": lambda rate: f"{rate:,} bytes/s",
    "by": lambda difference: f"by {difference:+d}",
    "value": str,
}


def _ask(request: urllib.request.Request) -> FaultsInForce:
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:
            return msgspec.json.decode(response.read(), type=FaultsInForce)
    except urllib.error.HTTPError as error:
        raise EngineFaultsError(_sentence(error)) from error
    except (OSError, http.client.HTTPException, msgspec.MsgspecError) as error:
        raise EngineFaultsError(f"The engine could not be asked for its faults: {error}.") from error


def _sentence(error: urllib.error.HTTPError) -> str:
    """What the engine says against the rules."""
    try:
        return str(msgspec.json.decode(error.read())["error"])
    except (msgspec.MsgspecError, KeyError, TypeError, OSError):
        return f"The engine refused its faults with status {error.code}."
