"""The numbers of clients, and the options that change them."""

from __future__ import annotations

from dataclasses import Field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from locustfiles.preset import CONSTANTS, PRESETS, SDK
from locustfiles.protocols.tinker import BadAnswerError, client_config_of
from locustfiles.settings import SettingsError
from tests.locustfiles.test_settings import options, settings


def test_the_sdks_pauses() -> None:
    assert [SDK.backoff_s(n) for n in range(7)] == [1, 2, 4, 8, 16, 30, 30]
    assert [SDK.resubmit_s(n, 0.0) for n in range(6)] == [0.5, 1, 2, 4, 8, 10]
    assert (SDK.resubmit_s(1, -1.0), SDK.resubmit_s(1, 1.0)) == (0.75, 1.25)
    assert SDK.resubmit_s(9, 1.0) == 10.0  # the jitter does not exceed the longest


@given(st.integers(0, 10**9), st.floats(-1, 1))
def test_no_pause_is_longer_than_the_longest_however_long_the_trouble(count: int, chance: float) -> None:
    assert 0 < SDK.backoff_s(count) <= SDK.backoff_max_s
    assert 0 < SDK.resubmit_s(count, chance) <= SDK.resubmit_max_s


VALUES = {"TIME": ("250ms", 0.25), "N": ("7", 7), "yes|no": ("no", False)}


@pytest.mark.parametrize("constant", CONSTANTS, ids=lambda constant: constant.name)
def test_every_constant_of_a_custom_client_has_an_option(constant: Field[Any]) -> None:
    name = constant.name
    kind = "TIME" if name.endswith("_s") else "yes|no" if isinstance(getattr(SDK, name), bool) else "N"
    text, value = VALUES[kind]
    option = f"--client-{name.removesuffix('_s').replace('_', '-')}"
    if name == "resubmit_jitter":
        text, value = "0.5", 0.5
    preset = settings("--poll-preset", "custom", option, text).preset
    assert getattr(preset, name) == value
    assert {c.name for c in CONSTANTS if getattr(preset, c.name) != getattr(SDK, c.name)} == {name}
    assert preset.described == f"custom ({name}={getattr(preset, name)})"


def test_presets_are_as_they_are() -> None:
    assert settings().preset == PRESETS["sdk"]
    assert settings("--poll-preset", "sdk-pyqwest").preset.poll_timeout_s == 90
    custom = settings("--poll-preset", "custom").preset
    assert [getattr(custom, c.name) for c in CONSTANTS] == [getattr(SDK, c.name) for c in CONSTANTS]
    assert [preset.described for preset in (*PRESETS.values(), custom)] == [*PRESETS, "custom"]


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (
            ["--client-poll-timeout", "9s"],
            "--client-poll-timeout changes a client of your own. Add --poll-preset custom",
        ),
        (["--poll-preset", "custom", "--client-submits-at-once", "0"], "--client-submits-at-once should be from 1 to"),
        (["--poll-preset", "custom", "--client-bad-requests-allowed", "-1"], "should be from 0 to inf, found -1"),
        (["--poll-preset", "custom", "--client-backoff-factor", "nan"], "should be from 1 to 100, found nan"),
    ],
)
def test_bad_constants_are_refused(args: list[str], sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        settings(*args)


def test_a_choice_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        options("--client-resubmits", "maybe")
    assert "expected yes or no, found 'maybe'" in capsys.readouterr().err


def test_what_a_server_says_replaces_the_constants() -> None:
    assert client_config_of(b'{"some_flag":true}').applied_to(SDK) == SDK
    told = client_config_of(b'{"sample_no_retries":true,"inflight_response_bytes_semaphore_size":5}').applied_to(SDK)
    assert (told.resubmits, told.response_bytes, told.submit_bytes) == (False, 5, SDK.submit_bytes)
    with pytest.raises(BadAnswerError):
        client_config_of(b"<html>")
