"""Plays scripts to a client in a process of its own and returns what the servers wrote down."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import Literal, NamedTuple

from tests.integration.parity.script import MAX_TOKENS, Script
from tests.integration.parity.scripted_server import API_KEY, ScriptedServer
from tests.integration.parity.trace import Trace, difference

Player = Literal["sdk", "load"]
# Real seconds. What a process does for the first time takes long, so its first row is of no account; and rows that
# begin at the same time would keep each other waiting.
WARM_UP_S = 1.0
BETWEEN_ROWS_S = 0.1
PATIENCE_S = 110.0
SLOWER = (1, 2, 4)  # at first, and when it has to be repeated


class PlayerError(Exception):
    """A player did not come to its end; the text has the end of what it said."""


class Pair(NamedTuple):
    """The traces of one script."""

    sdk: Trace
    load: Trace


def record(scripts: Sequence[Script]) -> dict[str, Pair]:
    """Both clients' traces, by the rows' names. Raises PlayerError.

    Rows that disagree are played again, slower: a busy machine may be why once, but a rule is the same every time.
    """
    pairs: dict[str, Pair] = {}
    for slower in SLOWER:
        disagreeing = [row for row in scripts if row.name not in pairs or difference(row, *pairs[row.name])]
        left = [replace(row, speed=row.speed / slower) for row in disagreeing]
        pairs |= asyncio.run(_record_both(left)) if left else {}
    return pairs


async def _record_both(scripts: Sequence[Script]) -> dict[str, Pair]:
    """One client after the other, for a quiet machine."""
    sdk, load = await _record("sdk", scripts), await _record("load", scripts)
    return {name: Pair(sdk[name], load[name]) for name in sdk}


async def _record(player: Player, scripts: Sequence[Script]) -> dict[str, Trace]:
    """All rows at the same time, those of each speed in a process."""
    by_speed = groupby(sorted(scripts, key=lambda script: script.speed), key=lambda script: script.speed)
    found = await asyncio.gather(*[_play(player, speed, list(each)) for speed, each in by_speed])
    return {name: trace for traces in found for name, trace in traces.items()}


async def _play(player: Player, speed: float, rows: list[Script]) -> dict[str, Trace]:
    scripts = [Script("", "warm-up", speed=speed), *rows]
    servers = {script.name: ScriptedServer(script) for script in scripts}
    try:
        jobs = [
            {
                "name": script.name,
                "url": await servers[script.name].start(),
                "begin_in_s": (WARM_UP_S + number * BETWEEN_ROWS_S) * speed if number else 0.0,
                "starts_s": script.starts_s,
                "prompt_tokens": script.prompt_tokens,
                "max_tokens": MAX_TOKENS,
                "preset": script.preset,
            }
            for number, script in enumerate(scripts)
        ]
        command = [sys.executable, "-W", "ignore", "-m", "tests.integration.parity.play", player, str(speed)]
        pipe = asyncio.subprocess.PIPE
        environment = {**os.environ, "TINKER_API_KEY": API_KEY}
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment)
        try:
            said, complained = await asyncio.wait_for(process.communicate(json.dumps(jobs).encode()), PATIENCE_S)
        except TimeoutError as error:
            process.kill()
            raise PlayerError(
                f"The player of the {player} was not through with its rows after {PATIENCE_S:.0f} s."
            ) from error
        if process.returncode != 0:
            raise PlayerError(f"The player of the {player} failed: {complained.decode()[-2000:]}")
    finally:
        for server in servers.values():
            await server.stop()
    ends: dict[str, list[str]] = json.loads(said)
    return {row.name: servers[row.name].trace(sorted(ends[row.name])) for row in rows}
