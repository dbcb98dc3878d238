"""Schedules: absolute, exact in their counts and shares, the same for the same seed; and what is said of a bad spec."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from locustfiles.arrivals import ArrivalsError, Schedule, schedule
from locustfiles.ledger import share
from locustfiles.lengths import JobLengths
from locustfiles.traces import TraceError
from reports.schema import Stage

PRODUCTION_TRACE = Path(__file__).parents[3] / "shared/data/traces/azure_llm_2023_conv.csv"
HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
STAGES = [Stage(duration_s=2.0, rate_per_s=50.0, ramp=True), Stage(duration_s=1.0, rate_per_s=20.0)]

rates = st.floats(0.01, 1e5)


def open_schedule(spec: str, requests: int = 1000, seed: int = 0) -> Schedule:
    found = schedule(spec, [], requests, seed)
    assert found is not None
    return found


def trace(tmp_path: Path, rows: list[str]) -> str:
    path = tmp_path / "trace.csv"
    path.write_text(HEADER + "".join(f"{row}\n" for row in rows))
    return f"trace:{path}"


def test_closed_arrivals_have_no_schedule() -> None:
    assert schedule("closed", [], 10, 0) is None


@given(rates, st.integers(1, 2000))
def test_constant_arrivals_are_evenly_apart_from_the_start_on(rate: float, requests: int) -> None:
    due_s = open_schedule(f"constant:{rate}", requests).due_s
    assert due_s[0] == 0
    assert len(due_s) == requests
    assert np.allclose(np.diff(due_s) * rate, 1.0, rtol=1e-6)


@given(rates, st.integers(1, 500), st.integers(0, 2**40))
def test_poisson_arrivals_are_the_seeds_and_scale_with_the_rate(rate: float, requests: int, seed: int) -> None:
    due_s = open_schedule(f"poisson:{rate}", requests, seed).due_s
    assert due_s.tolist() == open_schedule(f"poisson:{rate}", requests, seed).due_s.tolist()
    assert np.allclose(open_schedule(f"poisson:{rate / 4}", requests, seed).due_s, 4 * due_s)
    assert due_s[0] > 0
    assert (np.diff(due_s) >= 0).all()
    assert due_s[0] != open_schedule(f"poisson:{rate}", requests, seed + 1).due_s[0]


def test_poisson_arrivals_are_a_poisson_process() -> None:
    """Gaps of mean and standard deviation 1/rate, and as many arrivals in a second as their variance."""
    due_s = open_schedule("poisson:50", 100_000).due_s
    gaps_s = np.diff(due_s)
    assert gaps_s.mean() == pytest.approx(0.02, rel=0.02)
    assert gaps_s.std() == pytest.approx(0.02, rel=0.02)
    counts = np.bincount(due_s.astype(int))[:-1]
    assert counts.var() == pytest.approx(counts.mean(), rel=0.1)


@given(st.sampled_from(["constant", "poisson"]), st.booleans(), st.integers(1, 300), st.integers(1, 9))
def test_the_workers_shares_are_the_whole_schedule(spread: str, staged: bool, requests: int, workers: int) -> None:
    found = schedule(spread, STAGES, requests, 7) if staged else open_schedule(f"{spread}:3", requests, 7)
    assert found is not None
    total = len(found.due_s)
    assert staged or total == requests
    shares = [found.share(workers, index) for index in range(workers)]
    assert [len(due_s) for due_s in shares] == [share(total, workers, index) for index in range(workers)]
    # Future n of the run is future n // workers of worker n % workers, as in WorkerRun.job.
    assert [shares[n % workers][n // workers] for n in range(total)] == found.due_s.tolist()


def test_a_trace_is_replayed_with_its_own_gaps_and_lengths(tmp_path: Path) -> None:
    """Its rows need not be in order, and times without a zone are of one zone."""
    spec = trace(
        tmp_path,
        ["2023-11-16 18:00:04,3,30", "2023-11-16 18:00:01.5000000,1,10", "2023-11-16T18:00:02,2,20"],
    )
    found = open_schedule(spec, 3)
    assert found.due_s.tolist() == [0.0, 0.5, 2.5]
    assert found.lengths is not None
    assert [found.lengths.of(number) for number in range(3)] == [JobLengths(n, 10 * n) for n in (1, 2, 3)]


def test_a_faster_trace_that_begins_again_after_its_mean_gap(tmp_path: Path) -> None:
    found = open_schedule(
        trace(tmp_path, ["2023-01-01 00:00:00Z,1,1", "2023-01-01 01:00:04+01:00,2,2"]) + ",speed=2", 5
    )
    assert found.due_s.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert found.lengths is not None
    assert [found.lengths.of(number).max_tokens for number in range(5)] == [1, 2, 1, 2, 1]


@given(
    times_s=st.lists(st.integers(0, 10**6), min_size=2, max_size=30).filter(lambda times: len(set(times)) > 1),
    laps=st.integers(1, 4),
)
def test_replays_never_go_back_in_time(tmp_path_factory: pytest.TempPathFactory, times_s: list[int], laps: int) -> None:
    rows = [str(np.datetime64(10**9 + at, "s")) + ",5,5" for at in times_s]
    found = open_schedule(trace(tmp_path_factory.mktemp("trace"), rows), laps * len(rows))
    assert found.due_s[0] == 0
    assert (np.diff(found.due_s) >= 0).all()
    assert found.due_s[len(rows) - 1] == max(times_s) - min(times_s)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("", "closed, constant:RATE, poisson:RATE .* found ''"),
        ("open", "found 'open'"),
        ("constant", "constant:RATE should have a number above 0, found ''"),
        ("closed:5", "found 'closed:5'"),
        ("trace:", "found 'trace:'"),
        ("constant:", "constant:RATE should have a number above 0, found ''"),
        ("constant:fast", "constant:RATE should have a number above 0, found 'fast'"),
        ("constant:0", "above 0, found '0'"),
        ("poisson:-1", "poisson:RATE should have a number above 0, found '-1'"),
        ("poisson:nan", "above 0, found 'nan'"),
        ("poisson:inf", "above 0, found 'inf'"),
        ("trace:x.csv,speed=0", "speed=FACTOR should have a number above 0, found '0'"),
        ("trace:x.csv,speed=", "speed=FACTOR should have a number above 0, found ''"),
    ],
)
def test_bad_specs_are_refused(spec: str, sentence: str) -> None:
    with pytest.raises(ArrivalsError, match=sentence):
        schedule(spec, [], 10, 0)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ContextTokens,GeneratedTokens\n1,1\n", "no column TIMESTAMP"),
        (HEADER + "2023-01-01,1,1\nsoon,1,1\n", "Line 3 .* TIMESTAMP such as .*, found 'soon'"),
        (HEADER + ",1,1\n", "Line 2 .* found ''"),
        (HEADER + "2023-01-01,1,0\n", "two whole numbers above 0"),
        (HEADER + "2023-01-01,1,1\n", "All requests .* same time"),
        (HEADER + "2023-01-01,1,1\n2023-01-01,1,1\n", "All requests .* same time"),
        (HEADER, "no rows"),
    ],
)
def test_a_trace_without_times_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "bad,trace.csv").write_text(text)
    with pytest.raises(TraceError, match=sentence):
        schedule(f"trace:{tmp_path / 'bad,trace.csv'}", [], 10, 0)


@pytest.mark.skipif(not PRODUCTION_TRACE.exists(), reason="the Azure LLM inference trace 2023 is not here")
def test_the_production_trace_spans_its_hour() -> None:
    found = open_schedule(f"trace:{PRODUCTION_TRACE},speed=60", 19_366)
    assert found.due_s[-1] == pytest.approx(58.4, abs=0.1)
    assert found.lengths is not None
    assert found.lengths.of(0) == JobLengths(374, 44)
