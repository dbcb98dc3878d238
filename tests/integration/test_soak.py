"""Soaks as users start them: real processes, sockets and signals."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.integration.stack import stack
from tests.waiting import wait_for

ROOT = Path(__file__).parents[2]
PRODUCTION_TRACE = ROOT.parent / "shared/data/traces/azure_llm_2023_conv.csv"

Ports = Callable[[], int]


def command(run_dir: Path, *args: str) -> list[str]:
    locust = Path(sys.executable).with_name("locust")
    return [str(locust), "-f", str(ROOT / "locustfiles/soak.py"), "--headless", "--run-dir", str(run_dir), *args]


def small(ports: Ports, requests: int = 300) -> list[str]:
    return [
        *("--requests", str(requests), "--outstanding", "100", "--max-tokens", "64", "--service-time", "fixed:50ms"),
        *("--engine-port", str(ports()), "--server-port", str(ports()), "--slots", "50"),
    ]


def two_processes(ports: Ports) -> list[str]:
    port = str(ports())
    return ["--processes", "2", "--master-bind-port", port, "--master-port", port]


def soak(run_dir: Path, *args: str, **env: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, run.json and what was printed; env: beside the environment's own."""
    result = subprocess.run(
        command(run_dir, *args),
        capture_output=True,
        text=True,
        timeout=200,
        cwd=run_dir.parent,
        env={**os.environ, **env},
    )
    document = json.loads((run_dir / "run.json").read_text()) if (run_dir / "run.json").exists() else {}
    return result.returncode, document, result.stderr


