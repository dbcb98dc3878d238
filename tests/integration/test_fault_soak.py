"""A soak with a mix of faults: every future ends, and what the engine injected is what everyone else observed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from mockengine.faults import KINDS, Outcome
from tests.integration.test_soak import soak

Ports = Callable[[], int]

PARAMETERS = {"stall_in_body": ",seconds=500ms"}
MIX = (
    *("http_400", "http_429", "http_500", "http_503", "html_200", "truncated_json", "wrong_content_length"),
    *("reset_before_headers", "stall_in_body", "null_logprobs", "token_count", "close_on_reuse"),
)
# What the load calls the failures that come of a kind.
OBSERVED = {
    "http_400": "future failed: The engine answered 400",
    "http_500": "future failed: The engine answered 500",
    "html_200": "future failed: The engine answered # with text/html; charset=utf-#",
    "truncated_json": "future failed: The engine's answer is not JSON",
    "wrong_content_length": "future failed: The engine's answer broke off in the middle",
    "reset_before_headers": "future failed: The engine closed the connection without an answer",
    "token_count": "future failed: The engine sent # tokens and says that #, the length asked for, are full",
    "null_logprobs": "result: corrupted",
}


def counts(pattern: str, log: Path) -> dict[str, int]:
    """``3 http_400, 5 restart`` after the pattern in the last line of a log."""
    found = re.search(pattern + r"(.*)\.$", log.read_text().splitlines()[-1])
    return {name: int(count) for count, name in (part.split(" ") for part in found[1].split(", "))} if found else {}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("futures", [1_500, pytest.param(20_000, marks=pytest.mark.soak)])
def test_every_future_ends_as_its_fault_says(tmp_path: Path, free_port: Ports, futures: int) -> None:
    faults = " ".join(f"--fault {kind}:probability=0.01{PARAMETERS.get(kind, '')}" for kind in MIX)
    code, run, printed = soak(
        tmp_path / "run",
        *("--requests", str(futures), "--outstanding", "2000", "--max-tokens", "256", "--body-profile", "lean"),
        # Longer than a connection that closes without an answer is taken for one that was closed for being idle.
        *("--service-time", "fixed:1200ms", "--slots", "500", "--engine-args", faults),
        *("--engine-port", str(free_port()), "--server-port", str(free_port())),
    )
    assert code == 1, printed
    injected = counts("Faults injected: ", tmp_path / "run/logs/mock-engine.log")
    again = counts("sent to the engine again: ", tmp_path / "run/logs/server-under-test.log")
    assert set(injected) == set(MIX)
    assert {error["name"]: error["count"] for error in run["facts"]["errors"]} == {
        name: injected[kind] for kind, name in OBSERVED.items()
    }
    assert again == {
        "refused": injected["http_429"] + injected["http_503"],
        "keep_alive": injected["close_on_reuse"],
    }
    ended_otherwise = sum(
        count for kind, count in injected.items() if KINDS[kind].outcome in (Outcome.FAILED, Outcome.ALTERED)
    )
    assert run["futures"]["submitted"] == futures
    assert run["futures"]["failed"] == ended_otherwise
    assert run["futures"]["delivered"] == run["futures"]["verified"] == futures - ended_otherwise
    assert run["run"]["verdict"] == "fail"
    assert {fault["kind"]: fault["count"] for fault in run["facts"]["injected"] if fault["count"]} == injected
    report = (tmp_path / "run/report.html").read_text()
    assert f"<td>{ended_otherwise}: " in report
    assert "<td>equal</td>" in report
    print(f"injected: {injected}; sent again: {again}; futures: {run['futures']}")
