"""Predicted retention against counting each result by itself."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.retention import predicted_retention
from reports.schema import TargetSettings, TimelineRow


def target(ttl_s: float | None, sweep_s: float | None) -> TargetSettings:
    return TargetSettings(url="http://127.0.0.1:8001", retrieved_ttl_s=ttl_s, sweep_interval_s=sweep_s)


@given(
    delivered=st.lists(st.integers(0, 10**9), min_size=1, max_size=60),
    ttl_s=st.integers(1, 80),
    sweep_s=st.integers(0, 9),
)
def test_it_is_what_was_delivered_within_the_time_to_live(delivered: list[int], ttl_s: int, sweep_s: int) -> None:
    # On whole seconds there is nothing to interpolate: each second's results are kept for ttl + sweep seconds.
    rows = [
        TimelineRow(
            **dict.fromkeys(TimelineRow.__struct_fields__, 0) | {"monotonic_s": second, "delivered_bytes": total}
        )
        for second, total in enumerate(sum(delivered[: at + 1]) for at in range(len(delivered)))
    ]
    kept = [sum(delivered[max(0, at + 1 - ttl_s - sweep_s) : at + 1]) for at in range(len(delivered))]
    predicted = predicted_retention(rows, target(ttl_s, sweep_s))
    assert predicted is not None
    assert predicted == pytest.approx(kept)


def test_between_rows_delivery_is_even(make_row: Callable[..., TimelineRow]) -> None:
    rows = [make_row(0), make_row(10, delivered_bytes=1000), make_row(20, delivered_bytes=1000)]
    predicted = predicted_retention(rows, target(12.5, None))
    assert predicted is not None
    assert list(predicted) == [0, 1000, 250]


def test_what_is_acknowledged_is_kept_no_longer_than_a_sweep(make_row: Callable[..., TimelineRow]) -> None:
    rows = [make_row(at, delivered_bytes=100 * at) for at in range(5)]
    predicted = predicted_retention(rows, msgspec.structs.replace(target(300.0, 1.0), acknowledged=True))
    assert predicted is not None
    assert list(predicted) == [0, 100, 100, 100, 100]


def test_it_is_not_known_without_the_time_to_live(make_row: Callable[..., TimelineRow]) -> None:
    assert predicted_retention([make_row(0)], target(None, 1.0)) is None
    assert predicted_retention([], target(300.0, 1.0)) is None