def test_a_small_soak_passes_and_leaves_a_whole_run_folder(tmp_path: Path, free_port: Ports) -> None:
    run_dir = tmp_path / "run"
    code, run, printed = soak(run_dir, *small(free_port))
    assert code == 0, printed
    assert run["run"]["verdict"] == "pass"
    futures = run["futures"]
    assert futures["submitted"] == futures["delivered"] == futures["verified"] == 300
    assert not any(futures[end] for end in ("failed", "lost", "cancelled", "abandoned", "doubled", "foreign"))
    assert run["polls"]["total"] >= 300
    assert run["latency_s"]["future"]["count"] == 300
    assert run["engine"]["peak_in_flight"] == 50
    assert run["engine"]["finished"] == 300
    assert run["target"]["rss_peak_bytes"] > 10_000_000
    assert "300 of 300 delivered" in printed or "pass" in printed
    for name in ("report.html", "timeline.csv", "resources.csv", "logs/mock-engine.log", "logs/server-under-test.log"):
        assert (run_dir / name).stat().st_size > 0, name
    with (run_dir / "timeline.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows[-1]["delivered"] == "300"
    # The run ends with its last future, not with the row that finds it ended, which is followed by one more.
    ended_s = run["facts"]["started_monotonic_s"] + run["facts"]["duration_s"]
    assert sum(float(row["monotonic_s"]) > ended_s for row in rows) >= 2


def test_a_broken_threshold_fails_the_run(tmp_path: Path, free_port: Ports) -> None:
    run_dir = tmp_path / "run"
    thresholds = ["failed == 0", "delivered < 300"]
    args = [word for text in thresholds for word in ("--threshold", text)]
    code, run, printed = soak(run_dir, *small(free_port), *args)
    assert code == 1, printed
    assert "fail: delivered < 300 is broken: delivered was 300." in printed
    assert [(result["text"], result["holds"]) for result in run["thresholds"]] == [
        ("failed == 0", True),
        ("delivered < 300", False),
    ]
    assert (run_dir / "junit.xml").read_text().count("<failure") == 2
    assert "delivered was 300" in (run_dir / "summary.md").read_text()


@pytest.mark.parametrize("processes", [1, 2])
def test_a_broken_threshold_can_stop_the_run(tmp_path: Path, free_port: Ports, processes: int) -> None:
    run_dir = tmp_path / "run"
    (tmp_path / "gate.toml").write_text('thresholds = ["polls < 200 abort", "throughput > 1/s"]')
    args = [*small(free_port, requests=100_000), "--thresholds", str(tmp_path / "gate.toml"), "--settle", "10m"]
    code, run, printed = soak(run_dir, *args, *(two_processes(free_port) if processes > 1 else []))
    assert code == 1, printed
    assert run["run"]["verdict"] == "fail"
    assert run["facts"]["ended"] == "aborted"
    stopped, *_ = run["run"]["reasons"]
    assert stopped.startswith("The run was stopped after")
    assert "polls < 200 abort is broken: polls was" in stopped
    assert stopped in (run_dir / "report.html").read_text().replace("&lt;", "<")
    futures = run["futures"]
    assert 200 <= futures["submitted"] < 100_000
    assert futures["abandoned"] == futures["submitted"] - futures["delivered"]


def test_two_processes_share_the_count_exactly(tmp_path: Path, free_port: Ports) -> None:
    args = [*small(free_port, requests=501), *two_processes(free_port)]
    code, run, printed = soak(tmp_path / "run", *args)
    assert code == 0, printed
    assert run["futures"]["delivered"] == run["futures"]["verified"] == run["engine"]["finished"] == 501
    assert len(run["facts"]["workers"]) == 2


@pytest.mark.skipif(not PRODUCTION_TRACE.exists(), reason="the Azure LLM inference trace 2023 is not here")
def test_lengths_of_the_production_trace(tmp_path: Path, free_port: Ports) -> None:
    args = [*small(free_port, requests=500), "--lengths", f"trace:{PRODUCTION_TRACE}"]
    code, run, printed = soak(tmp_path / "run", *args)
    assert code == 0, printed
    assert run["futures"]["verified"] == 500


def test_slow_results_are_polled_again(tmp_path: Path, free_port: Ports) -> None:
    """The server lets go of a poll long before the result is there; 408 is followed by the next poll at once."""
    args = [*small(free_port, requests=20), "--poll-hold", "10ms"]
    code, run, printed = soak(tmp_path / "run", *args)
    assert code == 0, printed
    assert run["polls"]["try_again"] == run["polls"]["re_polls"] >= 20
    assert run["polls"]["total"] == run["polls"]["re_polls"] + 20
    assert {run["latency_s"][phase]["count"] for phase in ("work", "unfetched", "delivery")} == {20}


def test_sessions_are_polled_and_what_is_acknowledged_is_dropped(tmp_path: Path, free_port: Ports) -> None:
    """The engine is held until all are outstanding, and more of them than the load has connections for."""
    args = [*small(free_port, requests=4000), "--outstanding", "3500", "--in-flight", "3500", "--max-tokens", "2000"]
    code, run, printed = soak(tmp_path / "run", *args, "--protocol", "tinker-sessions", "--hold-engine")
    assert code == 0, printed
    assert run["futures"]["verified"] == run["engine"]["finished"] == 4000
    assert run["polls"]["total"] == 4000
    assert run["latency_s"]["session_poll"]["count"] > 0
    (note,) = run["facts"]["notes"]
    assert note.startswith("3,500 futures were outstanding at once when the engine was let go")
    with (tmp_path / "run/resources.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert max(int(row["target_outstanding"] or 0) for row in rows) == 3500
    assert int(rows[-1]["target_held_bytes"]) < 4000 * 2000 * 8 / 4
    assert run["facts"]["target"]["acknowledged"]


def test_a_wrong_corpus_fails_every_future(tmp_path: Path, free_port: Ports) -> None:
    """The engine is told another corpus seed behind the load's back: nothing may pass as verified."""
    args = [*small(free_port, requests=20), "--engine-args", "--corpus-seed 1"]
    code, run, printed = soak(tmp_path / "run", *args)
    assert code == 1, printed
    assert run["run"]["verdict"] == "fail"
    assert run["futures"]["failed"] == 20
    assert run["futures"]["verified"] == 0
    assert run["polls"]["errors_by_class"] == {"result: corrupted": 20}


def test_a_server_that_is_already_there_is_tested_with_host(tmp_path: Path, free_port: Ports) -> None:
    with stack(free_port(), free_port(), "lean", "fixed:10ms") as url:
        args = ["--host", url, "--requests", "50", "--outstanding", "20", "--max-tokens", "32"]
        code, run, printed = soak(tmp_path / "run", *args)
    assert code == 0, printed
    assert run["futures"]["delivered"] == 50
    assert run["facts"]["verification"] == "shape"
    assert run["target"]["rss_peak_bytes"] > 10_000_000


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["--requests", "0"], "--requests should be at least 1, found 0."),
        (
            ["--poll-preset", "fast"],
            "--poll-preset should be one of sdk, sdk-pyqwest, plain-45s, custom, found 'fast'.",
        ),
        (["--protocol", "grpc"], "--protocol should be one of tinker, tinker-sessions, respond-async, operations, "),
        (["--protocol", "operations"], "--protocol operations needs --host"),
        (["--source-addresses", "eth0"], "--source-addresses should be addresses with commas between them: 'eth0'"),
        (["--worker-timeout", "1s"], "--worker-timeout should be at least 3s"),
        (["--verify", "hash"], "--verify should be one of auto, corpus, shape, found 'hash'."),
        (["--hold-engine", "--host", "http://127.0.0.1:9"], "with --host it starts none"),
        (["--lengths", "trace:{tmp}/bad.csv"], "has no column ContextTokens and no column GeneratedTokens"),
        (["--run-dir", "{tmp}"], "exists already"),
        (["--outstanding", "1000000"], "open files"),
        (["--server-port", "{taken}"], "Port {taken} is taken by another program."),
        (
            ["--service-time", "uniform:1s"],
            "The mock engine refuses its options: A service time is one of fixed:TIME; lognormal:",
        ),
        (["--engine-args", "--fault nonsense"], "The mock engine refuses its options: "),
        (
            ["--server-args", "--poll-hold soon"],
            "The server under test refuses its options: argument --poll-hold: expected a length of time such as 300s",
        ),
        (["--client", "sdk:0"], "--client should be load, sdk or sdk:PERCENT with 1 to 100 percent of the futures"),
        (["--client", "sdk", "--hold-engine"], "which the real SDK does not tell"),
        (["--host", "http://127.0.0.1:9"], "No server can be reached at http://127.0.0.1:9"),
        (["--threshold", "futur_p99 < 60s"], "did you mean future_p99?"),
        (["--threshold", "rss_peak < 9GB", "--observe", "none"], "nothing is observed"),
        (["--drain", "soon"], "expected a length of time such as 300s"),
    ],
)
def test_mistakes_are_one_sentence_and_nothing_starts(
    tmp_path: Path, free_port: Ports, args: list[str], sentence: str
) -> None:
    (tmp_path / "bad.csv").write_text("a,b\n1,2\n")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        words = {"tmp": str(tmp_path), "taken": str(taken.getsockname()[1])}
        code, _, printed = soak(tmp_path / "run", *small(free_port), *[arg.format(**words) for arg in args])
    assert code == 2
    assert sentence.format(**words) in printed
    assert "Traceback" not in printed
    assert not (tmp_path / "run").exists()


