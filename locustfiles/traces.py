"""Recorded traces: CSV files with a row a request, read by the names of their columns.

The names are those of the public Azure LLM inference traces (P. Patel et al., "Splitwise: Efficient generative LLM
inference using phase splitting", ISCA 2024).
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

TIME_COLUMN = "TIMESTAMP"
LENGTH_COLUMNS = ("ContextTokens", "GeneratedTokens")


class TraceError(Exception):
    """A file is no trace that can be used; the text is a sentence for the user."""


class TimedTrace(NamedTuple):
    """Requests in the order of their times.

    times_s: float64 array of shape (n,), seconds since the first request, not decreasing.
    lengths: int64 array of shape (n, 2), prompt and output tokens.
    """

    times_s: npt.NDArray[np.float64]
    lengths: npt.NDArray[np.int64]


def read_lengths(path: Path) -> npt.NDArray[np.int64]:
    """The two length columns, as an int64 array of shape (n, 2) in the order of the file. Raises TraceError."""
    rows = _read_rows(path, LENGTH_COLUMNS)
    return np.array([_lengths(path, line, row) for line, row in rows], dtype=np.int64)


def read_timed(path: Path) -> TimedTrace:
    """Times and lengths. Raises TraceError."""
    rows = _read_rows(path, (TIME_COLUMN, *LENGTH_COLUMNS))
    posix_s = np.array([_posix_s(path, line, row) for line, row in rows])
    lengths = np.array([_lengths(path, line, row) for line, row in rows], dtype=np.int64)
    order = np.argsort(posix_s, kind="stable")
    return TimedTrace(posix_s[order] - posix_s[order[0]], lengths[order])


_Row = Mapping[str, str | None]


def _read_rows(path: Path, columns: Sequence[str]) -> list[tuple[int, _Row]]:
    """Every row with the number of its line; the columns are there, what they hold is not looked at."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            found = reader.fieldnames or []
            missing = [name for name in columns if name not in found]
            if missing:
                raise TraceError(
                    f"The trace {path} has no column {' and no column '.join(missing)}; "
                    f"found: {', '.join(found) or 'an empty file'}. Give a CSV file whose header names them."
                )
            rows: list[tuple[int, _Row]] = [(reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"The trace {path} cannot be read: {error}. Give a readable CSV file.") from error
    if not rows:
        raise TraceError(f"The trace {path} has a header but no rows. Give one with at least one request.")
    return rows


def _lengths(path: Path, line: int, row: _Row) -> tuple[int, int]:
    found = {name: row[name] for name in LENGTH_COLUMNS}
    try:
        prompt, output = (int(value or "") for value in found.values())
    except ValueError:
        prompt, output = 0, 0
    if prompt < 1 or output < 1:
        raise TraceError(
            f"Line {line} of the trace {path} should hold two whole numbers above 0, found {found}. "
            "Correct or remove that line."
        )
    return prompt, output


def _posix_s(path: Path, line: int, row: _Row) -> float:
    """A time without a zone counts as UTC, so that a change to summer time is no gap."""
    try:
        time = datetime.fromisoformat(row[TIME_COLUMN] or "")
    except ValueError as error:
        raise TraceError(
            f"Line {line} of the trace {path} should have a {TIME_COLUMN} such as 2023-11-16 18:15:46.68, found "
            f"'{row[TIME_COLUMN] or ''}'. Correct or remove that line."
        ) from error
    return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
