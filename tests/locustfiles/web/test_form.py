"""What the start form shows, and what may be typed into it."""

from __future__ import annotations

import argparse
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from locustfiles.options import add_arguments
from locustfiles.settings import Settings, SettingsError, settings_from
from locustfiles.web import form

HOSTILE = [
    *(
        "",
        " ",
        "-1",
        "0",
        "nan",
        "NaN",
        "inf",
        "1e9",
        "1_0",
        "٣",
        "0x10",
        "9" * 30,
        "9" * 400,
        "9" * 5000,
        "9" * 400 + "h",
    ),
    *(
        "<script>alert(1)</script>",
        "\0",
        "a\r\nb",
        "\ud800",
        "'",
        '"',
        "../..",
        "/",
        "a" * 200_000,
        "%s{0}",
        "null",
        "9" * 400 + "h",
    ),
    *("http://[", "http://a:b", "http://a:99999", "http://", "pid:1:2", ":", "a:b", ".:b", "os:path", "trace:"),
]


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


def sentence_or_settings(parser: argparse.ArgumentParser, fields: dict[str, str]) -> str | Settings:
    """What comes of a form."""
    options = {**vars(parser.parse_args([])), "processes": None, "expect_workers": 1}
    try:
        values = form.typed(actions(parser), fields) | form.locusts_own({"user_count": "2"} | fields)
        return settings_from(argparse.Namespace(**options | values))
    except (form.FormError, SettingsError) as error:
        return str(error)


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.one_of(st.sampled_from(HOSTILE), st.text(), st.integers().map(str), st.floats().map(str)))
def test_any_text_in_any_field_is_refused_with_a_sentence_or_makes_settings(
    parser: argparse.ArgumentParser, text: str
) -> None:
    for name in ("user_count", "host", "run_time", *(action.dest for action in actions(parser))):
        made = sentence_or_settings(parser, {name: text})
        if isinstance(made, str):
            assert made.isprintable(), name
            assert len(made) < 2 * form.LONGEST
        else:  # what workers are sent arrives as it was
            assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(made)), Settings) == made


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"user_count": "0"}, "Number of users should be a whole number of at least 1, found '0'."),
        ({"user_count": "-1"}, "Number of users should be a whole number of at least 1, found '-1'."),
        ({"user_count": "9" * 5000}, "Number of users should have 1,000 characters at most, found 5,000."),
        ({}, "Number of users should be a whole number of at least 1, found ''."),
        ({"user_count": "1", "run_time": "0s"}, "Run time should look like 20, 20s, 3m, 2h or 1h20m, found '0s'."),
        ({"user_count": "1", "run_time": "3m later"}, "Run time should look like"),
        ({"user_count": "1", "run_time": "9" * 40 + "h"}, "Run time should look like"),
        ({"user_count": "1", "host": "http://a\nb"}, "Host should have no control characters, found 'http://a\\nb'."),
    ],
)
def test_locusts_own_fields_are_checked_too(fields: dict[str, str], sentence: str) -> None:
    with pytest.raises(form.FormError) as caught:
        form.locusts_own(fields)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize("run_time", ["20", "20s", "3m", "2h", "1h20m", "3h30m10s"])
def test_run_times_are_left_to_locust(run_time: str) -> None:
    assert form.locusts_own({"user_count": " 7 ", "run_time": run_time}) == {"num_users": 7, "host": None}


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
    theirs = {
        "their_own": described(3),
        "slots": described(8),
        "protocol": described("tinker"),
        "drain": described(90.0),
    }
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
