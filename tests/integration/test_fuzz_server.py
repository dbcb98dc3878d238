"""A small fuzzing run, and that it would notice what it looks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.fuzz_requests import Known, Request, RequestMaker, hypothesis_values
from tests.integration.fuzz_server import Answer, fault_of, run

SENTENCE = b'{"detail":"There is no such thing."}'


def test_no_request_harms_the_server(tmp_path: Path) -> None:
    assert run(3_000, 1, 200, print, tmp_path) == []


@pytest.mark.parametrize(
    ("method", "status", "body", "fault"),
    [
        ("POST", 200, b"", None),
        ("POST", 422, SENTENCE, None),
        ("HEAD", 404, b"", None),
        ("POST", 408, b'{"type":"try_again"}', None),
        ("POST", 408, b"{}", "no sentence"),
        ("POST", 404, b"404: Not Found", "no JSON"),
        ("POST", 422, b'{"detail":"No."}', "no sentence"),
        ("POST", 422, b'{"detail":{}}', "no sentence"),
        ("POST", 500, SENTENCE, "answered 500"),
        ("HEAD", 503, b"", "answered 503"),
    ],
)
def test_an_answer_is_judged_by_its_status_and_sentence(
    method: str, status: int, body: bytes, fault: str | None
) -> None:
    found = fault_of(Request(b"", True, method, "/"), Answer(status, body, False))
    assert (found is None) if fault is None else (fault in str(found))


def test_the_same_seed_makes_the_same_requests() -> None:
    values = hypothesis_values(5, 20)
    first, again, other = (RequestMaker(seed, values, Known()) for seed in (1, 1, 2))
    found = [first.next() for _ in range(500)]
    assert found == [again.next() for _ in found]
    assert found != [other.next() for _ in found]
    assert {request.framed for request in found} == {True, False}
