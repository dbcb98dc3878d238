"""What the observer costs beside a process with many open files: run it by

python -m tests.reports.bench_observer [FILES [SECONDS]]
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time

MEMORY_BYTES = 500_000_000  # of the process, whose page tables are walked now and then


def main() -> None:
    files, seconds = (int(given) for given in (sys.argv[1:] + ["18000", "60"][len(sys.argv) - 1 :]))
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(files)]
    touched = b"x" * MEMORY_BYTES
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "reports", "observe", "--pid", str(os.getpid()), "--out", f"{folder}/seen"]
        with subprocess.Popen(command) as observer:
            time.sleep(seconds)
            observer.terminate()
    print(f"{len(opened):,} open files, {len(touched) / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
