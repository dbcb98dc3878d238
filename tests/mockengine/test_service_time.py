"""Service times: what is drawn, and what is said of words that describe none."""

from __future__ import annotations

import random
import statistics

import pytest
from scipy import stats

from mockengine.service_time import Fixed, Lognormal, ServiceTimeError, parse_service_time


@pytest.mark.parametrize(
    ("spec", "model"),
    [
        ("fixed:5s", Fixed(5.0)),
        ("fixed:250ms", Fixed(0.25)),
        ("fixed:0s", Fixed(0.0)),
        ("fixed:1.5m", Fixed(90.0)),
        ("lognormal:mean=5s,cv=0.8", Lognormal(5.0, 0.8)),
        ("lognormal:cv=0.8,max=20s,mean=5s", Lognormal(5.0, 0.8, 20.0)),
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
    ],
)
def test_other_words_are_refused_in_a_sentence_that_repeats_them(spec: str) -> None:
    with pytest.raises(ServiceTimeError, match=rf"found '.*{spec[-3:]}.*'\.$"):
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
