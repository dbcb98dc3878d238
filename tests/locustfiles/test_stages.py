"""Loads that change: how many futures each stage has and when, and what is said of a file that is wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from locustfiles.stages import Spread, Stages, StagesError, due_times, length_s, outstanding_at, read_stages
from reports.schema import Stage

spreads: st.SearchStrategy[Spread] = st.sampled_from(["constant", "poisson"])


def rate(duration_s: float, rate_per_s: float, ramp: bool = False) -> Stage:
    return Stage(duration_s=duration_s, rate_per_s=rate_per_s, ramp=ramp)


def held(duration_s: float, outstanding: int, ramp: bool = False) -> Stage:
    return Stage(duration_s=duration_s, outstanding=outstanding, ramp=ramp)


rate_stages = st.lists(
    st.builds(rate, st.floats(0.01, 100), st.one_of(st.just(0.0), st.floats(0.01, 50)), st.booleans()),
    min_size=1,
    max_size=6,
)


@pytest.mark.parametrize(
    ("stages", "bounds_s", "expected"),
    [
        ([rate(10, 20)], [0, 5, 10], [100, 100]),
        ([rate(10, 20), rate(5, 0), rate(10, 100)], [0, 10, 15, 25], [200, 0, 1000]),
        ([rate(10, 20, ramp=True)], [0, 5, 10], [25, 75]),  # a quarter in the first half
        ([rate(10, 30), rate(10, 10, ramp=True), rate(10, 10)], [0, 10, 15, 20, 30], [300, 125, 75, 100]),
        ([rate(10, 20), rate(10, 0, ramp=True)], [0, 10, 15, 20], [200, 75, 25]),
        ([rate(1, 0), rate(10, 20, ramp=True)], [0, 1, 6, 11], [0, 25, 75]),
        ([rate(0.5, 1), rate(0.5, 1)], [0, 1], [1]),  # less than one a stage adds up
    ],
)
def test_how_many_futures_come_when(stages: list[Stage], bounds_s: list[float], expected: list[int]) -> None:
    counts = np.histogram(due_times(stages, "constant", 0), bins=bounds_s)[0]
    assert counts.sum() == sum(expected)
    assert counts == pytest.approx(np.array(expected), abs=1)


@given(rate_stages, spreads, st.integers(0, 1000))
def test_futures_come_in_order_within_the_stages_and_not_where_the_rate_is_nothing(
    stages: list[Stage], spread: Spread, seed: int
) -> None:
    due_s = due_times(stages, spread, seed)
    assert due_s.tolist() == due_times(stages, spread, seed).tolist()
    assert (np.diff(due_s) >= 0).all()
    assert ((due_s >= 0) & (due_s <= length_s(stages))).all()
    start_s = 0.0
    for before, stage in zip([None, *stages], stages, strict=False):
        end_s = start_s + stage.duration_s
        if not stage.rate_per_s and not (stage.ramp and before is not None and before.rate_per_s):
            assert not ((due_s > start_s + 1e-6) & (due_s < end_s - 1e-6)).any()
        start_s = end_s


@given(st.floats(0.1, 1000), st.floats(0.1, 100), st.integers(1, 7))
def test_a_stage_cut_into_equal_ones_is_the_same(duration_s: float, level: float, parts: int) -> None:
    whole = due_times([rate(duration_s, level)], "constant", 0)
    cut = due_times([rate(duration_s / parts, level)] * parts, "constant", 0)
    assert abs(len(cut) - len(whole)) <= 1  # the last may fall on the end
    both = min(len(cut), len(whole))
    assert np.allclose(cut[:both], whole[:both], rtol=0, atol=1e-6 * duration_s)


def test_a_ramp_s_rate_grows_evenly() -> None:
    """From 10 to 50 a second in 40 s it is 10 + t."""
    due_s = due_times([rate(1, 10), rate(40, 50, ramp=True)], "constant", 0)
    in_ramp = due_s[due_s > 1.5]
    middle_s = (in_ramp[1:] + in_ramp[:-1]) / 2 - 1
    assert 1 / np.diff(in_ramp) == pytest.approx(10 + middle_s, rel=0.01)


def test_poisson_stages_have_the_rates_of_their_stages_and_a_number_by_chance() -> None:
    stages = [rate(10, 100), rate(10, 300, ramp=True)]
    runs = [due_times(stages, "poisson", seed) for seed in range(200)]
    counts = np.array([np.histogram(due_s, bins=[0, 10, 15, 20])[0] for due_s in runs])
    assert counts.mean(axis=0) == pytest.approx(np.array([1000, 750, 1250]), rel=0.02)
    assert counts.var(axis=0) == pytest.approx(np.array([1000, 750, 1250]), rel=0.4)


@pytest.mark.parametrize(
    ("at_s", "outstanding"),
    [(0, 100), (9.9, 100), (10, 100), (15, 300), (19.999, 500), (20, 50), (29, 50), (35, 25), (40, 0), (1e9, 0)],
)
def test_outstanding_over_time(at_s: float, outstanding: int) -> None:
    stages = [held(10, 100), held(10, 500, ramp=True), held(10, 50), held(10, 0, ramp=True)]
    assert outstanding_at(stages, at_s) == outstanding


def test_the_first_ramp_begins_with_nothing() -> None:
    assert [outstanding_at([held(10, 40, ramp=True)], at_s) for at_s in (0, 2.5, 5)] == [0, 10, 20]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[[stages]]\nduration = '1.5m'\nrate = 10\n[[stages]]\nduration = '5'\nrate = 0.5\nramp = true\n",
            Stages("constant", [rate(90, 10), rate(5, 0.5, ramp=True)]),
        ),
        ("arrivals = 'poisson'\nstages = [{duration = '1s', rate = 1}]", Stages("poisson", [rate(1, 1)])),
        ("stages = [{duration = '1s', outstanding = 9}]", Stages(None, [held(1, 9)])),
    ],
)
def test_files(tmp_path: Path, text: str, expected: Stages) -> None:
    (tmp_path / "stages.toml").write_text(text)
    assert read_stages(tmp_path / "stages.toml") == expected


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("stages = [", "is no TOML"),
        ("", "missing required field `stages`"),
        ("stages = []", "ask for no future at all"),
        ("stages = [{duration = '1s', rate = 0}]", "ask for no future at all"),
        ("stages = [{duration = '1s', rate = 1, burst = 3}]", "unknown field `burst`"),
        ("arrivals = 'closed'\nstages = [{duration = '1s', rate = 1}]", "Invalid enum value 'closed'"),
        ("stages = [{duration = 5, rate = 1}]", "Expected `str`, got `int`"),
        ("stages = [{duration = 'long', rate = 1}]", "Stage 1 in .*length of time such as 300s, .* found 'long'"),
        ("stages = [{duration = '0s', rate = 1}]", "Stage 1 in .* should last some time, found '0s'"),
        ("stages = [{duration = '1s', rate = 1}, {duration = '1s'}]", "Stage 2 in .* either rate or outstanding"),
        ("stages = [{duration = '1s', rate = 1, outstanding = 1}]", "Stage 1 in .* either rate or outstanding"),
        ("stages = [{duration = '1s', rate = -1}]", "level of 0 or more, found -1"),
        ("stages = [{duration = '1s', rate = nan}]", "level of 0 or more, found nan"),
        ("stages = [{duration = '1s', rate = inf}]", "level of 0 or more, found inf"),
        ("stages = [{duration = '1s', rate = 1}, {duration = '1s', outstanding = 1}]", "rates and numbers outstanding"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "stages.toml").write_text(text)
    with pytest.raises(StagesError, match=sentence):
        read_stages(tmp_path / "stages.toml")


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StagesError, match=r"Cannot read the stages in .*: no such file"):
        read_stages(tmp_path / "nowhere.toml")
