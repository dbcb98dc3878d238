"""The log of futures: a compressed CSV file, one row for each future of a worker, written when it ends."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from pathlib import Path

import zstandard

from locustfiles.ledger import End

# Times are seconds of CLOCK_MONOTONIC, as in timeline.csv. future: its number in the run, which plus --seed is the seed
# of its result. accepted_s is empty when the server accepted nothing; bytes are those of the result, 0 without one.
COLUMNS = ("future", "intended_start_s", "submit_s", "accepted_s", "end_s", "end", "polls", "bytes")

FLUSH_EVERY_S = 1.0


def log_path(run_dir: Path, workers: int, index: int) -> Path:
    """futures.csv.zst, or where there are several workers, the part of one."""
    return run_dir / ("futures.csv.zst" if workers == 1 else f"futures-{index}.csv.zst")


class _Open:
    """What is known of an outstanding future."""

    __slots__ = ("accepted_s", "intended_start_s", "result_bytes", "submit_s")

    def __init__(self, intended_start_s: float, submit_s: float) -> None:
        self.intended_start_s = intended_start_s
        self.submit_s = submit_s
        self.accepted_s: float | None = None
        self.result_bytes = 0


class FuturesLog:
    """Holds the outstanding futures in memory, and no others.

    A file that can't be written is given up, and failed(sentence) called, once. A killed process leaves a file without
    an end, whose rows can be read up to the last flush.
    """

    def __init__(self, path: Path, failed: Callable[[str], None]) -> None:
        self._path = path
        self._failed = failed
        self._outstanding: dict[int, _Open] = {}
        self._rows: list[str] = []
        self._flushed_s = time.monotonic()
        self._file: io.FileIO | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = io.FileIO(path, "w")
        except OSError as error:
            self._give_up(error)
        self._compressor = zstandard.ZstdCompressor().compressobj()
        self._rows.append(",".join(COLUMNS))

    def begun(self, future: int, due_s: float | None) -> None:
        """due_s: its intended start; None when that is now."""
        now_s = time.monotonic()
        self._outstanding[future] = _Open(now_s if due_s is None else due_s, now_s)

    def accepted(self, future: int) -> None:
        self._outstanding[future].accepted_s = time.monotonic()

    def result(self, future: int, result_bytes: int) -> None:
        self._outstanding[future].result_bytes = result_bytes

    def ended(self, future: int, end: End, polls: int) -> None:
        """A second end of the same future is not logged."""
        known = self._outstanding.pop(future, None)
        if known is None:
            return
        now_s = time.monotonic()
        accepted = "" if known.accepted_s is None else f"{known.accepted_s:.6f}"
        self._rows.append(
            f"{future},{known.intended_start_s:.6f},{known.submit_s:.6f},{accepted},{now_s:.6f},{end.name.lower()},"
            f"{polls},{known.result_bytes}"
        )
        if now_s - self._flushed_s >= FLUSH_EVERY_S:
            self._flushed_s = now_s
            self._write(zstandard.COMPRESSOBJ_FLUSH_BLOCK)

    def close(self) -> None:
        if self._file is not None:
            self._write(zstandard.COMPRESSOBJ_FLUSH_FINISH)
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, flush: int) -> None:
        rows = "".join([f"{row}\n" for row in self._rows]).encode("ascii")
        self._rows.clear()
        if self._file is None:
            return
        left = memoryview(self._compressor.compress(rows) + self._compressor.flush(flush))
        try:
            while left:
                left = left[self._file.write(left) :]
        except OSError as error:
            self._file.close()
            self._file = None
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        self._failed(f"The log of futures {self._path} cannot be written: {error.strerror or error}.")