def under_way(run_dir: Path) -> bool:
    """Whether some seconds of the run are in its timeline, with futures delivered."""
    timeline = run_dir / "timeline.csv"
    if not timeline.exists():
        return False
    with timeline.open() as file:
        return any(int(row["delivered"] or 0) > 0 for row in csv.DictReader(file))


def running_children(process: psutil.Process) -> list[psutil.Process]:
    return [child for child in process.children(recursive=True) if child.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("processes", [1, 2])
def test_a_run_that_is_stopped_says_how_far_it_got(
    tmp_path: Path, free_port: Ports, signum: signal.Signals, processes: int
) -> None:
    run_dir = tmp_path / "run"
    args = [*small(free_port, requests=100_000), "--drain", "1s"]
    if processes > 1:
        args += two_processes(free_port)
    with (tmp_path / "printed").open("w") as printed:
        locust = subprocess.Popen(command(run_dir, *args), stderr=printed, cwd=tmp_path, start_new_session=True)
    try:
        wait_for(lambda: under_way(run_dir), within_s=60)
        children = running_children(psutil.Process(locust.pid))
        assert len(children) >= 3
        # As a terminal does it: to every process of the group.
        os.killpg(locust.pid, signum) if signum == signal.SIGINT else locust.send_signal(signum)
        assert locust.wait(60) == 3, (tmp_path / "printed").read_text()
    finally:
        locust.kill()
    assert not [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    run = json.loads((run_dir / "run.json").read_text())
    assert run["run"]["verdict"] == "invalid"
    assert any("was stopped" in reason for reason in run["run"]["reasons"])
    futures = run["futures"]
    assert 0 < futures["delivered"] < 100_000
    ends = ("delivered", "failed", "lost", "cancelled", "abandoned")
    assert futures["submitted"] == sum(futures[end] for end in ends)
    assert (run_dir / "report.html").exists()


def test_a_server_that_dies_cuts_the_run(tmp_path: Path, free_port: Ports) -> None:
    run_dir = tmp_path / "run"
    with (tmp_path / "printed").open("w") as printed:
        locust = subprocess.Popen(command(run_dir, *small(free_port, requests=100_000)), stderr=printed, cwd=tmp_path)
    try:
        wait_for(lambda: under_way(run_dir), within_s=60)
        server = next(
            child for child in running_children(psutil.Process(locust.pid)) if "server_under_test" in child.cmdline()
        )
        server.kill()
        assert locust.wait(60) == 3, (tmp_path / "printed").read_text()
    finally:
        locust.kill()
    run = json.loads((run_dir / "run.json").read_text())
    assert run["run"]["verdict"] == "invalid"
    assert any("The server under test ended by signal 9" in reason for reason in run["run"]["reasons"])


def test_somebody_elses_server_that_is_gone_ends_the_run(tmp_path: Path, free_port: Ports) -> None:
    run_dir = tmp_path / "run"
    with stack(free_port(), server_port := free_port(), "lean", "fixed:50ms") as url:
        (server,) = [child for child in psutil.Process().children() if str(server_port) in child.cmdline()]
        args = ["--host", url, "--requests", "100000", "--outstanding", "50", "--max-tokens", "32"]
        with (tmp_path / "printed").open("w") as printed:
            locust = subprocess.Popen(command(run_dir, *args, "--target-timeout", "3s"), stderr=printed, cwd=tmp_path)
        try:
            wait_for(lambda: under_way(run_dir), within_s=60)
            server.kill()
            assert locust.wait(90) == 3, (tmp_path / "printed").read_text()
        finally:
            locust.kill()
    run = json.loads((run_dir / "run.json").read_text())
    assert any(f"The target is gone: every connection to {url} has failed" in text for text in run["run"]["reasons"])
    assert 0 < run["futures"]["delivered"] == run["futures"]["verified"]
    assert run["futures"]["abandoned"] > 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True, text=True
    )
    if mount.returncode != 0:
        pytest.skip(f"no file system of its own can be mounted here: {mount.stderr.strip()}")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_full_disk_ends_the_run_with_a_sentence(small_disk: Path, tmp_path: Path, free_port: Ports) -> None:
    run_dir = small_disk / "run"
    with (tmp_path / "printed").open("w") as printed:
        locust = subprocess.Popen(command(run_dir, *small(free_port, requests=100_000)), stderr=printed, cwd=tmp_path)
    try:
        wait_for(lambda: under_way(run_dir), within_s=60)
        with contextlib.suppress(OSError), (small_disk / "filler").open("wb") as filler:
            while True:
                filler.write(bytes(512))
                filler.flush()
        assert locust.wait(60) == 3
    finally:
        locust.kill()
    assert "no space left on device" in (tmp_path / "printed").read_text()
    assert json.loads((run_dir / "run.json").read_text())["run"]["verdict"] == "invalid"
    assert under_way(run_dir)


def test_locusts_help_lists_the_options() -> None:
    locust = Path(sys.executable).with_name("locust")
    result = subprocess.run(
        [str(locust), "-f", str(ROOT / "locustfiles/soak.py"), "--help"], capture_output=True, text=True, timeout=60
    )
    for option in (
        "requests",
        "in-flight",
        "max-tokens",
        "prompt-tokens",
        "lengths",
        "poll-preset",
        "run-dir",
        "observe",
    ):
        assert f"--{option}" in result.stdout


def test_defaults_are_read_from_pyproject(tmp_path: Path, free_port: Ports) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[tool.locust]\nrequests = 7\nservice-time = 'fixed:5ms'\nmax-tokens = 9\n"
    )
    ports = ["--engine-port", str(free_port()), "--server-port", str(free_port())]
    code, run, printed = soak(tmp_path / "run", *ports, "--outstanding", "5")
    assert code == 0, printed
    assert (run["workload"]["requests"], run["workload"]["max_tokens"]) == (7, 9)
