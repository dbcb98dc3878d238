"""What the time of a future was spent on."""

from __future__ import annotations

import pytest

from locustfiles.phases import phases


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("unfetched;dur=1500", {"work": 3.25, "unfetched": 1.5, "delivery": 0.25}),
        ("db;dur=53.2, unfetched;dur=1500.000;desc=x", {"work": 3.25, "unfetched": 1.5, "delivery": 0.25}),
        ("unfetched;dur=9000", {"work": 0.0, "unfetched": 9.0, "delivery": 0.25}),  # of an earlier submit of it
        ("", {"delivery": 0.25}),
        ("notunfetched;dur=1500", {"delivery": 0.25}),
        ("unfetched", {"delivery": 0.25}),
        ("unfetched;dur=-1", {"delivery": 0.25}),
        ("unfetched;dur=soon", {"delivery": 0.25}),
    ],
)
def test_the_target_s_part_is_told_apart(header: str, expected: dict[str, float]) -> None:
    assert phases(header, 5.0, 0.25) == pytest.approx(expected)
