"""When a held engine is let go, and what is said of the target's memory then."""

from __future__ import annotations

import msgspec
import pytest

from locustfiles.facts import all_accepted, held_note
from locustfiles.measures import Totals, total
from reports.schema import FutureCounts, ResourceRow
from tests.locustfiles.test_settings import settings


def totals(accepted: int, outstanding: int, failed: int) -> Totals:
    counts = FutureCounts(submitted=outstanding + failed, failed=failed)
    return msgspec.structs.replace(total([]), futures=counts, accepted=accepted, outstanding=outstanding)


@pytest.mark.parametrize(
    ("accepted", "failed", "asked", "all_there"),
    [
        (99, 0, ("--outstanding", "100"), False),
        (100, 0, ("--outstanding", "100"), True),
        (69, 0, ("--requests", "70"), False),
        (70, 0, ("--requests", "70"), True),
        (98, 2, ("--outstanding", "100"), True),  # nobody waits for what the target refused
    ],
)
def test_an_engine_is_held_until_all_are_accepted(
    accepted: int, failed: int, asked: tuple[str, ...], all_there: bool
) -> None:
    assert all_accepted(totals(accepted, 100 - failed, failed), settings(*asked)) is all_there


def row(rss_bytes: int | None) -> ResourceRow:
    return ResourceRow(monotonic_s=0.0, unix_s=0.0, target_rss_bytes=rss_bytes)


def test_memory_is_told_for_each_future_above_the_start() -> None:
    note = held_note(totals(1000, 1000, 0), 12.3, [row(60_000_000), row(70_000_000), row(64_000_000)])
    assert note == (
        "1,000 futures were outstanding at once when the engine was let go, after 12 s. The target's memory was 64 MB "
        "then, 4.0 kB a future above its start."
    )


@pytest.mark.parametrize("resources", [[], [row(None), row(5)], [row(5), row(None)]])
def test_memory_that_was_not_seen_is_not_told(resources: list[ResourceRow]) -> None:
    assert held_note(totals(7, 7, 0), 1, resources).endswith("after 1 s.")


def test_no_future_has_no_share_of_the_memory() -> None:
    assert held_note(totals(0, 0, 7), 1, [row(5), row(6)]).endswith("after 1 s.")
