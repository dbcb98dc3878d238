"""The SDK's submit rules, row by row."""

from __future__ import annotations

import pytest

from locustfiles.preset import PRESETS
from locustfiles.submitting import NO_ANSWER, Accepted, PauseClient, Refused, SubmitAgain, after_submit

SMALL, LARGE = 128 * 1024, 128 * 1024 + 1


@pytest.mark.parametrize(
    ("status", "retries", "elapsed_s", "size", "step"),
    [
        (200, 0, 0.0, SMALL, Accepted()),
        (200, 9, 999.0, LARGE, Accepted()),
        (429, 0, 0.0, SMALL, PauseClient(1.0)),
        (429, 0, 0.0, LARGE, PauseClient(5.0)),
        (NO_ANSWER, 0, 0.0, SMALL, SubmitAgain(1.0)),
        (408, 1, 3.0, SMALL, SubmitAgain(2.0)),
        (409, 4, 20.0, SMALL, SubmitAgain(16.0)),
        (503, 9, 100.0, SMALL, SubmitAgain(30.0)),
        (500, 9, 290.0, SMALL, SubmitAgain(10.0)),
        (202, 0, 0.0, SMALL, Accepted()),
        (402, 0, 0.0, SMALL, PauseClient(1.0)),
        (402, 0, 0.0, LARGE, PauseClient(5.0)),
        (500, 9, 300.0, SMALL, Refused("submit 500", anew=True)),
        (NO_ANSWER, 9, 301.0, SMALL, Refused("submit: no answer", anew=True)),
        (410, 0, 0.0, SMALL, Refused("submit 410")),
        (422, 0, 0.0, SMALL, Refused("submit 422")),
        (404, 0, 0.0, SMALL, Refused("submit 404")),
    ],
)
def test_what_follows_a_submit(status: int, retries: int, elapsed_s: float, size: int, step: object) -> None:
    assert after_submit(PRESETS["sdk"], status, retries, elapsed_s, size) == step


def test_402_is_final_when_the_pause_is_over() -> None:
    assert after_submit(PRESETS["sdk"], 402, 0, 0.0, SMALL, billing_pauses=False) == Refused("submit 402")
