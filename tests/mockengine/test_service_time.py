"""Service times: what is drawn, and what is said of words that describe none."""

from __future__ import annotations

import random
import re
import statistics
from pathlib import Path

import pytest
from scipy import stats

from mockengine.service_time import (
    Barrier,
    Fixed,
    LoadPoints,
    LoadSlope,
    Lognormal,
    ServiceTimeError,
    Tokens,
    parse_service_time,
)


@pytest.mark.parametrize(
    ("spec", "model"),
    [
        ("fixed:5s", Fixed(5.0)),
        ("fixed:250ms", Fixed(0.25)),
        ("fixed:0s", Fixed(0.0)),
        ("fixed:1.5m", Fixed(90.0)),
        ("lognormal:mean=5s,cv=0.8", Lognormal(5.0, 0.8)),
        ("lognormal:cv=0.8,max=20s,mean=5s", Lognormal(5.0, 0.8, 20.0)),
        ("fixed:600us", Fixed(0.0006)),
        ("tokens:ttft=200ms,tpot=600us", Tokens(0.2, 0.0006)),
        ("load:ttft=1s,tpot=10ms,slope=1ms", LoadSlope(1.0, 0.01, 0.001)),
        ("load:ttft=1s,64=20ms,8=10ms", LoadPoints(1.0, ((8, 0.01), (64, 0.02)))),
        ("barrier:32", Barrier(32)),
        ("barrier:32,timeout=5s", Barrier(32, 5.0)),
    ],
)
def test_specs(spec: str, model: object) -> None:
    assert parse_service_time(spec) == model


@pytest.mark.parametrize(
    "spec",
    [
        "",
        "fixed",
        "fixed:5",
        "fixed:-1s",
        "fixed:nans",
        "fixed:1000000000000s",
        "uniform:1s",
        "lognormal:",
        "lognormal:mean=5s",
        "lognormal:mean=5s,cv=x",
        "lognormal:mean=5s,cv=0",
        "lognormal:mean=0s,cv=1",
        "lognormal:mean=-1s,cv=1",
        "lognormal:mean=5s,cv=inf",
        "lognormal:mean=5s,cv=1e200",
        "lognormal:mean=5s,cv=1,max=0s",
        "lognormal:mean=5s,cv=1,min=1s",
        "tokens:ttft=1s",
        "tokens:5s",
        "load:ttft=1s",
        "load:ttft=1s,tpot=1ms",
        "load:ttft=1s,0=1ms",
        "load:tpot=1s,slope=1ms",
        "barrier:0",
        "barrier:x",
        "barrier:",
        "barrier:5,patience=1s",
        "trace:",
    ],
)
def test_other_words_are_refused_in_a_sentence_that_repeats_them(spec: str) -> None:
    with pytest.raises(ServiceTimeError, match=rf"'{re.escape(spec)}'"):
        parse_service_time(spec)


def test_lognormal_draws_come_from_that_distribution() -> None:
    numbers = random.Random(1)
    draws = [Lognormal(5.0, 0.8).draw(numbers, 16, 1) for _ in range(20_000)]
    assert statistics.fmean(draws) == pytest.approx(5.0, rel=0.03)
    assert statistics.stdev(draws) / statistics.fmean(draws) == pytest.approx(0.8, rel=0.05)
    sigma = 0.703_5  # sqrt(log(1 + 0.8**2))
    assert stats.kstest(draws, stats.lognorm(sigma, scale=5.0 / 1.280_6).cdf).pvalue > 0.001


def test_draws_beyond_max_are_cut_to_it_and_the_same_seed_draws_the_same() -> None:
    draws = [Lognormal(5.0, 0.8, 20.0).draw(random.Random(seed), 16, 1) for seed in range(2000)]
    assert max(draws) == 20.0
    assert draws == [min(20.0, Lognormal(5.0, 0.8).draw(random.Random(seed), 16, 1)) for seed in range(2000)]


@pytest.mark.parametrize(
    ("spec", "max_tokens", "occupied", "seconds"),
    [
        ("tokens:ttft=200ms,tpot=10ms", 1, 9, 0.2),
        ("tokens:ttft=200ms,tpot=10ms", 101, 9, 1.2),
        ("load:ttft=1s,tpot=10ms,slope=1ms", 101, 1, 2.0),
        ("load:ttft=1s,tpot=10ms,slope=1ms", 101, 11, 3.0),
        ("load:ttft=1s,8=10ms,64=20ms", 101, 8, 2.0),
        ("load:ttft=1s,8=10ms,64=20ms", 101, 36, 2.5),
        ("load:ttft=1s,8=10ms,64=20ms", 101, 1, 2.0),
        ("load:ttft=1s,8=10ms,64=20ms", 101, 500, 3.0),
        ("barrier:5", 101, 500, 0.0),
    ],
)
def test_the_request_and_the_load_make_the_time(spec: str, max_tokens: int, occupied: int, seconds: float) -> None:
    drawn = parse_service_time(spec).draw(random.Random(1), max_tokens, occupied)
    assert drawn == pytest.approx(seconds)


def test_a_trace_is_played_over_and_over(tmp_path: Path) -> None:
    path = tmp_path / "durations"
    path.write_text("0.5\n2\n1e-3\n")
    model = parse_service_time(f"trace:{path}")
    assert [model.draw(random.Random(1), 16, 1) for _ in range(5)] == [0.5, 2, 0.001, 0.5, 2]


@pytest.mark.parametrize("content", ["", "1\nx\n", "1\n-1\n", "nan", "inf"])
def test_a_file_that_is_no_trace_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "durations"
    path.write_text(content)
    with pytest.raises(ServiceTimeError, match=rf"{path}.* should hold seconds, one a line"):
        parse_service_time(f"trace:{path}")
