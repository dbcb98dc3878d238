"""A server that is killed under load and started again: what it had is gone, and every future still ends delivered."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mockengine import running
from tests.integration.test_soak import command
from tests.waiting import wait_for

FUTURES = 1500


@contextmanager
def server_on(port: int, engine_url: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "server_under_test", "--port", str(port), "--engine", engine_url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("server_under_test ready on ")
        try:
            yield process
        finally:
            process.kill()


def ready(port: int) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answer:
        match = re.search(rb'server_futures_total\{end="ready"\} ([0-9.]+)', answer.read())
    assert match is not None
    return int(float(match[1]))


def test_every_future_is_delivered_across_a_kill(tmp_path: Path, free_port: Callable[[], int]) -> None:
    port, run_dir = free_port(), tmp_path / "run"
    args = ["--requests", str(FUTURES), "--outstanding", "300", "--max-tokens", "32"]
    with (
        running(service_time="fixed:100ms", slots=50) as engine,
        (tmp_path / "printed").open("w") as printed,
    ):
        with server_on(port, engine.url):
            load = subprocess.Popen(
                command(run_dir, "--host", f"http://127.0.0.1:{port}", *args), stderr=printed, cwd=tmp_path
            )
            wait_for(lambda: ready(port) > FUTURES / 4, within_s=60)
        try:
            with server_on(port, engine.url):  # the one before it was killed
                assert load.wait(120) == 0, (tmp_path / "printed").read_text()
        finally:
            load.kill()
    run = json.loads((run_dir / "run.json").read_text())
    assert run["run"]["verdict"] == "pass"
    assert run["futures"]["submitted"] == run["futures"]["delivered"] == FUTURES
    assert run["polls"]["errors_by_class"]["poll 410"] > 0
