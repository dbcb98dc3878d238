"""Faults that the mock engine injected, against what the load observed of the futures that met them. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from reports.schema import InjectedFault, RunDocument

# Errors that end a future for its engine's sake, by the beginning of their class: what the target says has failed, and
# what is not what the engine should have sent. All others are between load and target.
_ENDS = ("future failed", "result: ")
# What becomes of a future that meets a fault of an outcome.
_FATES = {
    "failed": "have to fail",
    "altered": "are delivered as the engine sent them",
    "retried": "are sent to the engine again, and delivered",
    "delivered": "are delivered all the same",
}


class FaultRow(NamedTuple):
    """Faults of one fate: how many were injected, and how many futures were seen to end as they have to."""

    fate: str
    injected: int
    kinds: str
    observed: int | None
    classes: str
    remark: str


def reconciled(document: RunDocument) -> list[FaultRow]:
    """A row for the faults that end a future, and one for each way to survive; none when nothing was injected."""
    injected = [fault for fault in document.facts.injected or [] if fault.count]
    # What the engine altered is found by comparing it with the corpus, and by nothing else.
    ending = {"failed", "altered"} if document.facts.verification == "corpus" else {"failed"}
    fatal = [fault for fault in injected if fault.outcome in ending]
    rows = [_fatal(document, fatal)] if fatal else []
    for outcome, fate in _FATES.items():
        survived = [fault for fault in injected if fault.outcome == outcome and outcome not in ending]
        if survived:
            rows.append(FaultRow(fate, _sum(survived), _kinds(survived), None, "", "no error comes of them"))
    return rows


def _fatal(document: RunDocument, faults: Sequence[InjectedFault]) -> FaultRow:
    ends = [error for error in document.facts.errors if error.name.startswith(_ENDS)]
    injected, observed = _sum(faults), sum(error.count for error in ends)
    if injected == observed:
        remark = "equal"
    elif observed > injected:
        remark = f"{observed - injected:,} more than met such a fault"
    else:
        remark = f"{injected - observed:,} fewer: sent again, or passed on as a result"
    altered = any(fault.outcome == "altered" for fault in faults)
    fate = "have to fail, or are found altered" if altered else _FATES["failed"]
    classes = ", ".join(f"{error.count:,} × {error.name}" for error in ends)
    return FaultRow(fate, injected, _kinds(faults), observed, classes, remark)


def _sum(faults: Sequence[InjectedFault]) -> int:
    return sum(fault.count for fault in faults)


def _kinds(faults: Sequence[InjectedFault]) -> str:
    return ", ".join(f"{fault.count:,} × {fault.kind}" for fault in faults)
