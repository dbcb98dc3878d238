"""What a sampler that polls its session is told: every end once, in order, and nothing of another's."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from server_under_test.completions import Completions
from server_under_test.futures import CLONE_STRIDE, Future, Identity, Sampler

FIRST = 1_000


def future(number: int, session: str = "s", clone: int = 0) -> Future:
    return Future(f"boot-{number}", Identity(session, clone * CLONE_STRIDE + number), b"")


samplers = st.builds(Sampler, st.sampled_from(["s", "t"]), st.integers(0, 1))
steps = st.lists(st.tuples(st.sampled_from(["end", "poll", "poll again", "drop"]), samplers), max_size=60)


@given(steps)
def test_every_sampler_sees_each_of_its_ends_once_in_order(steps: list[tuple[str, Sampler]]) -> None:
    completions = Completions(FIRST)
    cursors: dict[Sampler, int] = {}
    unseen: dict[Sampler, list[Future]] = {}
    for number, (step, sampler) in enumerate(steps):
        expected = unseen.setdefault(sampler, [])
        cursor = cursors.get(sampler, 0)
        if step == "end":
            ended = future(number, *sampler)
            completions.add(ended)
            expected.append(ended)
        elif step == "drop" and expected:
            completions.discard(expected.pop(0))
        elif step == "poll again":  # the answer got lost, so that the client asks with the cursor it has
            assert completions.after(sampler, cursor)[0] == expected
        elif step == "poll":
            found, cursors[sampler] = completions.after(sampler, cursor)
            assert found == expected
            assert cursors[sampler] >= cursor
            assert completions.after(sampler, cursors[sampler]) == ([], cursors[sampler])
            unseen[sampler] = []


def test_whoever_watches_is_told_once_of_its_own() -> None:
    completions = Completions(FIRST)
    told: list[str] = []

    def watcher(name: str) -> None:
        told.append(name)

    first, second = (lambda: watcher("first")), (lambda: watcher("second"))
    completions.watch(Sampler("s", 0), first)
    completions.watch(Sampler("s", 0), second)
    completions.unwatch(Sampler("s", 0), second)
    completions.add(future(1, "t"))
    completions.add(future(1, "s", clone=1))
    assert told == []
    for number in (2, 3):
        completions.add(future(number))
    assert told == ["first"]


def test_nothing_is_left_of_samplers_that_are_done() -> None:
    completions = Completions(FIRST)
    one = future(1)
    completions.add(one)
    _, cursor = completions.after(Sampler("s", 0), 0)
    completions.after(Sampler("s", 0), cursor)
    completions.discard(one)
    completions.watch(Sampler("s", 1), print)
    completions.unwatch(Sampler("s", 1), print)
    assert completions._events == {}
    assert one.completion is None


def test_futures_without_identity_are_nobodys() -> None:
    completions = Completions(FIRST)
    nobody = Future("boot-1", None, b"")
    completions.add(nobody)
    completions.discard(nobody)
    assert nobody.completion is None
