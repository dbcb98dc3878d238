"""Soaks of other protocols than Tinker's: a real engine behind a small server, real sockets, every content compared."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mockengine.testing import running
from tests.integration.futures_server import futures_server
from tests.integration.test_soak import soak

FUTURES = 60
PAGE = Path(__file__).parents[2] / "docs/protocols.md"


@pytest.fixture(scope="module")
def engine_url() -> Iterator[str]:
    with running(body_profile="lean", service_time="fixed:50ms", slots=32) as engine:
        yield engine.url


def run_soak(tmp_path: Path, url: str, protocol: str, *more: str) -> tuple[int, dict[str, Any], str]:
    args = ["--host", url, "--protocol", protocol, "--verify", "corpus", "--body-profile", "lean", "--max-tokens", "40"]
    return soak(tmp_path / "run", *args, "--requests", str(FUTURES), "--outstanding", "40", "--observe", "none", *more)


@pytest.mark.parametrize("protocol", ["respond-async", "operations"])
def test_a_soak_delivers_and_verifies_every_future(tmp_path: Path, engine_url: str, protocol: str) -> None:
    with futures_server(engine_url) as (url, server):
        code, run, printed = run_soak(tmp_path, url, protocol)
    assert code == 0, printed
    futures = run["futures"]
    assert futures["submitted"] == futures["delivered"] == futures["verified"] == FUTURES
    assert server.submits == server.fetched == FUTURES
    assert run["facts"]["verification"] == "corpus"
    # The server holds a poll for less than the engine takes.
    assert run["polls"]["try_again"] == run["polls"]["re_polls"] == run["polls"]["total"] - FUTURES > 0
    assert run["facts"]["errors"] == []


FLAWED = 7  # the number of the future that meets it
COMMON: list[tuple[str, str, dict[str, int]]] = [
    ("refused", "failed", {}),
    ("no location", "failed", {}),
    ("forgotten", "lost", {"poll 404": 1}),
    ("retry-after", "failed", {"Retry-After that makes no sense": 1}),
    ("another's result", "failed", {"result: foreign": 1}),
]
CASES = [
    *(("respond-async", *case) for case in COMMON),
    ("respond-async", "error", "failed", {"poll 500": 1, "poll 400": 1}),
    ("respond-async", "303 to nowhere", "failed", {"poll 303 without a Location": 1}),
    ("respond-async", "303 for ever", "failed", {"poll: result always elsewhere": 1}),
    *(("operations", *case) for case in COMMON),
    ("operations", "error", "failed", {"future failed: engine # broke": 1}),
    ("operations", "cancelled", "cancelled", {"operation cancelled": 1}),
    ("operations", "done without an end", "failed", {"poll: done without one end": 1}),
    ("operations", "another operation", "failed", {"poll: another operation": 1}),
]


@pytest.mark.parametrize(("protocol", "flaw", "end", "errors"), CASES, ids=[f"{case[0]}, {case[1]}" for case in CASES])
def test_an_answer_that_misbehaves_ends_its_future_in_one_counted_way(
    tmp_path: Path, engine_url: str, protocol: str, flaw: str, end: str, errors: dict[str, int]
) -> None:
    with futures_server(engine_url, lambda number: flaw if number == FLAWED else "") as (url, _):
        code, run, printed = run_soak(tmp_path, url, protocol, "--requests", "20")
    assert code == 1, printed
    assert "Traceback" not in printed
    ends = {name: run["futures"][name] for name in ("delivered", "failed", "lost", "cancelled", "abandoned")}
    assert ends == {"delivered": 19, "failed": 0, "lost": 0, "cancelled": 0, "abandoned": 0} | {end: 1}
    assert run["polls"]["errors_by_class"] == errors
    found = {error["name"]: error["count"] for error in run["facts"]["errors"]}
    submits = {
        ("respond-async", "refused"): {"submit 422": 1},
        ("operations", "refused"): {"submit 400": 1},
        ("respond-async", "no location"): {"submit 202 without a Location": 1},
        ("operations", "no location"): {"submit: not an operation": 1},
    }
    assert found == errors | submits.get((protocol, flaw), {})


@pytest.mark.parametrize("protocol", ["respond-async", "operations"])
def test_an_id_that_stands_for_two_futures_is_found(tmp_path: Path, engine_url: str, protocol: str) -> None:
    with futures_server(engine_url, lambda number: "same id" if number == FLAWED else "") as (url, _):
        code, run, printed = run_soak(tmp_path, url, protocol)
    assert code == 1, printed
    assert run["futures"]["doubled"] == 1
    assert run["futures"]["foreign"] == 1
    assert run["futures"]["delivered"] == FUTURES - 1


@pytest.mark.parametrize("protocol", ["respond-async", "operations"])
def test_a_result_may_come_with_the_answer_to_the_submit(tmp_path: Path, engine_url: str, protocol: str) -> None:
    with futures_server(engine_url, lambda _: "at once") as (url, _):
        code, run, printed = run_soak(tmp_path, url, protocol)
    assert code == 0, printed
    assert run["futures"]["verified"] == FUTURES
    assert run["polls"]["total"] == 0


def test_a_wrong_corpus_fails_every_future(tmp_path: Path, engine_url: str) -> None:
    with futures_server(engine_url) as (url, _):
        code, run, _ = run_soak(tmp_path, url, "operations", "--corpus-seed", "1")
    assert code == 1
    assert run["polls"]["errors_by_class"] == {"result: corrupted": FUTURES}


def test_the_pages_protocol_works_as_it_is_written(tmp_path: Path, engine_url: str) -> None:
    page = PAGE.read_text("utf-8")
    (code_block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert "`tasks.py`" in page
    assert "`--protocol tasks:Tasks`" in page
    assert len(code_block.splitlines()) <= 40
    (tmp_path / "tasks.py").write_text(code_block)
    with futures_server(engine_url, lambda number: "error" if number == FLAWED else "") as (url, server):
        code, run, printed = run_soak(tmp_path, url, "tasks:Tasks")
    assert code == 1, printed
    assert (run["futures"]["delivered"], run["futures"]["verified"]) == (FUTURES - 1, FUTURES - 1)
    assert server.fetched == FUTURES - 1
    assert run["polls"]["errors_by_class"] == {"task failed": 1}
