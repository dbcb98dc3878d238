"""What the start form shows, and what may be typed into it."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from locustfiles.options import add_arguments
from locustfiles.web import form


@pytest.fixture
def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser


def actions(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    return [action for action in parser._actions if getattr(action, "include_in_web_ui", False)]


@pytest.mark.parametrize(
    ("fields", "values"),
    [
        ({"outstanding": "17000"}, {"outstanding": 17000}),
        ({"outstanding": " "}, {"outstanding": None}),
        ({"drain": "1.5m"}, {"drain": 90.0}),
        ({"drain": "60.0"}, {"drain": 60.0}),
        ({"hold_engine": "true"}, {"hold_engine": True}),
        ({"hold_engine": "false"}, {"hold_engine": False}),
        ({"run_dir": ""}, {"run_dir": None}),
        ({"engine_args": "", "run_name": "night"}, {"engine_args": "", "run_name": "night"}),
        ({"web_port": "1", "html": "/tmp/x", "thresholds": "x"}, {}),  # no fields of the form
    ],
)
def test_text_becomes_what_the_command_line_makes_of_it(
    parser: argparse.ArgumentParser, fields: dict[str, str], values: dict[str, Any]
) -> None:
    assert form.typed(actions(parser), fields) == values


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"outstanding": "many"}, "--outstanding should be a whole number, found 'many'."),
        ({"requests": ""}, "--requests should be a whole number, found ''."),
        ({"drain": "soon"}, "--drain: expected a length of time such as 300s, 250ms or 1.5m, found 'soon'"),
        ({"run_name": "a\0b"}, "--run-name should have no control characters, found 'a\\x00b'."),
        ({"hold_engine": "perhaps"}, "--hold-engine should be true or false, found 'perhaps'."),
    ],
)
def test_a_bad_text_is_a_sentence(parser: argparse.ArgumentParser, fields: dict[str, str], sentence: str) -> None:
    with pytest.raises(form.FormError) as caught:
        form.typed(actions(parser), fields)
    assert str(caught.value) == sentence


def test_secrets_are_neither_shown_nor_repeated_and_stay_when_left_empty() -> None:
    parser = argparse.ArgumentParser()
    key = parser.add_argument("--key", default="hunter2")
    key.include_in_web_ui = key.is_secret = True  # type: ignore[attr-defined]
    shown = {"key": {"default_value": "hunter2", "is_secret": True, "help_text": None}}
    assert "hunter2" not in str(form.explained(shown, []))
    assert form.typed(actions(parser), {"key": ""}) == {}
    assert form.typed(actions(parser), {"key": "other"}) == {"key": "other"}
    assert form.as_arguments(actions(parser), {"key": "other"}, {"key": "hunter2"}) == []


def described(default: Any) -> dict[str, Any]:
    """An option as Locust describes it."""
    return {"default_value": default, "is_secret": False, "help_text": "which", "choices": None}


def test_fields_stand_in_groups_with_units_and_choices(parser: argparse.ArgumentParser) -> None:
    theirs = {"their_own": described(3), "slots": described(8), "protocol": described("tinker"), "drain": described(90.0)}
    shown = form.explained(theirs, form.groups(parser))
    assert list(shown) == ["protocol", "drain", "slots", "their_own"]
    assert shown["protocol"]["choices"] == ["tinker", "tinker-sessions", "respond-async", "operations"]
    assert shown["drain"]["default_value"] == "90s"
    assert shown["slots"] == theirs["slots"]


def test_a_protocol_of_ones_own_is_among_the_choices(parser: argparse.ArgumentParser) -> None:
    shown = form.explained({"protocol": described("mine:Protocol")}, form.groups(parser))
    assert shown["protocol"]["choices"][-1] == "mine:Protocol"


def test_the_first_field_of_each_group_has_its_title(parser: argparse.ArgumentParser) -> None:
    options = {action.dest for action in actions(parser)}
    rules = form.headings(options, form.groups(parser)).splitlines()
    assert [rule.partition('[name="')[2].partition('"')[0] for rule in rules] == [
        *("requests", "maxTokens", "protocol", "runName", "enginePort", "serverPort")
    ]
    assert '--title: "Mock engine (not with --host)"; --about: "Stands behind the server' in rules[4]


def test_the_form_as_a_command_line_means_the_same(parser: argparse.ArgumentParser) -> None:
    before = vars(parser.parse_args([]))
    values = form.typed(actions(parser), {"requests": "7", "drain": "5s", "hold_engine": "true", "slots": "2048"})
    words = form.as_arguments(actions(parser), values, before)
    assert "--slots" not in words  # as it was
    assert vars(parser.parse_args(words)) == before | values
