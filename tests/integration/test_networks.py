"""Load over networks of their own: with few ports, and from several hosts. Both need the right to make namespaces."""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.test_soak import Ports, command, small

TARGET = "10.77.0.1"
HOSTS = ("repoll-target", "repoll-load-1", "repoll-load-2")


def allowed(*words: str) -> str | None:
    """Why a command can't be run; None when it can."""
    try:
        result = subprocess.run(words, capture_output=True, text=True, timeout=30)
    except FileNotFoundError as error:
        return str(error)
    return None if result.returncode == 0 else result.stderr.strip()


def test_connections_are_spread_over_addresses_when_there_are_few_ports(tmp_path: Path, free_port: Ports) -> None:
    if reason := allowed("unshare", "--net", "true"):
        pytest.skip(f"no network namespace can be made here: {reason}")
    args = [*small(free_port), "--outstanding", "150", "--service-time", "fixed:200ms"]
    soak = shlex.join(command(tmp_path / "run", *args))
    few_ports = "echo 20000 20099 > /proc/sys/net/ipv4/ip_local_port_range"
    script = f"ip link set lo up && {few_ports} && exec {soak}"
    result = subprocess.run(
        ["unshare", "--net", "sh", "-c", script], capture_output=True, text=True, timeout=100, cwd=tmp_path
    )
    assert result.returncode == 0, result.stderr
    assert json.loads((tmp_path / "run/run.json").read_text())["futures"]["verified"] == 300


@contextlib.contextmanager
def network() -> Iterator[None]:
    """Three hosts on one switch, 10.77.0.1 to 10.77.0.3."""
    switch = "repoll-switch"
    commands = [f"link add {switch} type bridge", f"link set {switch} up"]
    for number, host in enumerate(HOSTS, 1):
        commands += [
            f"netns add {host}",
            f"link add repoll-{number} type veth peer name eth0 netns {host}",
            f"link set repoll-{number} master {switch} up",
            f"-n {host} link set lo up",
            f"-n {host} address add 10.77.0.{number}/24 dev eth0",
            f"-n {host} link set eth0 up",
        ]
    try:
        for words in commands:
            subprocess.run(["ip", *words.split()], check=True, capture_output=True, timeout=30)
        yield
    finally:
        for host in HOSTS:
            subprocess.run(["ip", "netns", "delete", host], capture_output=True, timeout=30)
        subprocess.run(["ip", "link", "delete", switch], capture_output=True, timeout=30)


def on(host: str, *words: str) -> list[str]:
    return ["ip", "netns", "exec", host, *words]


@contextlib.contextmanager
def started(words: list[str], ready: str | None = None) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            assert ready is None or ready in process.stdout.readline()
            yield process
        finally:
            process.kill()


def test_workers_on_other_hosts(tmp_path: Path) -> None:
    """Engine, server and master on one host, a worker on each of two others; every future is counted once."""
    if reason := allowed("ip", "netns", "add", "repoll-probe") or allowed("ip", "netns", "delete", "repoll-probe"):
        pytest.skip(f"no network namespace can be made here: {reason}")
    target, *loads = HOSTS
    python = [sys.executable, "-m"]
    url = f"http://{TARGET}:8001"
    options = ["--requests", "301", "--outstanding", "100", "--max-tokens", "64", "--verify", "corpus"]
    leading = ["--master", "--expect-workers", "2", "--master-bind-host", TARGET, "--host", url, "--users", "4"]
    joining = [*command(tmp_path / "none")[:3], "--worker", "--master-host", TARGET]
    with contextlib.ExitStack() as hosts:
        hosts.enter_context(network())
        engine = [*python, "mockengine", "--service-time", "fixed:50ms", "--body-profile", "seed-equivalent"]
        server = [*python, "server_under_test", "--host", TARGET]
        hosts.enter_context(started(on(target, *engine), "mockengine ready"))
        hosts.enter_context(started(on(target, *server), "server_under_test ready"))
        master = hosts.enter_context(started(on(target, *command(tmp_path / "run", *leading, *options))))
        workers = [hosts.enter_context(started(on(load, *joining))) for load in loads]
        printed, _ = master.communicate(timeout=100)
        assert master.returncode == 0, printed
        for worker in workers:
            assert worker.wait(30) == 0
    run = json.loads((tmp_path / "run/run.json").read_text())
    assert run["futures"]["submitted"] == run["futures"]["delivered"] == run["futures"]["verified"] == 301
    assert len(run["facts"]["workers"]) == 2
