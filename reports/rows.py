"""Time series as CSV files: the columns are the fields of the row's structure, an empty cell is None."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeVar

import msgspec

Row = TypeVar("Row", bound=msgspec.Struct)

# Longer than any row: about 25 cells of at most 20 characters.
_TAIL_BYTES = 4096


class RowError(ValueError):
    """A file that does not hold rows of the wanted kind; the message says which line is wrong and how."""


class RowWriter(Generic[Row]):
    """Writes a new CSV file, each row flushed, so that a killed run loses at most the row being written.

    Raises FileExistsError rather than overwrite a file, and OSError when the disk is full.
    """

    def __init__(self, path: Path, row_type: type[Row]) -> None:
        self._file = path.open("x", newline="", encoding="utf-8")
        self._rows = csv.writer(self._file, lineterminator="\n")
        self._rows.writerow(row_type.__struct_fields__)
        self._file.flush()

    def write(self, row: Row) -> None:
        self._rows.writerow(msgspec.structs.astuple(row))
        self._file.flush()

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def read_rows(path: Path, row_type: type[Row]) -> list[Row]:
    """Every complete row of a CSV file. A last line without its newline was torn by a kill and is left out.

    Columns that this version does not know are ignored, so that a newer run folder can be read. Raises RowError for a
    file that holds something else, and OSError.
    """
    lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return _parse(lines, row_type, path)


def read_last_row(path: Path, row_type: type[Row]) -> Row | None:
    """The newest complete row of a file that may still grow, without reading the rest; None before the first."""
    with path.open("rb") as file:
        header, newline, _ = file.readline().partition(b"\n")
        file.seek(max(len(header + newline), file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        complete = file.read().split(b"\n")[:-1]
    if not complete:
        return None
    return _parse([header.decode(), complete[-1].decode()], row_type, path)[0]


def _parse(lines: list[str], row_type: type[Row], path: Path) -> list[Row]:
    reader = csv.DictReader(lines)
    rows = []
    try:
        for cells in reader:
            filled = {name: text for name, text in cells.items() if text}
            rows.append(msgspec.convert(filled, row_type, strict=False))  # not strict: cells are text
    except (msgspec.ValidationError, csv.Error, TypeError) as error:
        raise RowError(f"{path}, line {reader.line_num}, is no {row_type.__name__}: {error}") from None
    return rows
