"""The run folder: where one run's configuration, totals, time series, logs and report are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Self

import msgspec

from reports import environment
from reports.assessment import assess
from reports.errors import RunFolderError, explained
from reports.rows import RESOURCES_CSV, RowWriter, read_last_row, read_rows
from reports.schema import SCHEMA_VERSION, LoadFacts, ResourceRow, RunDocument, TimelineRow

__all__ = ["RunFolder", "RunFolderError"]


class RunFolder:
    """A directory with run.json, histograms.json, timeline.csv, resources.csv, logs/ and the three reports.

    Every method raises RunFolderError when the disk or the content is not as it must be.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.logs = path / "logs"
        self.timeline_csv = path / "timeline.csv"
        self.resources_csv = path / RESOURCES_CSV
        self.run_json = path / "run.json"
        self.histograms_json = path / "histograms.json"
        self.report_html = path / "report.html"
        self.summary_md = path / "summary.md"
        self.junit_xml = path / "junit.xml"

    @classmethod
    def create(cls, path: str | Path) -> Self:
        folder = cls(Path(path))
        if folder.path.exists():
            raise RunFolderError(f"the run folder {path} exists already; choose another one, or remove it.")
        with explained(f"cannot make the run folder {path}"):
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

    def timeline_writer(self) -> RowWriter[TimelineRow]:
        return RowWriter(self.timeline_csv, TimelineRow)

    def timeline(self) -> list[TimelineRow]:
        return read_rows(self.timeline_csv, TimelineRow)

    def resources(self) -> list[ResourceRow]:
        return read_rows(self.resources_csv, ResourceRow)

    def last_resource(self) -> ResourceRow | None:
        """What the observer wrote last, at the cost of a few kilobytes read; None before its first sample."""
        return read_last_row(self.resources_csv, ResourceRow)

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
        """What write_document wrote, the histograms included."""
        with explained(f"cannot read {self.run_json}"):
            content = self.run_json.read_bytes()
            version = msgspec.json.decode(content, type=_Version).schema_version
            if version != SCHEMA_VERSION:
                raise RunFolderError(
                    f"{self.run_json} has schema version {version}; this repoll reads version {SCHEMA_VERSION} only."
                )
            document = msgspec.json.decode(content, type=RunDocument)
        with explained(f"cannot read {self.histograms_json}"):
            histograms = msgspec.json.decode(self.histograms_json.read_bytes(), type=_Histograms).histograms
        facts = msgspec.structs.replace(document.facts, histograms=histograms)
        return msgspec.structs.replace(document, facts=facts)

    def write_reports(self, *, html: str, summary: str, junit: bytes) -> None:
        self._replace(self.report_html, html.encode())
        self._replace(self.summary_md, summary.encode())
        self._replace(self.junit_xml, junit)

    def _replace(self, path: Path, content: bytes) -> None:
        # A reader finds the old file or the new one, never half of one. There is no fsync: a killed process loses
        # nothing without it, and it would stall the load for as long as the disk takes.
        temporary = path.with_name(path.name + ".new")
        with explained(f"cannot write {path}"):
            try:
                temporary.write_bytes(content)
                temporary.replace(path)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise


class _Version(msgspec.Struct):
    schema_version: int


class _Histograms(msgspec.Struct):
    histograms: dict[str, str]


def _pretty(content: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"
