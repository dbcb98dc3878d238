"""docs/parity.md: every row with what both clients did."""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.integration.parity.record import Pair
from tests.integration.parity.rows import GROUPS
from tests.integration.parity.script import Answer, Script
from tests.integration.parity.trace import NOISE_PART, NOISE_S, counted, difference, short_form

PAGE = Path(__file__).parents[3] / "docs" / "parity.md"

INTRODUCTION = """# The load and the real SDK, side by side

What repoll's Locust users do is what the public SDK does. A scripted server plays the same answers to the real `tinker`
SDK {version} and to our users' own code, each in a process of its own, and writes down every request: its order, the
delay before it, the header fields `Accept`, `Content-Type` and `X-Tinker-*`, and every field of its body. The test
`tests/integration/test_parity.py` compares the two traces of each row below. `make parity` plays all rows and writes
this page; `python -m tests.integration.parity '410' 'submit 429'` plays some.

How to read a trace: `submit` is `asample`, `poll` is `retrieve_future`, and `fetch` is a poll that does not allow
metadata only. Times are pauses, or with a silent server the time-out and the pause; what follows at once has none. What
a script does not say is answered as it should be. Rows of many samples have the submits in flight at most and the time
that all took.

How exact it is: both clients' clocks run 4 to 20 times as fast, their own code and constants as they are, and their
draws of chance give the middle of the range. Two delays agree when they differ by less than {noise_ms} ms of real time
or by less than {noise_percent} %, and a row's lengths by less than twice as much. A row in which they don't is played
up to twice again, slower, for the machine may have been busy.

## What is left different

- The SDK's further headers: `User-Agent`, `X-Stainless-*`, `X-Sdk-*`, and an idempotency key that is new with each
  request. `X-Tinker-Create-Promise-Roundtrip-Time` is sent when the SDK sends it, but measured differently.
- How a session is opened: the SDK asks for `client/dynamic_config` too, sends telemetry, and retries in its own way.
- The SDK follows redirects; to the load they are failures.
- The number outstanding is what the run asks for, whatever `sample_max_concurrent_requests` in `client/config` says.
- 400 with a body but without `Content-Length` counts as a failed connection in the SDK only.
- When no sample has succeeded for two hours the SDK gives all of them up, the load each when it would submit it anew.
- Polls of a session (`--protocol tinker-sessions`) are not among these rows. Their time-outs are those of the SDK's
  plain transport with every preset.
"""


def render(pairs: Mapping[str, Pair]) -> str:
    """The page."""
    version = importlib.metadata.version("tinker")
    parts = [
        INTRODUCTION.format(version=version, noise_ms=round(NOISE_S * 1000), noise_percent=round(NOISE_PART * 100))
    ]
    for title, rows in GROUPS.items():
        lines = [_line(row, pairs[row.name]) for row in rows]
        parts.append(f"## {title}\n\n| row | rule | the server answers | SDK | load |\n|---|---|---|---|---|\n")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts).replace("|\n\n|", "|\n|")


def _line(row: Script, pair: Pair) -> str:
    load = "the same" if difference(row, *pair) is None else short_form(row, pair.load)
    return f"| {row.name} | {row.rule} | {_script(row)} | {short_form(row, pair.sdk)} | {load} |"


def _script(row: Script) -> str:
    parts = []
    for name, answers in (("submit", row.submits), ("poll", row.polls)):
        if answers:
            parts.append(f"{name}: {_answers(answers)}")
    if row.peeks is not None:
        parts.append(f"each first poll: {row.peeks.label}")
    if row.prompt_tokens > 100:
        parts.append(f"prompts of {row.prompt_tokens:,} tokens")
    if len(row.starts_s) > 1:
        parts.append(f"{len(row.starts_s) - 1} samples {row.starts_s[-1]:g} s after the first")
    for name, held_s in (("submits", row.accept_in_s), ("results", row.result_in_s)):
        if held_s:
            parts.append(f"{name} take {held_s:g} s")
    parts += [f"`{name}`: {json.dumps(value)}" for name, value in row.client_config.items()]
    return "; ".join(parts)


def _answers(answers: Sequence[Answer]) -> str:
    return ", ".join(counted([answer.label for answer in answers]))


def row_names(page: str) -> list[str]:
    """The first cell of each line of the tables."""
    return [name for name in re.findall(r"^\| ([^|]+) \|", page, re.MULTILINE) if name != "row"]
