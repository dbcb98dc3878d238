"""Whose turn it is to be received, and work that leaves the event loop to others in between."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from server_under_test.receiving import Pace, Turns

PATIENCE_S = 1.0


class Burst:
    """Answers, numbered, that ask for a turn. begun: in the order in which they may be received."""

    def __init__(self, limit: int) -> None:
        self.turns = Turns(limit, PATIENCE_S)
        self.begun: list[int] = []

    def ask(self, *numbers: int, now: float = 0.0) -> None:
        for number in numbers:
            if self.turns.ask(number, lambda number=number: self.begun.append(number), now):
                self.begun.append(number)


@given(st.integers(1, 5), st.lists(st.sampled_from(["ask", "done", "progress", "time", "give up"]), max_size=80))
def test_none_begins_while_as_many_as_the_limit_move_and_first_come_first_served(limit: int, steps: list[str]) -> None:
    burst, now, asked = Burst(limit), 0.0, 0
    moved_at: dict[int, float] = {}
    gone: set[int] = set()
    for step in steps:
        begun_before = len(burst.begun)
        under_way = [number for number in burst.begun if number not in gone]
        if step == "ask":
            burst.ask(asked, now=now)
            asked += 1
        elif step == "time":
            now += 0.6
            burst.turns.next(now)
        elif step == "progress" and under_way:
            moved_at[under_way[0]] = now
            burst.turns.progress(under_way[0], now)
        elif step == "done" and under_way:
            gone.add(under_way[-1])
            burst.turns.done(under_way[-1], now)
        elif step == "give up" and asked > len(burst.begun):
            waiting = max(set(range(asked)) - set(burst.begun) - gone, default=None)
            if waiting is not None:
                gone.add(waiting)
                burst.turns.done(waiting, now)
        for number in burst.begun:
            moved_at.setdefault(number, now)
        moving = [n for n in burst.begun if n not in gone and now - moved_at[n] < PATIENCE_S]
        waiting_now = set(range(asked)) - set(burst.begun) - gone
        # One that stalled and moves again is not stopped, so only a beginning says that there was room.
        assert len(moving) <= limit or len(burst.begun) == begun_before
        assert burst.begun == sorted(burst.begun)
        assert burst.turns.waiting == len(waiting_now)


@given(st.integers(1, 5), st.integers(1, 40))
def test_every_answer_of_a_burst_gets_its_turn(limit: int, answers: int) -> None:
    burst = Burst(limit)
    burst.ask(*range(answers))
    for number in range(answers):
        assert number in burst.begun
        burst.turns.done(number, 0.0)
    assert burst.begun == list(range(answers))


def test_answers_that_stall_hold_up_nobody_for_long() -> None:
    burst = Burst(2)
    burst.ask(*range(5))
    assert burst.begun == [0, 1]
    burst.turns.progress(1, 0.9)
    burst.turns.next(1.0)  # 0 has not moved for a second
    assert burst.begun == [0, 1, 2]
    burst.turns.done(0, 1.1)
    assert burst.begun == [0, 1, 2]
    burst.turns.done(1, 1.2)
    assert burst.begun == [0, 1, 2, 3]


def test_work_is_done_in_order_and_what_is_raised_is_raised_to_who_asked_for_it() -> None:
    order: list[int] = []

    def work(number: int) -> int:
        order.append(number)
        if number == 3:
            raise ValueError("three")
        return number * 10

    async def scenario() -> list[int | BaseException]:
        pace = Pace(budget_s=1.0)
        tasks = [asyncio.create_task(pace.do(lambda number=number: work(number))) for number in range(6)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        return await asyncio.gather(*tasks, return_exceptions=True)

    results = asyncio.run(scenario())
    assert order == [0, 2, 3, 4, 5]
    assert [result for result in results if isinstance(result, int)] == [0, 20, 40, 50]
    assert isinstance(results[1], asyncio.CancelledError)
    assert isinstance(results[3], ValueError)


def test_others_have_the_loop_between_pieces_of_work_that_use_up_the_budget() -> None:
    turns: list[str] = []

    async def scenario() -> None:
        pace = Pace(budget_s=0.0)
        work = asyncio.gather(*(pace.do(lambda: turns.append("work")) for _ in range(5)))
        while not work.done():
            await asyncio.sleep(0)
            turns.append("other")

    asyncio.run(scenario())
    assert turns.count("work") == 5
    assert all(a != b for a, b in itertools.pairwise(turns) if a == "work")


@pytest.mark.parametrize("pieces", [1, 50])
def test_within_the_budget_work_is_done_in_one_turn(pieces: int) -> None:
    turns: list[str] = []

    async def scenario() -> None:
        pace = Pace(budget_s=60.0)
        work = asyncio.gather(*(pace.do(lambda: turns.append("work")) for _ in range(pieces)))
        while not work.done():
            turns.append("other")
            await asyncio.sleep(0)

    asyncio.run(scenario())
    assert "".join(turn[0] for turn in turns).strip("o") == "w" * pieces


def test_an_error_leaves_nothing_for_the_collector() -> None:
    class Answer:
        pass

    async def fail() -> weakref.ref[Answer]:
        answer = Answer()
        found = weakref.ref(answer)

        def work(answer: Answer = answer) -> None:
            raise ValueError(str(answer))

        pace = Pace(1.0)
        with contextlib.suppress(ValueError):
            await pace.do(work)
        return found

    gc.disable()
    try:
        assert asyncio.run(fail())() is None
    finally:
        gc.enable()
