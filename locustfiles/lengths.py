"""Prompt and output lengths of the futures: all alike, or drawn from a recorded trace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from locustfiles.traces import read_lengths


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
    """Rows of a trace in their order, over and over.

    rows: int64 array of shape (n, 2), prompt and output tokens.
    """

    def __init__(self, rows: npt.NDArray[np.int64]) -> None:
        self._rows = rows

    def of(self, future: int) -> JobLengths:
        prompt, output = self._rows[future % len(self._rows)]
        return JobLengths(int(prompt), int(output))


def parse_lengths(spec: str, prompt_tokens: int, max_tokens: int, seed: int) -> Lengths:
    """``fixed``, or ``trace:FILE``: its rows in an order shuffled by ``seed``, the trace's own mix at any count.

    Raises LengthsError and TraceError.
    """
    if spec == "fixed":
        return FixedLengths(prompt_tokens, max_tokens)
    kind, _, name = spec.partition(":")
    if kind == "trace" and name:
        return TraceLengths(np.random.default_rng(seed).permutation(read_lengths(Path(name))))
    raise LengthsError(f"--lengths should be 'fixed' or 'trace:FILE', found '{spec}'.")
