"""Our Locust users as a player: ``python -m tests.integration.parity.play_load SPEED < jobs.json``; prints as play_sdk."""

from __future__ import annotations

import json
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.integration.parity.clocks import speed_up, speed_up_gevent

SPEED = float(sys.argv[1])
if __name__ == "__main__":
    speed_up(SPEED)
    speed_up_gevent(SPEED)

import gevent
from locust.argument_parser import get_parser
from locust.env import Environment
from locust.exception import StopUser

from locustfiles.options import add_arguments
from locustfiles.sdk_user import SdkUser
from locustfiles.settings import settings_from
from locustfiles.worker import WorkerRun, begin_run


def main(jobs: list[dict[str, Any]], folder: Path) -> dict[str, list[str]]:
    environment = Environment(user_classes=[SdkUser])
    environment.stats.reset_all()
    runs = {job["name"]: _run(job, folder) for job in jobs}
    users = []
    for run in runs.values():
        begin_run(run)  # a user works for the run that is there when it is made
        users.append(SdkUser(environment))
    gevent.joinall([gevent.spawn(_follow, user) for user in users], raise_error=True)
    return {name: _ends(run) for name, run in runs.items()}


def _run(job: dict[str, Any], folder: Path) -> WorkerRun:
    arguments = ["--host", job["url"], "--requests", str(len(job["starts_s"])), "--poll-preset", job["preset"]]
    if len(job["starts_s"]) > 1:
        arguments += ["--arrivals", f"trace:{_trace(job, folder)}"]
    else:
        arguments += ["--prompt-tokens", str(job["prompt_tokens"]), "--max-tokens", str(job["max_tokens"])]
    parser = get_parser(default_config_files=[])
    add_arguments(parser)
    return WorkerRun(settings_from(parser.parse_args(arguments)), 0, 1)


def _trace(job: dict[str, Any], folder: Path) -> Path:
    """A file of arrivals."""
    rows = [
        f"{datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=start_s)},{job['prompt_tokens']},{job['max_tokens']}"
        for start_s in job["starts_s"]
    ]
    path = folder / f"{len(list(folder.iterdir()))}.csv"
    path.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]))
    return path


def _follow(user: SdkUser) -> None:
    try:
        user.follow_futures()
    except StopUser:
        return


def _ends(run: WorkerRun) -> list[str]:
    counts = run.ledger.counts()
    return ["delivered"] * counts.delivered + ["failed"] * (counts.failed + counts.lost + counts.abandoned)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(main(json.load(sys.stdin), Path(folder))))
