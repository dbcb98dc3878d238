"""The end of a run: everything recorded becomes run.json, histograms.json and the three reports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from reports import environment
from reports.assessment import assess
from reports.ci import junit_xml, summary
from reports.run_folder import RunFolder
from reports.schema import LoadFacts, RunDocument


def conclude(folder: RunFolder, facts: LoadFacts) -> RunDocument:
    """Judge a run that just ended on this machine, and write its documents. Raises RunFolderError.

    Stop the observer first: its last sample is what the counts of target and engine are taken from.
    """
    return _write(folder, facts, environment.capture())


def render(folder: RunFolder, thresholds: Sequence[str] | None = None) -> RunDocument:
    """Judge a run folder again, wherever it came from, and write its documents anew.

    By other thresholds, if there are any, which then are the run's own. A run that was killed is judged as its last
    checkpoint left it, with the rows written up to its end. Raises RunFolderError and ThresholdError.
    """
    document = folder.read_document()
    facts = document.facts
    if thresholds is not None:
        facts = msgspec.structs.replace(facts, thresholds=list(thresholds))
    return _write(folder, facts, document.environment)


def _write(folder: RunFolder, facts: LoadFacts, recorded_environment: dict[str, Any]) -> RunDocument:
    # matplotlib takes most of a second to import, which only those who need the page should pay.
    from reports.page import render_page

    timeline, resources = folder.timeline(), folder.resources()
    document = assess(facts, timeline, resources, recorded_environment)
    folder.write_document(document)
    folder.write_reports(
        html=render_page(document, timeline, resources), summary=summary(document), junit=junit_xml(document)
    )
    return document
