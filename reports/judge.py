"""The verdict: whether the run is a measurement at all (invalid if not), and then whether the target passed."""

from __future__ import annotations

from collections.abc import Sequence

from reports.limits import saturation
from reports.schema import EngineUse, LoadFacts, LoadUse, TargetUse, ThresholdResult, Verdict
from reports.thresholds import broken, unmeasured


def judge(
    facts: LoadFacts, load: LoadUse, target: TargetUse, engine: EngineUse, thresholds: Sequence[ThresholdResult] = ()
) -> tuple[Verdict, list[str]]:
    """The verdict and its reasons as sentences: those that make the run invalid first, then those that fail it.

    invalid: the run has not ended or was cut; the load generator was saturated; no future ended; results were not
    verified; the counts of load, target and engine do not add up (a count that is None was not measured and is not
    compared); what a threshold speaks of was not measured.
    fail: a future failed, was lost, doubled or foreign, or not every submitted future was delivered; a threshold is
    broken, or stopped the run.
    """
    invalid = [*_not_whole(facts), *_own_limits(facts), *_saturated(load), *_unverified(facts)]
    if facts.ended is not None:
        invalid += _irreconcilable(facts, target.results_served, engine.finished)
    if facts.ended != "aborted":  # what a run that was stopped early has not measured no longer matters
        invalid += unmeasured(thresholds)
    failed = [*_failed(facts), *broken(thresholds)]
    if facts.ended == "aborted":
        failed = [facts.cut_reason or "A threshold stopped the run.", *failed]
    if invalid:
        return "invalid", invalid + failed
    if failed:
        return "fail", failed
    passed = [f"All {facts.futures.delivered:,} futures were delivered once, and their results verified."]
    return "pass", [*passed, *_held(thresholds)]


def _held(thresholds: Sequence[ThresholdResult]) -> list[str]:
    if not thresholds:
        return []
    return ["The threshold holds." if len(thresholds) == 1 else f"All {len(thresholds)} thresholds hold."]


def _not_whole(facts: LoadFacts) -> list[str]:
    if facts.ended is None:
        return ["The run has not ended."]
    if facts.ended == "cut":
        return [facts.cut_reason or "The run was cut short."]
    return []


def _own_limits(facts: LoadFacts) -> list[str]:
    """The load ran out of something of its own."""
    remedies = {
        "client_ports": "local ports: lower --outstanding, or widen net.ipv4.ip_local_port_range",
        "client_files": "open files: lower --outstanding, add --processes, or raise the limit (ulimit -Hn)",
    }
    return [
        f"{error.count:,} requests failed for want of the load's own {remedies[error.name]}."
        for error in facts.errors
        if error.name in remedies
    ]


def _saturated(load: LoadUse) -> list[str]:
    if not load.saturated:
        return []
    figures = saturation(load.cpu_utilisation, load.lag_p99_s)
    return [f"The load generator was saturated, so this does not measure the target: {figures}; add --processes."]


def _unverified(facts: LoadFacts) -> list[str]:
    futures = facts.futures
    if not futures.delivered and not futures.failed and not futures.lost and facts.ended != "aborted":
        return ["No future was delivered, and none failed: there is nothing to judge."]
    unverified = futures.delivered - futures.verified - futures.foreign
    return [f"{unverified:,} delivered results were not verified."] if unverified > 0 else []


def _irreconcilable(facts: LoadFacts, served: int | None, finished: int | None) -> list[str]:
    futures = facts.futures
    reasons = []
    ended = futures.delivered + futures.failed + futures.lost + futures.cancelled + futures.abandoned
    if ended != futures.submitted:
        reasons.append(f"{futures.submitted:,} futures were submitted, and {ended:,} ended.")
    if served is not None and served < futures.delivered:
        reasons.append(f"{futures.delivered:,} futures were delivered, and the target says it served {served:,}.")
    if finished is not None and finished < futures.delivered:
        reasons.append(f"{futures.delivered:,} futures were delivered, and the engine finished {finished:,} requests.")
    # When a load process is lost, so are its last submits; and then the run is cut.
    if finished is not None and finished > futures.submitted and facts.ended == "complete":
        reasons.append(
            f"The engine finished {finished:,} requests for {futures.submitted:,} futures: submits ran twice, or "
            "something else used the engine."
        )
    return reasons


def _failed(facts: LoadFacts) -> list[str]:
    futures = facts.futures
    reasons = [
        f"{count:,} {'future' if count == 1 else 'futures'} {what}."
        for count, what in (
            (futures.failed, "failed"),
            (futures.lost, "got lost"),
            (futures.doubled, "ended twice, or had the id of another one (doubled)"),
            (futures.foreign, "got the result of another one (foreign)"),
        )
        if count
    ]
    if facts.ended == "complete" and futures.delivered != futures.submitted:
        reasons.append(f"{futures.delivered:,} of the {futures.submitted:,} submitted futures were delivered.")
    return reasons
