"""Queue caps, barriers, holding and releasing, service times, workers and repetition, in a running engine."""

from __future__ import annotations

import concurrent.futures
import http.client
import json
import re
import statistics
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
import pytest

from mockengine import EngineError, RunningEngine, running
from tests.waiting import wait_for


class Client:
    """One connection; a request is sent now and its answer read later."""

    def __init__(self, engine: RunningEngine) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=30)

    def send(self, **fields: object) -> None:
        self._connection.request("POST", "/v1/completions", json.dumps({"prompt": [1], "max_tokens": 2, **fields}))

    def answer(self) -> http.client.HTTPResponse:
        answer = self._connection.getresponse()
        answer.read()
        return answer

    def close(self) -> None:
        self._connection.close()


@contextmanager
def clients(engine: RunningEngine, count: int) -> Iterator[list[Client]]:
    some = [Client(engine) for _ in range(count)]
    try:
        yield some
    finally:
        for client in some:
            client.close()


def in_queue(engine: RunningEngine) -> int:
    return int(engine.metrics()["vllm:num_requests_waiting"])


@pytest.mark.parametrize("status", [429, 503])
def test_a_queue_with_an_end_refuses_who_comes_after_it(status: int) -> None:
    options = {"slots": 1, "max_waiting": 2, "overflow_status": status, "retry_after": "1500ms"}
    with running(body_profile="lean", service_time="fixed:1m", **options) as engine, clients(engine, 5) as some:
        for number, client in enumerate(some[:3]):
            client.send()
            wait_for(lambda number=number: in_queue(engine) == number)  # type: ignore[misc]
        some[3].send()
        refused = some[3].answer()
        assert (refused.status, refused.headers["Retry-After"]) == (status, "2")
        some[1].close()  # its place in the queue is free
        wait_for(lambda: in_queue(engine) == 1)
        some[4].send()
        wait_for(lambda: in_queue(engine) == 2)
        assert engine.metrics()["mockengine_refused_total"] == 1
        assert "1 requests found the queue full." in engine.stop()


def test_without_a_queue_slots_are_still_given() -> None:
    options = {"service_time": "fixed:1m", "slots": 1, "max_waiting": 0}
    with running(body_profile="lean", **options) as engine, clients(engine, 2) as some:
        some[0].send()
        wait_for(lambda: engine.metrics()["vllm:num_requests_running"] == 1)
        some[1].send()
        assert some[1].answer().status == 503


def test_a_barrier_lets_go_when_it_is_full_and_not_before() -> None:
    with running(body_profile="lean", service_time="barrier:3", slots=3) as engine, clients(engine, 4) as some:
        for number, client in enumerate(some[:2], 1):
            client.send()
            wait_for(lambda number=number: engine.held() == number)  # type: ignore[misc]
        some[0].close()  # who has gone does not count
        wait_for(lambda: engine.held() == 1)
        some[2].send()
        wait_for(lambda: engine.held() == 2)
        some[3].send()
        assert [client.answer().status for client in some[1:]] == [200] * 3
        assert engine.held() == 0


def test_a_barrier_that_does_not_fill_lets_go_after_its_time() -> None:
    service_time = "barrier:3,timeout=200ms"
    with running(body_profile="lean", service_time=service_time, slots=3) as engine, clients(engine, 2) as some:
        for _ in range(2):  # each time anew
            for client in some:
                client.send()
            assert [client.answer().status for client in some] == [200, 200]


def test_hold_and_release_and_another_pace() -> None:
    with running(body_profile="lean", service_time="fixed:0s") as engine, clients(engine, 3) as some:
        engine.hold()
        for number, client in enumerate(some, 1):
            client.send()
            wait_for(lambda number=number: engine.held() == number)  # type: ignore[misc]
        engine.release()
        assert [client.answer().status for client in some] == [200] * 3
        some[0].send()  # nothing holds it any more
        assert some[0].answer().status == 200
        engine.set_service_time("fixed:1m")
        some[0].send()
        wait_for(lambda: drawn_s(engine) == 60)


def test_a_barrier_of_more_than_all_slots_is_refused() -> None:
    sentence = "A barrier of 5 requests never fills, for only 4 can be in slots"
    with pytest.raises(EngineError, match=sentence), running(service_time="barrier:5", slots=4):
        pass


