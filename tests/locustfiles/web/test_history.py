"""The bounded history of a run."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from locustfiles.web.history import History, Sample, merged


def sample(second: int, lag_s: float | None = None) -> Sample:
    return Sample(
        t_s=second, delivered=10 * second, failed=0, lost=0, outstanding=5, target_lag_s=lag_s, target_cpu_s=second
    )


@given(count=st.integers(1, 500), half_limit=st.integers(2, 20))
def test_it_is_bounded_and_reaches_from_start_to_end(count: int, half_limit: int) -> None:
    history = History(limit=2 * half_limit)
    for second in range(count):
        history.add(sample(second))
        assert 1 <= len(history) <= 2 * half_limit
    columns = history.columns()
    assert columns["t_s"] == sorted(set(columns["t_s"]))
    assert columns["t_s"][-1] == count - 1
    assert columns["t_s"][0] < history.stride
    # Each kept sample is a moment that there was, with the counters of that moment.
    assert columns["delivered"] == [10 * second for second in columns["t_s"]]


@given(count=st.integers(1, 300), peak=st.integers(0, 299))
def test_no_peak_is_lost(count: int, peak: int) -> None:
    history = History(limit=8)
    for second in range(count):
        history.add(sample(second, lag_s=9.0 if second == peak else 0.5))
    assert max(history.columns()["target_lag_s"]) == (9.0 if peak < count else 0.5)


@given(counts=st.lists(st.integers(1, 30), max_size=12))
def test_a_reader_who_asks_for_what_is_new_has_the_whole(counts: list[int]) -> None:
    """The reader's rule is that of the page: the last sample again, everything when the stride has changed."""
    history, read, stride, second = History(limit=10), list[float](), 0, 0
    for count in counts:
        for _ in range(count):
            history.add(sample(second))
            second += 1
        start = max(0, len(read) - 1) if history.stride == stride else 0
        read[start:] = history.columns(start)["t_s"]
        stride = history.stride
        assert read == history.columns()["t_s"]


def test_what_was_not_measured_gives_way_to_what_was() -> None:
    both = merged(sample(1, lag_s=0.5), sample(2)._replace(target_cpu_s=None))
    assert (both.t_s, both.delivered, both.target_lag_s, both.target_cpu_s) == (2, 20, 0.5, 1)
