"""``python -m tests.integration.parity.play sdk|load SPEED < jobs.json``: prints how samples ended, as JSON."""

from __future__ import annotations

import importlib
import json
import os
import sys

from tests.integration.parity.clocks import speed_up, speed_up_asyncio, speed_up_gevent


def main(player: str, speed: float) -> None:
    speed_up(speed)  # before anything keeps the real clock for itself
    (speed_up_asyncio if player == "sdk" else speed_up_gevent)(speed)
    play = importlib.import_module(f"tests.integration.parity.{player}_player").play
    print(json.dumps(play(json.load(sys.stdin), speed)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
    os._exit(0)  # the SDK's transport may abort the interpreter's end, see sdk_client.py
