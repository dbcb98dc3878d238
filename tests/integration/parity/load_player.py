"""Our Locust users as a player."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import gevent
from locust.argument_parser import get_parser
from locust.env import Environment
from locust.exception import StopUser

from locustfiles.options import add_arguments
from locustfiles.settings import settings_from
from locustfiles.user import FuturesUser
from locustfiles.worker import WorkerRun, begin_run


def play(jobs: list[dict[str, Any]], speed: float) -> dict[str, list[str]]:
    """All rows side by side, each with a user and a run of its own: how their futures ended."""
    environment = Environment(user_classes=[FuturesUser])
    with tempfile.TemporaryDirectory() as folder:
        runs = {job["name"]: _run(job, Path(folder)) for job in jobs}
    following = []
    for job in jobs:
        begin_run(runs[job["name"]])  # a user works for the run that is there when it is made
        following.append(gevent.spawn_later(job["begin_in_s"], _follow, FuturesUser(environment)))
    gevent.joinall(following, raise_error=True)
    return {name: _ends(run) for name, run in runs.items()}


def _run(job: dict[str, Any], folder: Path) -> WorkerRun:
    arguments = ["--host", job["url"], "--requests", str(len(job["starts_s"])), "--poll-preset", job["preset"]]
    arguments += ["--prompt-tokens", str(job["prompt_tokens"]), "--max-tokens", str(job["max_tokens"])]
    if len(job["starts_s"]) > 1:
        arguments += ["--arrivals", f"trace:{_arrivals(job, folder)}"]
    parser = get_parser(default_config_files=[])
    add_arguments(parser)
    return WorkerRun(settings_from(parser.parse_args(arguments)), 0, 1, folder)


def _arrivals(job: dict[str, Any], folder: Path) -> Path:
    """A file of the samples' starts and lengths."""
    began = datetime(2026, 1, 1, tzinfo=UTC)
    lengths = f"{job['prompt_tokens']},{job['max_tokens']}"
    rows = [f"{began + timedelta(seconds=start_s)},{lengths}" for start_s in job["starts_s"]]
    path = folder / f"{len(list(folder.iterdir()))}.csv"
    path.write_text("\n".join(["TIMESTAMP,ContextTokens,GeneratedTokens", *rows]))
    return path


def _follow(user: FuturesUser) -> None:
    try:
        user.follow_futures()
    except StopUser:
        return


def _ends(run: WorkerRun) -> list[str]:
    counts = run.ledger.counts()
    return ["delivered"] * counts.delivered + ["failed"] * (counts.submitted - counts.delivered)
