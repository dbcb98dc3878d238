"""What a run ran on, without names of hosts or people."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import platform
import resource
import subprocess
from pathlib import Path
from typing import Any

import psutil

_LIBRARIES = ("repoll", "locust", "gevent", "geventhttpclient", "aiohttp", "uvloop", "protobuf", "pysimdjson", "numpy")


@functools.cache
def capture() -> dict[str, Any]:
    """Machine, versions and limits of this process, read once. JSON types only; None is what could not be found."""
    return {
        "machine": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "libraries": {name: _version(name) for name in _LIBRARIES},
        "revision": _revision(Path(__file__).resolve().parents[1]),
        "open_files_limit": resource.getrlimit(resource.RLIMIT_NOFILE)[0],
        "ephemeral_ports": _ephemeral_ports(),
    }


def _processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)


def _version(library: str) -> str | None:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return None


def _revision(source: Path) -> str | None:
    command = ["git", "-C", str(source), "describe", "--always", "--dirty"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=5, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return found.stdout.strip()


def _ephemeral_ports() -> str | None:
    try:
        first, last = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="utf-8").split()
    except OSError:
        return None
    return f"{first}-{last}"
