"""Prompt and output lengths of the futures: all alike, or drawn from a recorded trace."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

PROMPT_COLUMN = "ContextTokens"
OUTPUT_COLUMN = "GeneratedTokens"


class LengthsError(Exception):
    """The lengths asked for cannot be had; the text is a sentence for the user."""


class JobLengths(NamedTuple):
    prompt_tokens: int
    max_tokens: int


class Lengths(Protocol):
    def of(self, future: int) -> JobLengths:
        """The lengths of future number ``future``; the same for the same number."""


@dataclass(frozen=True)
class FixedLengths:
    prompt_tokens: int
    max_tokens: int

    def of(self, future: int) -> JobLengths:
        return JobLengths(self.prompt_tokens, self.max_tokens)


class TraceLengths:
    """Rows of a trace in an order shuffled by ``seed``, over and over: the trace's own mix at any count.

    rows: int64 array of shape (n, 2), prompt and output tokens.
    """

    def __init__(self, rows: npt.NDArray[np.int64], seed: int) -> None:
        self._rows = np.random.default_rng(seed).permutation(rows)

    def of(self, future: int) -> JobLengths:
        prompt, output = self._rows[future % len(self._rows)]
        return JobLengths(int(prompt), int(output))


def read_trace(path: Path) -> npt.NDArray[np.int64]:
    """The two length columns of a CSV file, as an int64 array of shape (n, 2).

    The column names are those of the public Azure LLM inference traces (P. Patel et al., "Splitwise: Efficient
    generative LLM inference using phase splitting", ISCA 2024). Raises LengthsError.
    """
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            columns = reader.fieldnames or []
            missing = [name for name in (PROMPT_COLUMN, OUTPUT_COLUMN) if name not in columns]
            if missing:
                raise LengthsError(
                    f"The trace {path} has no column {' and no column '.join(missing)}; "
                    f"found: {', '.join(columns) or 'an empty file'}. Give a CSV file whose header names them."
                )
            rows = [_lengths_of_row(path, reader.line_num, row) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise LengthsError(f"The trace {path} cannot be read: {error}. Give a readable CSV file.") from error
    if not rows:
        raise LengthsError(f"The trace {path} has a header but no rows. Give one with at least one request.")
    return np.array(rows, dtype=np.int64)


def _lengths_of_row(path: Path, line: int, row: dict[str, str | None]) -> tuple[int, int]:
    found = {name: row[name] for name in (PROMPT_COLUMN, OUTPUT_COLUMN)}
    try:
        prompt, output = (int(value or "") for value in found.values())
    except ValueError:
        prompt, output = 0, 0
    if prompt < 1 or output < 1:
        raise LengthsError(
            f"Line {line} of the trace {path} should hold two whole numbers above 0, found {found}. "
            "Correct or remove that line."
        )
    return prompt, output


def parse_lengths(spec: str, prompt_tokens: int, max_tokens: int, seed: int) -> Lengths:
    """``fixed`` or ``trace:FILE``. Raises LengthsError."""
    if spec == "fixed":
        return FixedLengths(prompt_tokens, max_tokens)
    kind, _, name = spec.partition(":")
    if kind == "trace" and name:
        return TraceLengths(read_trace(Path(name)), seed)
    raise LengthsError(f"--lengths should be 'fixed' or 'trace:FILE', found '{spec}'.")
