"""Plays scripts to a client in a process of its own and returns what the servers wrote down."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterable
from itertools import groupby
from typing import Literal

from tests.integration.parity.script import MAX_TOKENS, Script
from tests.integration.parity.scripted_server import ScriptedServer
from tests.integration.parity.trace import Trace

Player = Literal["play_sdk", "play_load"]
PATIENCE_S = 110.0  # real seconds


class PlayerError(Exception):
    """A player did not come to its end; the text has the end of what it said."""


def record_both(scripts: Iterable[Script]) -> tuple[dict[str, Trace], dict[str, Trace]]:
    """The SDK's traces and the load's, by the rows' names. Raises PlayerError."""
    return asyncio.run(_record_both(list(scripts)))


async def _record_both(scripts: list[Script]) -> tuple[dict[str, Trace], dict[str, Trace]]:
    sdk, load = await asyncio.gather(_record("play_sdk", scripts), _record("play_load", scripts))
    return sdk, load


async def _record(player: Player, scripts: list[Script]) -> dict[str, Trace]:
    """All rows at the same time, those of each speed in a process."""
    by_speed = groupby(sorted(scripts, key=lambda script: script.speed), key=lambda script: script.speed)
    found = await asyncio.gather(*[_play(player, speed, list(each)) for speed, each in by_speed])
    return {name: trace for traces in found for name, trace in traces.items()}


async def _play(player: Player, speed: float, scripts: list[Script]) -> dict[str, Trace]:
    servers = {script.name: ScriptedServer(script) for script in scripts}
    try:
        jobs = [
            {
                "name": script.name,
                "url": await servers[script.name].start(),
                "starts_s": script.starts_s,
                "prompt_tokens": script.prompt_tokens,
                "max_tokens": MAX_TOKENS,
                "preset": script.preset,
            }
            for script in scripts
        ]
        command = [sys.executable, "-W", "ignore", "-m", f"tests.integration.parity.{player}", str(speed)]
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
        try:
            said, complained = await asyncio.wait_for(process.communicate(json.dumps(jobs).encode()), PATIENCE_S)
        except TimeoutError as error:
            process.kill()
            raise PlayerError(f"{player} was not through with its rows after {PATIENCE_S:.0f} s.") from error
        if process.returncode != 0:
            raise PlayerError(f"{player} failed: {complained.decode()[-2000:]}")
    finally:
        for server in servers.values():
            await server.stop()
    ends: dict[str, list[str]] = json.loads(said)
    return {name: server.trace(sorted(ends[name])) for name, server in servers.items()}
