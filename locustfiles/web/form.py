"""The start form: what it shows of our options, and what was typed into it. Pure.

Locust's own treatment of a form leaves numbers as text where the default is none, and answers 500 to a bad one.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from typing import Any

from locustfiles.preset import PRESET_NAMES
from locustfiles.protocols.choice import PROTOCOLS, SDK_PROTOCOLS
from locustfiles.settings import VERIFY
from mockengine.corpus import PROFILES

# Fields that have an end of their own in Locust's view, which checks them and answers with a sentence.
LOCUSTS_OWN = frozenset({"user_count", "spawn_rate", "host", "user_classes", "shape_class", "run_time", "profile"})

_CHOICES = {
    "protocol": [*SDK_PROTOCOLS, *PROTOCOLS],
    "verify": list(VERIFY),
    "poll_preset": list(PRESET_NAMES),
    "body_profile": list(PROFILES),
}
_TRUTH = {"true": True, "false": False}


class FormError(Exception):
    """A field's text can't be used; a sentence for the user."""


def groups(parser: argparse.ArgumentParser) -> dict[str, str]:
    """Option -> the title of its group without what is in brackets, of our own groups only."""
    titles: dict[str, str] = {}
    for group in parser._action_groups:
        prefix, _, title = (group.title or "").partition("repoll: ")
        if title and not prefix:
            titles |= {action.dest: title.partition(" (")[0] for action in group._group_actions}
    return titles


def explained(options: Mapping[str, dict[str, Any]], titles: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Locust's description of the form's fields, with the group before the help, choices, and no secret's value.

    Locust shows one list of fields and nothing between them, so that the group's name is all that can part them.
    """
    return {name: _explained(name, option, titles) for name, option in options.items()}


def _explained(name: str, option: dict[str, Any], titles: Mapping[str, str]) -> dict[str, Any]:
    fields = dict(option)
    if name in titles:
        fields["help_text"] = f"{titles[name]}: {option['help_text']}"
    if name in _CHOICES:
        fields["choices"] = _CHOICES[name]
    if option["is_secret"]:
        fields["default_value"] = ""
    return fields


def typed(actions: Iterable[argparse.Action], form: Mapping[str, str]) -> dict[str, Any]:
    """Option -> its value, for each field of the form that is an option of ``actions``. Raises FormError.

    An empty field is the option's absence where it has no default, and an empty text for a text. An empty secret
    leaves it as it is: the form never shows one.
    """
    values: dict[str, Any] = {}
    for action in actions:
        text = form.get(action.dest)
        if text is None or (not text and getattr(action, "is_secret", False)):
            continue
        values[action.dest] = _typed(action, text.strip())
    return values


def as_arguments(actions: Iterable[argparse.Action], values: Mapping[str, Any], before: Mapping[str, Any]) -> list[str]:
    """The command line's words for those values that are not what they were before. Secrets are left out.

    A switch that was switched off, and an option that was emptied, have no words.
    """
    words: list[str] = []
    for action in actions:
        value = values.get(action.dest)
        if value is None or value is False or value == before[action.dest] or getattr(action, "is_secret", False):
            continue
        words += [action.option_strings[-1]] if value is True else [action.option_strings[-1], str(value)]
    return words


def _typed(action: argparse.Action, text: str) -> Any:
    option = action.option_strings[-1]
    if not text.isprintable():
        raise FormError(f"{option} should have no control characters, found {text!r}.")
    if action.nargs == 0:  # a switch
        if text not in _TRUTH:
            raise FormError(f"{option} should be true or false, found '{text}'.")
        return _TRUTH[text]
    if not text and action.default is None:
        return None
    kind = action.type or str
    try:
        return kind(text)  # type: ignore[operator]
    except argparse.ArgumentTypeError as error:
        raise FormError(f"{option}: {error}") from error
    except (TypeError, ValueError) as error:
        what = "a whole number" if kind is int else "another value"
        raise FormError(f"{option} should be {what}, found '{text}'.") from error
