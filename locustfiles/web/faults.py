"""The mock engine's faults, through its admin endpoint: people's browsers may not be able to reach the engine."""

from __future__ import annotations

import http.client
import urllib.error
import urllib.request
from collections.abc import Sequence
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
    """The rules in words, for the list of events."""
    if not rules:
        return "The engine's faults were switched off."
    return f"The engine's faults were set: {', '.join(map(_described, rules))}."


def _described(rule: Rule) -> str:
    parameters = [f"{name} {msgspec.json.encode(value).decode()}" for name, value in rule.items() if name != "kind"]
    return f"{rule['kind']} ({', '.join(parameters)})" if parameters else str(rule["kind"])


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
