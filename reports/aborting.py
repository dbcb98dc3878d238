"""Thresholds that stop a run: whether one is broken by what is known of it so far. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from reports.assessment import assess
from reports.schema import LoadFacts, ResourceRow
from reports.thresholds import broken, judge_thresholds, parse_threshold


def stopped_by(facts: LoadFacts, resources: Sequence[ResourceRow]) -> str | None:
    """The rest of a sentence on a broken threshold that is to stop the run; None when it may go on.

    ``resources``: the first sample, and those that were not looked at before; the newest is enough when every peak may
    be missed that is shorter than the time between two calls.
    """
    thresholds = [threshold for text in facts.thresholds if (threshold := parse_threshold(text)).aborts]
    if not thresholds:
        return None
    so_far = assess(msgspec.structs.replace(facts, thresholds=[]), [], resources, {})
    sentences = broken(judge_thresholds(thresholds, so_far))
    return " ".join(sentences) or None
