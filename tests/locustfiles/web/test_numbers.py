"""What the live page makes of numbers, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

import locustfiles.web
from tests.integration.browser import browser

SCRIPT = Path(locustfiles.web.__file__).parent / "static/numbers.js"


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with browser() as chromium:
        page = chromium.new_page()
        page.add_script_tag(path=SCRIPT)
        yield page


@pytest.mark.parametrize(
    ("values", "times", "rates"),
    [
        ([0, 5, 9], [0, 1, 2], [None, 5, 4]),
        ([0, 6, 12], [0, 0.5, 2], [None, 12, 4]),  # of moments before those at which they came
        ([0, 5, 5, 15], [0, 1, 1, 3], [None, 5, 5, 5]),  # the third came late
        ([0, 5, 5, 5, 5, 5, 15], [0, 1, 1, 1, 1, 1, 6], [None, 5, 5, 5, 5, None, 2]),  # for too long to go on as it was
        ([9, 0, 3], [0, 1, 2], [None, None, 3]),  # started anew
        ([None, 4, None, 6, 9], [None, 1, 2, 3, 4], [None, None, None, None, 3]),  # not measured
        ([0, 0, 0], [0, 1, 2], [None, 0, 0]),
        ([], [], []),
    ],
)
def test_growth_is_over_the_time_that_the_values_are_of(
    page: Page, values: list[float | None], times: list[float | None], rates: list[float | None]
) -> None:
    now = list(range(len(values)))
    assert page.evaluate("([values, times, now]) => growth(values, times, now)", [values, times, now]) == rates


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ([None, 1, None, None, 2], [None, 1, 1, 1, 2]),
        ([1, None, None, None, None, None, 0, None], [1, 1, 1, 1, None, None, 0, 0]),
        ([None], [None]),
    ],
)
def test_a_value_stands_for_those_that_came_late(
    page: Page, values: list[float | None], shown: list[float | None]
) -> None:
    assert page.evaluate("([values, now]) => held(values, now)", [values, list(range(len(values)))]) == shown


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("numbers([0, 0.25, 0.5, 1], 0.25)", ["0.00", "0.25", "0.50", "1.00"]),
        ("numbers([0, 500, 1000], 500)", ["0", "500", "1,000"]),
        ("sizes([0, 5e7, 1e8, 1.5e8], 5e7)", ["0 MB", "50 MB", "100 MB", "150 MB"]),
        ("sizes([0, 2.5e9, 5e9], 2.5e9)", ["0.0 GB", "2.5 GB", "5.0 GB"]),
        ("sizes([0, 0.5e6, 1e6], 0.5e6)", ["0.0 MB", "0.5 MB", "1.0 MB"]),
        ("size(170.4e6)", "170 MB"),
        ("size(1.2e9)", "1.20 GB"),
        ("size(null)", "–"),
        ("number(null)", "–"),
        ("number(1234.5678, 2)", "1,234.57"),
        ("clock(61)", "1:01"),
        ("clock(3661.4)", "1:01:01"),
    ],
)
def test_numbers_as_people_read_them(page: Page, call: str, text: Any) -> None:
    assert page.evaluate(call) == text
