"""The steady window starts after the ramp and ends before the drain."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from reports.schema import TimelineRow
from reports.steady import Window, steady_window

MakeRow = Callable[..., TimelineRow]


def run(make_row: MakeRow, ramp: int, level: int, drain: int) -> list[TimelineRow]:
    """A ramp to 100 outstanding, ``level`` seconds at which 10 a second are submitted, and a drain."""
    rows = [
        make_row(second, submitted=100 * second // ramp, outstanding=100 * second // ramp) for second in range(ramp)
    ]
    rows += [make_row(ramp + second, submitted=100 + 10 * second, outstanding=100) for second in range(level + 1)]
    submitted = rows[-1].submitted
    left = [100 - 100 * second // drain for second in range(1, drain + 1)]
    return rows + [
        make_row(ramp + level + at, submitted=submitted, outstanding=n) for at, n in enumerate(left, start=1)
    ]


@pytest.mark.parametrize(
    ("ramp", "level", "drain", "service_time_s", "window"),
    [
        (10, 60, 10, 0.0, (10, 69)),
        (10, 60, 10, 5.0, (15, 69)),
        (10, 60, 10, 5.5, (16, 69)),
        (40, 60, 10, 0.0, (38, 99)),  # 95 of 100 after 38 s
        (1, 6, 1, 0.0, (1, 6)),
        (1, 5, 1, 0.0, None),  # only 4 s would remain
        (1, 30, 1, 15.0, None),  # less than two service times would
        (1, 30, 1, 60.0, None),
    ],
)
def test_steady_window(
    make_row: MakeRow, ramp: int, level: int, drain: int, service_time_s: float, window: tuple[float, float] | None
) -> None:
    timeline = run(make_row, ramp, level, drain)
    first_s = timeline[0].monotonic_s
    found = steady_window(timeline, service_time_s)
    assert found == (None if window is None else Window(first_s + window[0], first_s + window[1]))


def test_open_arrivals_have_no_ramp(make_row: MakeRow) -> None:
    """However outstanding wanders, only a service time is left out at the start."""
    timeline = [make_row(at, submitted=10 * at, outstanding=50 + at) for at in range(61)]
    first_s = timeline[0].monotonic_s
    assert steady_window(timeline, 5.0, open_arrivals=True) == Window(first_s + 5, first_s + 59)
    assert steady_window(timeline, 5.0) is None


def test_a_run_without_rows_or_without_submits_has_none(make_row: MakeRow) -> None:
    assert steady_window([]) is None
    assert steady_window([make_row(second) for second in range(60)]) is None
