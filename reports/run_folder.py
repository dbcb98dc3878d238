"""The run folder: where one run's configuration, totals, time series, logs and report are kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import msgspec

from reports import environment
from reports.assessment import assess
from reports.rows import RowError, RowWriter, read_last_row, read_rows
from reports.schema import SCHEMA_VERSION, LoadFacts, ResourceRow, RunDocument, TimelineRow


class RunFolderError(Exception):
    """A run folder cannot be made, read or written; the message is a sentence for the user."""


class RunFolder:
    """A directory with run.json, histograms.json, timeline.csv, resources.csv, logs/ and report.html.

    Every method raises RunFolderError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.logs = path / "logs"
        self.timeline_csv = path / "timeline.csv"
        self.resources_csv = path / "resources.csv"
        self.run_json = path / "run.json"
        self.histograms_json = path / "histograms.json"
        self.report_html = path / "report.html"

    @classmethod
    def create(cls, path: str | Path) -> Self:
        folder = cls(Path(path))
        if folder.path.exists():
            raise RunFolderError(f"the run folder {path} exists already; choose another one, or remove it.")
        with _sentences(f"cannot make the run folder {path}"):
            folder.logs.mkdir(parents=True)
        return folder

    @classmethod
    def open(cls, path: str | Path) -> Self:
        folder = cls(Path(path))
        if not folder.path.is_dir():
            raise RunFolderError(f"{path} is no run folder: there is no such directory.")
        if not folder.run_json.is_file():
            raise RunFolderError(f"{path} is no run folder: it has no run.json.")
        return folder

    @contextmanager
    def timeline_writer(self) -> Iterator[TimelineWriter]:
        with _sentences(f"cannot make {self.timeline_csv}"):
            rows = RowWriter(self.timeline_csv, TimelineRow)
        with rows:
            yield TimelineWriter(rows, self.timeline_csv)

    def timeline(self) -> list[TimelineRow]:
        """The rows of timeline.csv; none when the run ended before there was one."""
        with _sentences(f"cannot read {self.timeline_csv}"):
            return read_rows(self.timeline_csv, TimelineRow) if self.timeline_csv.exists() else []

    def resources(self) -> list[ResourceRow]:
        """The rows of resources.csv; none when nothing was observed."""
        with _sentences(f"cannot read {self.resources_csv}"):
            return read_rows(self.resources_csv, ResourceRow) if self.resources_csv.exists() else []

    def latest_resources(self) -> ResourceRow | None:
        """What the observer wrote last, at the cost of a few kilobytes read; None before its first sample."""
        with _sentences(f"cannot read {self.resources_csv}"):
            return read_last_row(self.resources_csv, ResourceRow) if self.resources_csv.exists() else None

    def checkpoint(self, facts: LoadFacts) -> None:
        """Make run.json hold what is known so far, with the verdict invalid, in case the run is killed."""
        self.write_document(assess(facts, [], [], environment.capture()))

    def write_document(self, document: RunDocument) -> None:
        """Write histograms.json, then run.json without the histograms."""
        facts = document.facts
        slim = msgspec.structs.replace(document, facts=msgspec.structs.replace(facts, histograms={}))
        self._replace(self.histograms_json, _pretty({"unit": "microseconds", "histograms": facts.histograms}))
        self._replace(self.run_json, _pretty(slim))

    def read_document(self) -> RunDocument:
        with _sentences(f"cannot read {self.run_json}"):
            version = msgspec.json.decode(self.run_json.read_bytes(), type=_Version).schema_version
            if version != SCHEMA_VERSION:
                raise RunFolderError(
                    f"{self.run_json} has schema version {version}, and this version of repoll reads {SCHEMA_VERSION}."
                )
            document = msgspec.json.decode(self.run_json.read_bytes(), type=RunDocument)
            histograms = msgspec.json.decode(self.histograms_json.read_bytes(), type=_Histograms).histograms
        facts = msgspec.structs.replace(document.facts, histograms=histograms)
        return msgspec.structs.replace(document, facts=facts)

    def write_report(self, html: str) -> None:
        self._replace(self.report_html, html.encode())

    def _replace(self, path: Path, content: bytes) -> None:
        # A reader finds the old file or the new one, never half of one. There is no fsync: a killed process loses
        # nothing without it, and it would stall the load for as long as the disk takes.
        temporary = path.with_name(path.name + ".new")
        with _sentences(f"cannot write {path}"):
            try:
                temporary.write_bytes(content)
                temporary.replace(path)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise


class TimelineWriter:
    """Appends rows to timeline.csv, each flushed."""

    def __init__(self, rows: RowWriter[TimelineRow], path: Path) -> None:
        self._rows = rows
        self._path = path

    def write(self, row: TimelineRow) -> None:
        with _sentences(f"cannot write {self._path}"):
            self._rows.write(row)


class _Version(msgspec.Struct):
    schema_version: int


class _Histograms(msgspec.Struct):
    histograms: dict[str, str]


def _pretty(content: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


@contextmanager
def _sentences(failure: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunFolderError(f"{failure}: {(error.strerror or str(error)).lower()}.") from error
    except (RowError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RunFolderError(f"{failure}: {error}.") from error