def test_max_tokens_and_occupied_slots_make_the_service_time() -> None:
    options = {"service_time": "load:ttft=10s,tpot=1s,slope=500ms", "slots": 2}
    with running(body_profile="lean", **options) as engine, clients(engine, 2) as some:
        for client, total_s in zip(some, (10 + 4, 10 + 4 + 10 + 6), strict=True):
            client.send(max_tokens=5)
            wait_for(lambda total_s=total_s: drawn_s(engine) == total_s)  # type: ignore[misc]
        metrics = engine.metrics()
    assert metrics["mockengine_ceiling_requests_per_second"] == pytest.approx(2 / 15)
    assert 0 < metrics["mockengine_slot_seconds_total"] <= metrics["mockengine_slot_seconds_offered_total"]


def drawn_s(engine: RunningEngine) -> float:
    return engine.metrics()["mockengine_service_time_drawn_seconds_sum"]


def test_the_same_seed_and_order_of_arrivals_give_the_same_times_bodies_and_faults() -> None:
    def run() -> list[tuple[int, str]]:
        faults = ["http_400:probability=0.2", "http_500:probability=0.2", "token_count:probability=0.2"]
        options = {"service_time": "lognormal:mean=1ms,cv=1", "body_profile": "lean", "seed": 5, "fault": faults}
        with running(**options) as engine:
            connection = http.client.HTTPConnection("127.0.0.1", engine.port, timeout=30)
            seen = []
            for _ in range(60):
                connection.request("POST", "/v1/completions", json.dumps({"prompt": [1], "return_token_ids": True}))
                answer = connection.getresponse()
                seen.append((answer.status, re.sub(rb'"(id|created)":[^,]*', b"", answer.read()).decode()))
            connection.close()
            seen.append((0, str(drawn_s(engine))))
        return seen

    first, second = run(), run()
    assert first == second
    assert {status for status, _ in first} == {0, 200, 400, 500}
    assert statistics.multimode(text for _, text in first[:-1] if "token_ids" in text)  # and bodies were compared


def test_workers_share_the_port_the_slots_and_what_is_set_and_counted() -> None:
    with running(workers=2, slots=5, body_profile="lean", service_time="fixed:0s", seed=3) as engine:
        engine.set_faults([{"kind": "http_400"}])
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            statuses = list(pool.map(lambda _: one_request(engine), range(64)))
            assert set(statuses) == {400}
            assert engine.injected() == {"http_400": 64}
            engine.set_faults([])
            assert set(pool.map(lambda _: one_request(engine), range(64))) == {200}
        metrics = engine.metrics()
        assert metrics["mockengine_slots"] == 5
        assert metrics["vllm:request_success_total"] == 64
        assert metrics["mockengine_faults_injected_total"] == 64
        said = engine.stop()
    assert said.startswith("mockengine: 64 requests finished and 0 clients went away; at most ")
    assert said.endswith("Faults injected: 64 http_400.\n")
    assert said.count("\n") == 1


def test_the_death_of_a_worker_ends_all_with_a_sentence() -> None:
    with running(workers=2, body_profile="lean") as engine:
        parent = psutil.Process(engine.pid)
        first, second = parent.children()
        first.kill()
        assert parent.wait(30) == 1
        assert not second.is_running()
        assert "A worker process ended with exit code -9; all are stopped." in engine.stop()


def test_workers_end_with_their_parent() -> None:
    with running(workers=2, body_profile="lean") as engine:
        parent = psutil.Process(engine.pid)
        children = parent.children()
        parent.kill()
        assert psutil.wait_procs(children, timeout=30)[1] == []


def one_request(engine: RunningEngine) -> int:
    client = Client(engine)
    client.send()
    status = client.answer().status
    client.close()
    return status


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"fault": "restart"}, "The fault restart needs an engine of one process; leave out --workers."),
        ({"fault": "port_closed"}, "The fault port_closed needs an engine of one process"),
        ({"service_time": "barrier:2"}, "A barrier needs an engine of one process"),
        ({"slots": 1}, "--slots should be at least 1 for each of the 2 --workers, found 1"),
    ],
)
def test_what_workers_cannot_do_is_said(options: dict[str, object], sentence: str) -> None:
    with pytest.raises(EngineError, match=sentence), running(workers=2, **options):
        pass
