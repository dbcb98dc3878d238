"""The cost of a result beside how many wait: points and their sentence, from rows made for the purpose."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from reports.cpu_by_outstanding import CpuByOutstanding, cpu_by_outstanding, fewest_and_most
from reports.schema import ResourceRow, TimelineRow

MakeRow = Callable[..., TimelineRow]
MakeSample = Callable[..., ResourceRow]


def test_a_point_is_the_cpu_of_ten_seconds_results_and_the_mean_number_that_waited(
    make_row: MakeRow, make_sample: MakeSample
) -> None:
    # 5 results a second at 2 ms while 100 wait, then 20 a second at 30 ms while the number rises from 1,000 to 2,000.
    timeline = [make_row(0, delivered=0, outstanding=100), make_row(20, delivered=100, outstanding=100)]
    timeline += [make_row(20.001, delivered=100, outstanding=1000), make_row(30, delivered=300, outstanding=2000)]
    timeline.append(make_row(31, delivered=300, outstanding=0))
    resources = [make_sample(0, target_cpu_s=7.0), make_sample(20, target_cpu_s=7.2)]
    resources += [make_sample(25, target_cpu_s=None), make_sample(30, target_cpu_s=13.2), make_sample(31)]
    resources.append(make_sample(31.0, target_cpu_s=13.2))
    points = cpu_by_outstanding(timeline, resources)
    assert points.cpu_s == pytest.approx([0.002, 0.002, 0.030], rel=1e-3)
    assert points.outstanding == pytest.approx([100, 100, 1500], rel=1e-3)


def test_seconds_with_few_results_are_no_measurement(make_row: MakeRow, make_sample: MakeSample) -> None:
    timeline = [make_row(0, delivered=0), make_row(10, delivered=19), make_row(20, delivered=39), make_row(21)]
    resources = [make_sample(0, target_cpu_s=1.0), make_sample(20, target_cpu_s=2.0), make_sample(21, target_cpu_s=2.0)]
    assert len(cpu_by_outstanding(timeline, resources).cpu_s) == 1


def test_nothing_measured_is_no_point(make_row: MakeRow, make_sample: MakeSample) -> None:
    timeline = [make_row(0), make_row(60, delivered=1000)]
    assert not cpu_by_outstanding(timeline, [make_sample(0), make_sample(60)]).cpu_s.size
    assert not cpu_by_outstanding([], [make_sample(0, target_cpu_s=1.0)]).cpu_s.size


def test_the_sentence_sets_the_fewest_beside_the_most() -> None:
    waiting = [4000.0, 20, 3000, 10, 500, 600, 700, 800, 900, 950]
    cost = [0.040, 0.002, 0.036, 0.001, 9, 9, 9, 9, 9, 9]
    sentence = fewest_and_most(CpuByOutstanding(np.array(waiting), np.array(cost)))
    assert sentence == "Typically 1.50 ms with 15 outstanding, and 38 ms with 3,500."
