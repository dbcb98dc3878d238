"""The observer as the process that it is, watching real ones."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

from reports.processes import ProcessNotFoundError, ProcessSampler, find_process
from reports.rows import read_rows
from reports.schema import ResourceRow

INTERVAL = "20ms"

# A server with metrics and a health check, 50 open files, and a counter that counts its own pages.
SERVER = """
import http.server, os
files = [os.open(os.devnull, os.O_RDONLY) for _ in range(50)]
class Handler(http.server.BaseHTTPRequestHandler):
    pages = 0
    def do_GET(self):
        Handler.pages += 1
        self.send_response(200)
        self.end_headers()
        lines = [f"server_results_served_total {Handler.pages}", "server_held_bytes 1e9"]
        lines += ["server_outstanding_futures NaN", "vllm:num_requests_running 7", ""]
        self.wfile.write("\\n".join(lines).encode())
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""


class Server(NamedTuple):
    process: subprocess.Popen[str]
    url: str
    port: int


@pytest.fixture
def start_server() -> Iterator[Callable[[], Server]]:
    started: list[subprocess.Popen[str]] = []

    def start() -> Server:
        process = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        port = int(process.stdout.readline())
        return Server(process, f"http://127.0.0.1:{port}", port)

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.fixture
def observe(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts an observer that writes rows.csv, and waits for its first row."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "reports", "observe", "--interval", INTERVAL, *arguments]
        process = subprocess.Popen(
            [*command, "--out", str(tmp_path / "rows.csv")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("observer ready")
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def rows_until(path: Path, enough: Callable[[list[ResourceRow]], bool]) -> list[ResourceRow]:
    deadline_s = time.monotonic() + 20
    while time.monotonic() < deadline_s:
        rows = read_rows(path, ResourceRow)
        if enough(rows):
            return rows
        time.sleep(0.01)
    raise AssertionError(f"not in 20 s; the last row is {rows[-1:]}")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_samples_until_it_is_told_to_stop(
    tmp_path: Path,
    start_server: Callable[[], Server],
    observe: Callable[..., subprocess.Popen[str]],
    number: signal.Signals,
) -> None:
    target, engine = start_server(), start_server()
    observer = observe(
        *("--target", f"port:{target.port}", "--target-metrics", f"{target.url}/metrics"),
        *("--canary", f"{target.url}/healthz"),
        *("--engine-pid", str(engine.process.pid), "--engine-metrics", f"{engine.url}/metrics"),
    )
    rows_until(tmp_path / "rows.csv", lambda rows: len(rows) >= 5)
    observer.send_signal(number)
    _, errors = observer.communicate(timeout=20)
    assert observer.returncode == 0
    assert "of a core" in errors

    rows = read_rows(tmp_path / "rows.csv", ResourceRow)
    assert [row.monotonic_s for row in rows] == sorted(row.monotonic_s for row in rows)
    last = rows[-1]
    assert last.target_rss_bytes is not None
    assert last.target_rss_bytes > 10**6
    assert last.target_cpu_s is not None
    assert last.target_fds is not None
    assert 50 < last.target_fds < 100
    assert last.target_threads is not None
    assert last.target_held_bytes == 10**9
    assert last.target_outstanding is None  # NaN is no measurement
    assert last.canary_s is not None
    assert last.canary_failures == 0
    assert last.engine_rss_bytes is not None
    assert last.engine_running == 7
    assert last.engine_slot_seconds is None  # this engine has no such metric
    assert last.machine_available_bytes is not None
    assert rows[0].target_uss_bytes is not None
    assert last.target_uss_bytes is None  # too expensive to read each time
    served = [row.target_results_served for row in rows if row.target_results_served is not None]
    assert served == sorted(served)
    assert served[-1] > served[0]


@pytest.mark.parametrize("dying", ["target", "engine"])
def test_it_watches_on_when_one_of_them_dies(
    tmp_path: Path, start_server: Callable[[], Server], observe: Callable[..., subprocess.Popen[str]], dying: str
) -> None:
    servers = {"target": start_server(), "engine": start_server()}
    observe(
        *("--target", f"pid:{servers['target'].process.pid}", "--canary", f"{servers['target'].url}/healthz"),
        *("--engine-pid", str(servers["engine"].process.pid)),
    )
    servers[dying].process.kill()  # and it stays a zombie, as the test does not wait for it
    living = "engine" if dying == "target" else "target"

    def enough(rows: list[ResourceRow]) -> bool:
        return getattr(rows[-1], f"{dying}_rss_bytes") is None

    rows = rows_until(tmp_path / "rows.csv", enough)
    later = rows_until(tmp_path / "rows.csv", lambda now: len(now) >= len(rows) + 3)[-1]
    assert getattr(later, f"{dying}_rss_bytes") is None
    assert getattr(later, f"{dying}_cpu_s") is None
    assert getattr(later, f"{living}_rss_bytes") > 10**6
    if dying == "target":
        rows_until(tmp_path / "rows.csv", lambda now: (now[-1].canary_failures or 0) >= 2)


def test_a_server_that_does_not_answer_does_not_hold_up_the_samples(
    tmp_path: Path, start_server: Callable[[], Server], observe: Callable[..., subprocess.Popen[str]]
) -> None:
    target = start_server()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        observe("--target", f"pid:{target.process.pid}", "--target-metrics", url, "--canary", url)
        rows = rows_until(tmp_path / "rows.csv", lambda rows: len(rows) >= 10)
    assert all(row.target_rss_bytes is not None and row.canary_s is None for row in rows)


def test_it_ends_with_its_parent(tmp_path: Path, start_server: Callable[[], Server]) -> None:
    target = start_server()
    rows = tmp_path / "rows.csv"
    observer = [
        *(sys.executable, "-m", "reports", "observe", "--interval", INTERVAL),
        "--target",
        f"pid:{target.process.pid}",
    ]
    script = (
        "import subprocess, sys\n"
        "child = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE)\n"
        "child.stdout.readline()\n"
        "print(child.pid, flush=True)\n"
    )
    parent = subprocess.run(
        [sys.executable, "-c", script, *observer, "--out", str(rows)], stdout=subprocess.PIPE, text=True, check=True
    )
    observer_process = psutil.Process(int(parent.stdout))
    try:
        observer_process.wait(timeout=20)
    finally:
        with suppress(psutil.NoSuchProcess):
            observer_process.kill()


def test_it_finds_a_target_that_was_started_again_and_marks_it(
    tmp_path: Path, start_server: Callable[[], Server], observe: Callable[..., subprocess.Popen[str]]
) -> None:
    first = start_server()
    observe("--port", str(first.port))
    first.process.kill()
    first.process.wait()
    rows_until(tmp_path / "rows.csv", lambda rows: rows[-1].target_rss_bytes is None)
    again = SERVER.replace('("127.0.0.1", 0)', f'("127.0.0.1", {first.port})')
    second = subprocess.Popen([sys.executable, "-c", again], stdout=subprocess.DEVNULL)
    try:
        rows = rows_until(tmp_path / "rows.csv", lambda rows: rows[-1].target_rss_bytes is not None)
    finally:
        second.kill()
        second.wait()
    assert (rows[0].target_restarts, rows[-1].target_restarts) == (0, 1)


def test_it_watches_a_whole_tree_of_processes_by_a_part_of_the_command_line(
    tmp_path: Path, observe: Callable[..., subprocess.Popen[str]]
) -> None:
    child = "import sys; fill = b'x' * 50_000_000; print(flush=True); sys.stdin.read()"
    parent = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', sys.argv[1]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
        "child.stdout.readline(); print(flush=True); sys.stdin.read()  # tree-of-two\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", parent, child], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as tree:
        assert tree.stdout is not None
        tree.stdout.readline()
        observe("--cmdline", "tree-of-two")
        (row, *_) = rows_until(tmp_path / "rows.csv", lambda rows: len(rows) >= 2)
        assert row.target_rss_bytes is not None
        own = psutil.Process(tree.pid)
        assert row.target_rss_bytes > own.memory_info().rss + 50_000_000
        assert row.target_threads == 2
        tree.kill()
        for one in own.children():
            one.kill()


def test_find_process(start_server: Callable[[], Server]) -> None:
    server = start_server()
    assert find_process(f"port:{server.port}") == server.process.pid
    assert find_process(f"pid:{server.process.pid}") == server.process.pid


@pytest.mark.parametrize(
    ("where", "sentence"),
    [
        ("pid:99999999", "there is no process with the id 99999999"),
        ("port:1", "no process listens on port 1"),
        ("pid:x", "write pid:N or port:N"),
        ("8001", "write pid:N or port:N"),
        ("cmdline:no such words anywhere", "no process has 'no such words anywhere' in its command line"),
    ],
)
def test_a_process_that_cannot_be_found_is_a_sentence(where: str, sentence: str) -> None:
    with pytest.raises(ProcessNotFoundError, match=sentence):
        find_process(where)


def test_open_files_are_counted_where_the_kernel_does_not_say(monkeypatch: pytest.MonkeyPatch) -> None:
    sampler = ProcessSampler(os.getpid())
    counted = sampler.sample()
    monkeypatch.setattr("reports.processes._files_by_size", lambda path: 0)
    walking = ProcessSampler(os.getpid())
    walked, later = walking.sample(), walking.sample()
    assert counted is not None
    assert counted.fds is not None
    assert walked is not None
    assert later is not None
    assert walked.fds == counted.fds + 1  # one's own directory is open while one walks it
    assert later.fds is None  # walking is too expensive to do it each time
