"""Restarts told by counters."""

from __future__ import annotations

from typing import Any

import pytest

from reports.restarts import RestartWatch
from reports.schema import ResourceRow


def row(**cells: Any) -> ResourceRow:
    return ResourceRow(monotonic_s=0.0, unix_s=0.0, **cells)


@pytest.mark.parametrize(
    ("cells", "sentences"),
    [
        ([{"target_cpu_s": 1.0}, {"target_cpu_s": 1.0}, {"target_cpu_s": 2.0}], []),
        ([{"target_cpu_s": 9.0}, {}, {"target_cpu_s": 0.5}, {"target_cpu_s": 0.6}], ["The target was started anew."]),
        ([{"target_results_served": 9}, {"target_results_served": 0}], ["The target was started anew."]),
        (
            [{"engine_slot_seconds": 9.0, "engine_cpu_s": 1.0}, {"engine_slot_seconds": 0.0, "engine_cpu_s": 2.0}],
            ["The engine was started anew."],
        ),
    ],
)
def test_a_counter_that_falls_is_a_restart(cells: list[dict[str, Any]], sentences: list[str]) -> None:
    watch = RestartWatch()
    assert [sentence for one in cells for sentence in watch.seen(row(**one))] == sentences
