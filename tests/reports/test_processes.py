"""The memory of control groups: which file tells it, and that a real group's is read."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reports.processes import ProcessSampler, cgroup_memory_file

CGROUPS = Path("/sys/fs/cgroup")
V1, V2 = "memory.usage_in_bytes", "memory.current"
HYBRID = "9:name=systemd:/\n4:memory:/system.slice/target.service\n1:cpu,cpuacct:/\n0::/init.scope\n"


@pytest.mark.parametrize(
    ("files", "membership", "expected"),
    [
        ([f"a/b.service/{V2}"], "0::/a/b.service\n", f"a/b.service/{V2}"),
        ([f"name:with:colons/{V2}"], "0::/name:with:colons\n", f"name:with:colons/{V2}"),
        ([V2], "0::/\n", V2),  # a container's own namespace
        ([V2], "0::/docker/4711\n", V2),  # the host's path, of which the container sees the end
        ([], "0::/\n", None),  # the machine's root of version 2 tells no memory
        (
            [f"memory/system.slice/target.service/{V1}", f"memory/{V1}"],
            HYBRID,
            f"memory/system.slice/target.service/{V1}",
        ),
        ([f"memory/{V1}"], "4:memory:/docker/4711\n", f"memory/{V1}"),
        ([f"memory/{V1}"], "4:memory:/\n0::/\n", None),  # that would be the whole machine
        ([f"memory/{V1}"], "3:cpu:/a\n", None),
        ([], HYBRID, None),
        ([V2], "", None),
    ],
)
def test_the_file_that_tells_the_memory(
    tmp_path: Path, files: list[str], membership: str, expected: str | None
) -> None:
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    assert cgroup_memory_file(membership, tmp_path) == (tmp_path / expected if expected else None)


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A new control group of this machine, of the version that counts memory here."""
    parent = CGROUPS / "memory" if (CGROUPS / "memory").is_dir() else CGROUPS
    group = parent / f"repoll-test-{os.getpid()}"
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"this machine permits no control group: {error}")
    try:
        if not any((group / name).is_file() for name in (V1, V2)):
            pytest.skip(f"{group} counts no memory")
        yield group
    finally:
        group.rmdir()


def test_the_memory_of_a_real_control_group_is_that_of_all_its_processes(cgroup: Path) -> None:
    script = "import sys; fill = b'x' * 50_000_000; print(flush=True); sys.stdin.read()"
    enter = f"import os; open('{cgroup}/cgroup.procs', 'w').write(str(os.getpid())); {script}"
    watched, other = (
        subprocess.Popen([sys.executable, "-c", enter], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in range(2)
    )
    try:
        for process in (watched, other):
            assert process.stdout is not None
            assert process.stdout.readline()
        sampler = ProcessSampler(watched.pid)
        sample = sampler.sample()
        assert sample is not None
        assert sample.cgroup_bytes is not None
        assert sample.cgroup_bytes > 100_000_000 > sample.rss_bytes
    finally:
        for process in (watched, other):
            process.kill()
            process.communicate()


def test_a_process_whose_group_was_removed_is_watched_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / V2
    file.write_text("4096\n")
    monkeypatch.setattr("reports.processes.cgroup_memory_file", lambda membership: file)
    sampler = ProcessSampler(os.getpid())
    before = sampler.sample()
    file.unlink()
    after = sampler.sample()
    assert before is not None
    assert before.cgroup_bytes == 4096
    assert after is not None
    assert after.cgroup_bytes is None
    assert after.rss_bytes > 0
