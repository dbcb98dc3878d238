"""CSV files of rows: what is written is what is read, whatever happened to the end of the file."""

from __future__ import annotations

import resource
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.errors import RunFolderError
from reports.rows import RowWriter, read_last_row, read_rows
from reports.schema import ResourceRow

NUMBERS = st.none() | st.integers(0, 2**53)
SECONDS = st.floats(0, 1e9)
ROWS = st.builds(
    ResourceRow,
    monotonic_s=SECONDS,
    unix_s=SECONDS,
    target_rss_bytes=NUMBERS,
    target_cpu_s=st.none() | SECONDS,
    engine_finished=NUMBERS,
)


def write(path: Path, rows: list[ResourceRow]) -> None:
    with RowWriter(path, ResourceRow) as writer:
        for row in rows:
            writer.write(row)


@given(rows=st.lists(ROWS), torn=st.integers(0, 200))
def test_all_rows_before_a_torn_one_are_read(rows: list[ResourceRow], torn: int) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "rows.csv"
        write(path, [*rows, ResourceRow(monotonic_s=1.0, unix_s=2.0)])
        content = path.read_bytes()
        last_line = len(content) - content[:-1].rindex(b"\n") - 1
        path.write_bytes(content[: -(1 + torn % last_line)])
        assert read_rows(path, ResourceRow) == rows
        assert read_last_row(path, ResourceRow) == (rows[-1] if rows else None)


def test_rows_can_be_read_while_the_file_is_open(tmp_path: Path) -> None:
    rows = [ResourceRow(monotonic_s=float(second), unix_s=0.0, target_fds=second) for second in range(500)]
    path = tmp_path / "rows.csv"
    with RowWriter(path, ResourceRow) as writer:
        for row in rows:
            writer.write(row)
            assert read_last_row(path, ResourceRow) == row
        assert read_rows(path, ResourceRow) == rows


def test_no_file_has_no_rows(tmp_path: Path) -> None:
    assert read_rows(tmp_path / "none.csv", ResourceRow) == []
    assert read_last_row(tmp_path / "none.csv", ResourceRow) is None


def test_a_newer_version_s_column_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("monotonic_s,novelty,unix_s\n1.5,new,2.5\n")
    assert read_rows(path, ResourceRow) == [ResourceRow(monotonic_s=1.5, unix_s=2.5)]


@pytest.mark.parametrize("line", ["1.5,many,", "1.5,2.5", "1.5,2.5,3,4", ",2.5,"])
def test_a_line_that_is_no_row_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"monotonic_s,unix_s,target_fds\n1,2,3\n{line}\n")
    with pytest.raises(RunFolderError, match=r"rows\.csv, line 3, is no ResourceRow"):
        read_rows(path, ResourceRow)


def test_a_file_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    write(path, [])
    with pytest.raises(RunFolderError, match="file exists"):
        RowWriter(path, ResourceRow)


def test_a_write_that_the_system_refuses_is_a_sentence(tmp_path: Path) -> None:
    rows = [ResourceRow(monotonic_s=1.0, unix_s=2.0)] * 100
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # stands in for a full disk
    try:
        with pytest.raises(RunFolderError, match=r"cannot write .*rows\.csv: file too large"):
            write(tmp_path / "rows.csv", rows)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
