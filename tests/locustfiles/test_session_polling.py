"""The rules of session polling, as tables and as a property over any order of events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from locustfiles.polling import BAD_REQUESTS_ALLOWED, Kind, Seen
from locustfiles.session_polling import Answer, AskAgain, Completion, Request, SessionLost, SessionPolling

NOTHING = Answer([], 0)


def ended(*request_ids: str) -> list[Completion]:
    return [Completion(request_id, 5) for request_id in request_ids]


def test_a_poll_is_held_while_a_future_waits() -> None:
    polling = SessionPolling()
    assert polling.idle
    assert polling.wait_for("a") is None
    assert not polling.idle
    assert polling.next_request() == Request(0, held=True, retrieved=[])
    assert polling.next_request().timeout_s == 45


def test_an_end_is_told_to_its_waiter_or_kept_for_it() -> None:
    polling = SessionPolling()
    polling.wait_for("a")
    told = polling.answered(polling.next_request(), Answer(ended("b", "a"), 7))
    assert list(told) == ended("a")
    assert polling.wait_for("b") == Completion("b", 5)
    assert polling.wait_for("b") is None  # an end is told once


def test_what_was_retrieved_is_named_until_a_poll_that_named_it_succeeds() -> None:
    polling = SessionPolling()
    polling.wait_for("a")
    polling.answered(polling.next_request(), Answer(ended("a"), 7))
    polling.retrieved("a")
    polling.retrieved("Z")
    request = polling.next_request()
    assert request == Request(7, held=False, retrieved=["Z", "a"])
    assert request.timeout_s == 5
    assert polling.failed(Seen(Kind.TIMED_OUT)) == AskAgain(1)
    polling.retrieved("b")  # while the poll is under way
    polling.answered(request, Answer([], 7))
    assert polling.next_request().retrieved == ["b"]


def test_a_cursor_is_acknowledged_by_a_poll_of_its_own_before_the_client_rests() -> None:
    polling = SessionPolling()
    polling.wait_for("a")
    polling.answered(polling.next_request(), Answer(ended("a"), 7))
    assert not polling.idle
    polling.answered(polling.next_request(), Answer([], 7))
    assert polling.idle


@pytest.mark.parametrize(
    ("seen", "step"),
    [
        (Seen(Kind.TIMED_OUT), AskAgain(1)),
        (Seen(Kind.DISCONNECTED, 0, "reset"), AskAgain(1)),
        (Seen(Kind.STATUS, 408), AskAgain(1)),
        (Seen(Kind.STATUS, 409), AskAgain(1)),
        (Seen(Kind.STATUS, 429), AskAgain(1)),
        (Seen(Kind.STATUS, 503), AskAgain(1)),
        (Seen(Kind.STATUS, 400), AskAgain(1)),
        (Seen(Kind.STATUS, 402), AskAgain(5)),
        (Seen(Kind.STATUS, 404), SessionLost("session poll 404")),
        (Seen(Kind.STATUS, 410), SessionLost("session poll 410")),
        (Seen(Kind.NOT_A_RESULT, 200), SessionLost("session poll: not an answer")),
    ],
)
def test_what_follows_a_poll_without_an_answer(seen: Seen, step: object) -> None:
    assert SessionPolling().failed(seen) == step


def test_bad_requests_are_forgiven_a_few_times_in_a_row() -> None:
    polling = SessionPolling()
    bad = Seen(Kind.STATUS, 400)
    for _ in range(BAD_REQUESTS_ALLOWED):
        assert polling.failed(bad) == AskAgain(1)
    polling.answered(polling.next_request(), NOTHING)
    for _ in range(BAD_REQUESTS_ALLOWED):
        assert polling.failed(bad) == AskAgain(1)
    assert polling.failed(bad) == SessionLost("session poll 400")


@given(st.permutations([f"{act} {name}" for name in "abc" for act in ("ends", "asked", "poll")]))
def test_every_future_is_told_once_whatever_comes_first(events: list[str]) -> None:
    """ends: the server has the result; asked: the client knows the id and waits; poll: an answer arrives."""
    polling = SessionPolling()
    server: list[str] = []  # in the order of their ends; a cursor is a position in it
    told: list[str] = []

    def poll() -> None:
        request = polling.next_request()
        answer = Answer(ended(*server[request.prev_cursor :]), len(server))
        told.extend(completion.request_id for completion in polling.answered(request, answer))

    for event in events:
        act, name = event.split()
        if act == "ends":
            server.append(name)
        elif act == "poll":
            poll()
        elif (known := polling.wait_for(name)) is not None:
            told.append(known.request_id)
    poll()
    assert sorted(told) == ["a", "b", "c"]
