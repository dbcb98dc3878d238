"""Freed memory goes back to the system: with a real heap, and only now and then."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

from server_under_test.memory import TRIM_AFTER_BYTES, Trimmer

# Results that are freed lie among others that are kept, so that the heap cannot shrink from its end.
SCRIPT = """
import psutil
from server_under_test.memory import TRIM_AFTER_BYTES, Trimmer

def rss():
    return psutil.Process().memory_info().rss

results, kept = [], []
for _ in range(2 * TRIM_AFTER_BYTES // 64_000):
    results.append(b"x" * 64_000)
    kept.append(b"x" * 1_000)
results.clear()
before = rss()
Trimmer(lambda seconds: None).freed(2 * TRIM_AFTER_BYTES)
print(before - rss())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no malloc_trim")
def test_what_is_freed_among_what_is_kept_goes_back_to_the_system() -> None:
    printed = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True).stdout
    assert int(printed) > TRIM_AFTER_BYTES


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no malloc_trim")
def test_it_is_done_once_for_so_many_bytes() -> None:
    trims: list[float] = []
    trimmer = Trimmer(trims.append)
    done = []
    for freed in (0, TRIM_AFTER_BYTES - 1, TRIM_AFTER_BYTES, 2 * TRIM_AFTER_BYTES - 1, 2 * TRIM_AFTER_BYTES):
        trimmer.freed(freed)
        done.append(len(trims))
    assert done == [0, 0, 1, 1, 2]
