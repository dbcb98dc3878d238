"""The log of futures: a row for each end, whatever the order, and nothing lost when a process is."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from locustfiles import futures_log
from locustfiles.futures_log import COLUMNS, FuturesLog, log_path
from locustfiles.ledger import End

ENDS = [End.DELIVERED, End.FAILED, End.LOST, End.CANCELLED, End.ABANDONED]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open("rb") as file:
        text = zstandard.ZstdDecompressor().stream_reader(file).read().decode("ascii")
    return list(csv.DictReader(io.StringIO(text)))


def never(sentence: str) -> None:
    pytest.fail(sentence)


future_lives = st.lists(
    st.tuples(st.booleans(), st.sampled_from(ENDS), st.integers(0, 2**16 - 1), st.integers(0, 2**40))
)


@given(lives=future_lives, data=st.data())
def test_every_end_is_a_row(
    tmp_path_factory: pytest.TempPathFactory, lives: list[tuple[bool, End, int, int]], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(lives))))
    path = tmp_path_factory.mktemp("log") / "futures.csv.zst"
    log = FuturesLog(path, never)
    for future in range(len(lives)):
        log.begun(future, -5.0 if future % 2 else None)
    for future in order:
        accepted, end, polls, size = lives[future]
        if accepted:
            log.accepted(future)
            log.result(future, size)
        log.ended(future, end, polls)
        log.ended(future, End.FAILED, polls)  # is none
    log.close()
    found = rows(path)
    assert [int(row["future"]) for row in found] == order
    for row in found:
        accepted, end, polls, size = lives[int(row["future"])]
        assert (row["end"], int(row["polls"])) == (end.name.lower(), polls)
        assert int(row["bytes"]) == (size if accepted else 0)
        moments = [float(row[name]) for name in COLUMNS[1:5] if row[name]]
        assert len(moments) == (4 if accepted else 3)
        assert moments == sorted(moments)
        assert (moments[0] == -5.0) == (int(row["future"]) % 2 == 1)


def test_what_was_flushed_can_be_read_from_a_file_without_an_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(futures_log, "FLUSH_EVERY_S", 0.0)
    log = FuturesLog(tmp_path / "futures.csv.zst", never)
    for future in range(100):
        log.begun(future, None)
        log.ended(future, End.DELIVERED, 1)
    assert [row["future"] for row in rows(tmp_path / "futures.csv.zst")] == [str(future) for future in range(100)]
    log.close()


def test_a_full_disk_is_said_once_and_the_log_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(futures_log, "FLUSH_EVERY_S", 0.0)
    said: list[str] = []
    log = FuturesLog(Path("/dev/full"), said.append)
    for future in range(3):
        log.begun(future, None)
        log.ended(future, End.DELIVERED, 1)
    log.close()
    assert said == ["The log of futures /dev/full cannot be written: No space left on device."]


def test_a_folder_that_cannot_be_made_is_said_and_the_log_goes_nowhere(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said: list[str] = []
    log = FuturesLog(tmp_path / "file/futures.csv.zst", said.append)
    log.begun(0, None)
    log.ended(0, End.LOST, 1)
    log.close()
    assert len(said) == 1
    assert "cannot be written" in said[0]


def test_each_worker_has_its_part() -> None:
    assert log_path(Path("run"), 1, 0) == Path("run/futures.csv.zst")
    assert [log_path(Path("run"), 2, index).name for index in range(2)] == ["futures-0.csv.zst", "futures-1.csv.zst"]
