"""Barriers, and holding and letting go."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mockengine.gate import Gate


class Arrivals:
    """Requests that come to a gate, numbered; gone: those that may go on."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self.gone: list[int] = []
        self.releases = [lambda number=number: self.gone.append(number) for number in range(20)]

    def arrive(self, *numbers: int) -> None:
        for number in numbers:
            if self.gate.arrive(self.releases[number]):
                self.gone.append(number)


def test_an_open_gate_lets_all_go_on() -> None:
    arrivals = Arrivals(Gate())
    arrivals.arrive(0, 1)
    assert (arrivals.gone, arrivals.gate.waiting) == ([0, 1], 0)


@given(st.integers(1, 6), st.integers(0, 19))
def test_a_barrier_lets_go_in_groups_of_its_size(size: int, count: int) -> None:
    arrivals = Arrivals(Gate(size))
    arrivals.arrive(*range(count))
    assert sorted(arrivals.gone) == list(range(count - count % size))
    assert arrivals.gate.waiting == count % size
    arrivals.gate.time_out()
    assert sorted(arrivals.gone) == list(range(count))


def test_a_hold_keeps_even_a_full_barrier_until_the_release() -> None:
    arrivals = Arrivals(Gate(2))
    arrivals.gate.hold()
    arrivals.arrive(0, 1, 2)
    arrivals.gate.time_out()
    assert (arrivals.gone, arrivals.gate.held) == ([], True)
    arrivals.gate.release()
    assert (sorted(arrivals.gone), arrivals.gate.held) == ([0, 1, 2], False)


def test_who_leaves_is_neither_counted_nor_released() -> None:
    arrivals = Arrivals(Gate(3))
    arrivals.arrive(0, 1)
    arrivals.gate.leave(arrivals.releases[0])
    arrivals.gate.leave(arrivals.releases[0])  # twice is once
    arrivals.arrive(2)
    assert arrivals.gone == []
    arrivals.arrive(3)
    assert sorted(arrivals.gone) == [1, 2, 3]


def test_a_smaller_size_lets_go_those_who_are_enough_for_it() -> None:
    arrivals = Arrivals(Gate(5))
    arrivals.arrive(0, 1, 2)
    arrivals.gate.resize(4)
    assert arrivals.gone == []
    arrivals.gate.resize(3)
    assert sorted(arrivals.gone) == [0, 1, 2]
