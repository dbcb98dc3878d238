"""What a headless run shows on standard error: one line of progress, and the verdict at the end."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from locustfiles.controller import Tick
from reports.progress import progress_line
from reports.schema import RunDocument

PLAIN_EVERY_S = 10.0


class Progress:
    """One line, rewritten every second in a terminal, printed every ten seconds elsewhere."""

    def __init__(self, requests: int) -> None:
        self._requests = requests
        self._in_terminal = sys.stderr.isatty()
        self._shown_s = float("-inf")

    def show(self, tick: Tick) -> None:
        now_s = time.monotonic()
        if not self._in_terminal and now_s - self._shown_s < PLAIN_EVERY_S:
            return
        self._shown_s = now_s
        rss_bytes = tick.resource.target_rss_bytes if tick.resource else None
        line = progress_line(tick.previous, tick.row, self._requests, rss_bytes)
        if self._in_terminal:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        else:
            print(line, file=sys.stderr, flush=True)


def print_verdict(document: RunDocument, folder: Path) -> None:
    print(f"\n{document.run.verdict}: {' '.join(document.run.reasons)}", file=sys.stderr)
    print(f"report: {folder / 'report.html'}", file=sys.stderr)
