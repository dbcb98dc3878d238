"""What a CI system shows of a run: JUnit XML for its test page, and a summary in Markdown for its job page."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from reports.headline import Figure, headline
from reports.schema import RunDocument
from reports.thresholds import STATES

# XML 1.0 has no way to write these, and a reason may quote what a process printed.
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~&])")


def junit_xml(run: RunDocument) -> bytes:
    """A test suite with a case for the verdict and one for each threshold: broken is a failure, not measured an error.

    The elements and attributes are those that Jenkins, GitLab and the usual GitHub actions read.
    """
    problems = {"pass": None, "fail": "failure", "invalid": "error"}
    kinds = {True: None, False: "failure", None: "error"}
    cases = [("verdict", problems[run.run.verdict], " ".join(run.run.reasons))]
    cases += [(result.text, kinds[result.holds], result.found) for result in run.thresholds]
    kinds_found = [kind for _, kind, _ in cases]
    attributes = {
        "name": _xml(run.run.name),
        "tests": str(len(cases)),
        "failures": str(kinds_found.count("failure")),
        "errors": str(kinds_found.count("error")),
        "time": f"{run.run.duration_s:.3f}",
    }
    suites = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(suites, "testsuite", attributes, timestamp=run.run.started_utc.removesuffix("Z"))
    for name, kind, message in cases:
        time = attributes["time"] if name == "verdict" else "0"  # the sum over the cases is the run's length
        classname = f"repoll.{attributes['name']}"
        case = ElementTree.SubElement(suite, "testcase", classname=classname, name=_xml(name), time=time)
        if kind is not None:
            ElementTree.SubElement(case, kind, message=_xml(message)).text = _xml(message)
    ElementTree.indent(suites)
    text: bytes = ElementTree.tostring(suites, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def summary(run: RunDocument) -> str:
    """The verdict, the thresholds and the headline figures, as GitHub and GitLab render Markdown."""
    lines = [f"## {run.run.verdict}: {_plain(run.run.name)}", ""]
    lines += [f"- {_plain(reason)}" for reason in run.run.reasons]
    if run.limited_by is not None:
        lines += ["", f"Limited by: {run.limited_by}. {_plain(run.limited_by_why)}"]
    if run.memory is not None and run.memory.conclusion is not None:
        lines += ["", f"Memory: {run.memory.conclusion}. {_plain(run.memory.why)}"]
    if run.thresholds:
        rows = [(result.text, STATES[result.holds], result.found) for result in run.thresholds]
        lines += _table(("threshold", "", "found"), rows)
    lines += _table(("figure", "", ""), headline(run))
    return "\n".join([*lines, ""])


def _table(head: tuple[str, str, str], rows: list[tuple[str, str, str]] | list[Figure]) -> list[str]:
    cells = [" | ".join(_plain(cell) for cell in row) for row in rows]
    return ["", f"| {' | '.join(head)} |", "|---|---|---|", *(f"| {row} |" for row in cells)]


def _plain(text: str) -> str:
    """Text from elsewhere on one line, with nothing in it that Markdown or HTML would take for its own."""
    return _MARKDOWN.sub(r"\\\1", " ".join(text.split()))


def _xml(text: str) -> str:
    return _NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text)
