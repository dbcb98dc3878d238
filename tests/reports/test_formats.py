"""Numbers as people read them, and the progress line made of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reports import formats
from reports.progress import progress_line
from reports.schema import TimelineRow


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1 kB"),
        (95e6, "95 MB"),
        (8.9e9, "8.90 GB"),
        (12e12, "12000.00 GB"),
    ],
)
def test_size(value: float | None, text: str) -> None:
    assert formats.size(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (0, "0.00 ms"),
        (0.000002, "2 µs"),
        (0.0004, "0.40 ms"),
        (0.0123, "12 ms"),
        (0.9994, "999 ms"),
        (1.234, "1.23 s"),
        (45.04, "45.0 s"),
    ],
)
def test_seconds(value: float | None, text: str) -> None:
    assert formats.seconds(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(None, "–"), (0.4, "0 s"), (59.6, "1 min 00 s"), (291, "4 min 51 s"), (11_100, "3 h 05 min")]
)
def test_duration(value: float | None, text: str) -> None:
    assert formats.duration(value) == text


@pytest.mark.parametrize(("value", "text"), [(None, "–"), (0.25, "0.2/s"), (99.94, "99.9/s"), (410.4, "410/s")])
def test_rate(value: float | None, text: str) -> None:
    assert formats.rate(value) == text


def test_the_progress_line(make_row: Callable[..., TimelineRow]) -> None:
    earlier = make_row(0, delivered=8_265)
    now = make_row(10, delivered=12_345, outstanding=17_000, re_polls=1_234, failed=1, lost=2)
    assert progress_line(earlier, now, 131_072, 3_210_000_000) == (
        "12,345 of 131,072 delivered | 408/s | 17,000 outstanding | 1,234 re-polls | 3 failed | server 3.21 GB | "
        "4 min 51 s left"
    )


def test_the_progress_line_before_anything_is_known(make_row: Callable[..., TimelineRow]) -> None:
    first = make_row(0)
    for earlier in (None, first):
        line = progress_line(earlier, first, 1000)
        assert line.startswith("0 of 1,000 delivered | ")
        assert line.endswith("server – | – left")
