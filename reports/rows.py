"""Time series as CSV files: the columns are the fields of the row's structure, an empty cell is None."""

from __future__ import annotations

import csv
import os
from pathlib import Path
from types import TracebackType
from typing import Generic, Self, TypeVar

import msgspec

from reports.errors import RunFolderError, explained

RESOURCES_CSV = "resources.csv"  # what an observer writes, in a run folder or one of its own

Row = TypeVar("Row", bound=msgspec.Struct)

# Longer than any row: about 30 cells of at most 20 characters.
_TAIL_BYTES = 4096


class RowWriter(Generic[Row]):
    """Writes a new CSV file, each row flushed, so that a killed run loses at most the row being written.

    Raises RunFolderError when the file exists, its directory is missing, or the disk is full.
    """

    def __init__(self, path: Path, row_type: type[Row]) -> None:
        self._path = path
        with explained(f"cannot make {path}"):
            self._file = path.open("x", newline="", encoding="utf-8")
        self._csv = csv.writer(self._file, lineterminator="\n")
        self._write(row_type.__struct_fields__)

    def write(self, row: Row) -> None:
        self._write(msgspec.structs.astuple(row))

    def _write(self, cells: tuple[object, ...]) -> None:
        with explained(f"cannot write {self._path}"):
            self._csv.writerow(cells)
            self._file.flush()

    def close(self) -> None:
        with explained(f"cannot write {self._path}"):
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def read_rows(path: Path, row_type: type[Row]) -> list[Row]:
    """Every complete row of a CSV file; none when there is no file.

    A last line without its newline was torn by a kill and is left out. Columns that this version does not know are
    ignored, so that a newer run folder can be read. Raises RunFolderError for a file that holds something else.
    """
    if not path.exists():
        return []
    with explained(f"cannot read {path}"):
        lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    return _parse(lines, row_type, path)


def read_last_row(path: Path, row_type: type[Row]) -> Row | None:
    """The newest complete row of a file that may still grow, without reading the rest; None before the first."""
    if not path.exists():
        return None
    with explained(f"cannot read {path}"), path.open("rb") as file:
        header = file.readline()
        file.seek(max(len(header), file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        complete = file.read().decode().split("\n")[:-1]
    if not complete:
        return None
    return _parse([header.decode().rstrip("\n"), complete[-1]], row_type, path)[0]


def _parse(lines: list[str], row_type: type[Row], path: Path) -> list[Row]:
    cells = csv.reader(lines)
    header = next(cells, [])
    rows = []
    try:
        for line in cells:
            filled = {name: text for name, text in zip(header, line, strict=True) if text}
            rows.append(msgspec.convert(filled, row_type, strict=False))  # not strict: cells are text
    except (msgspec.ValidationError, csv.Error, ValueError) as error:
        raise RunFolderError(f"{path}, line {cells.line_num}, is no {row_type.__name__}: {error}.") from None
    return rows
