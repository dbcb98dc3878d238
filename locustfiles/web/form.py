"""The start form: what it shows of our options, and what was typed into it. Pure.

Locust's own treatment of a form leaves numbers as text where the default is none, and answers 500 to a bad one.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from locustfiles.durations import parse_duration
from locustfiles.preset import PRESET_NAMES
from locustfiles.protocols.choice import PROTOCOLS, SDK_PROTOCOLS
from locustfiles.settings import VERIFY
from mockengine.corpus import PROFILES
from reports.formats import capital

# Fields that have an end of their own in Locust's view, which checks them and answers with a sentence.
LOCUSTS_OWN = frozenset({"user_count", "spawn_rate", "host", "user_classes", "shape_class", "run_time", "profile"})

_CHOICES: dict[str, list[str]] = {
    "protocol": [*SDK_PROTOCOLS, *PROTOCOLS],
    "verify": list(VERIFY),
    "poll_preset": list(PRESET_NAMES),
    "body_profile": list(PROFILES),
}
_TRUTH = {"true": True, "false": False}
LONGEST = 1000  # characters of a field
# As Locust reads it, but for no time at all, and more of it than its numbers hold.
_RUN_TIME = re.compile(r"(?=.*[1-9])([0-9]{1,8}|([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,8}s)?)")


class FormError(Exception):
    """A field's text can't be used; a sentence for the user."""


class Group(NamedTuple):
    """Options that belong together, with their title and, unless it says enough, an explanation."""

    title: str
    about: str
    actions: list[argparse.Action]


def groups(parser: argparse.ArgumentParser) -> list[Group]:
    """Our own groups of options, in their order."""
    found = []
    for group in parser._action_groups:
        prefix, _, title = (group.title or "").partition("repoll: ")
        if title and not prefix:
            found.append(Group(capital(title), group.description or "", list(group._group_actions)))
    return found


def explained(options: Mapping[str, dict[str, Any]], ours: Iterable[Group]) -> dict[str, dict[str, Any]]:
    """Locust's description of the form's fields, group by group, with units and choices, and no secret's value.

    Options of none of the groups follow.
    """
    actions = {action.dest: action for group in ours for action in group.actions}
    names = [name for name in dict.fromkeys([*actions, *options]) if name in options]
    return {name: _explained(name, options[name], actions.get(name)) for name in names}


def _explained(name: str, option: dict[str, Any], action: argparse.Action | None) -> dict[str, Any]:
    fields = dict(option)
    default = option["default_value"]
    if action is not None and action.type is parse_duration and default is not None:
        fields["default_value"] = f"{default:.15g}s"
    if (known := _CHOICES.get(name)) is not None:
        fields["choices"] = known if default in known else [*known, default]  # a class that the command line names
    if option["is_secret"]:
        fields["default_value"] = ""
    return fields


def headings(options: Collection[str], ours: Iterable[Group]) -> str:
    """A stylesheet that gives the first field of each group the group's title and explanation.

    Locust shows one list of fields, and its page keeps nothing that is put between them; what a stylesheet adds stays.
    options: those in the form.
    """
    return "".join(
        f'.MuiAccordionDetails-root > div > :has([name="{_in_page(first)}"]) '
        f'{{ grid-column: 1 / -1; --title: "{group.title}"; --about: "{group.about}" }}\n'
        for group in ours
        if (first := next((action.dest for action in group.actions if action.dest in options), None)) is not None
    )


def _in_page(name: str) -> str:
    """The name that Locust's page gives an option's field: ``engine_port`` is ``enginePort``."""
    first, *others = name.split("_")
    return first + "".join(map(capital, others))


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


def locusts_own(form: Mapping[str, str]) -> dict[str, Any]:
    """Option -> its value, for those fields of Locust's that a run depends on. Raises FormError."""
    users = _checked("Number of users", form.get("user_count", "").strip())
    if not re.fullmatch("[0-9]{1,9}", users) or int(users) < 1:
        raise FormError(f"Number of users should be a whole number of at least 1, found '{users}'.")
    run_time = _checked("Run time", form.get("run_time", "").strip())
    if run_time and not _RUN_TIME.fullmatch(run_time):
        raise FormError(f"Run time should look like 20, 20s, 3m, 2h or 1h20m, found '{run_time}'.")
    host = _checked("Host", form.get("host", "").strip())
    return {"num_users": int(users), "host": host or None} | ({} if run_time else {"run_time": None})


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


def _checked(what: str, text: str) -> str:
    if len(text) > LONGEST:
        raise FormError(f"{what} should have {LONGEST:,} characters at most, found {len(text):,}.")
    if not text.isprintable():
        raise FormError(f"{what} should have no control characters, found {text!r}.")
    return text


def _typed(action: argparse.Action, text: str) -> Any:
    option = action.option_strings[-1]
    _checked(option, text)
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
