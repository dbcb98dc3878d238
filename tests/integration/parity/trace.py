"""What a client did with a script: its requests in order, each with the delay before it, and how its samples ended."""

from __future__ import annotations

import math
from typing import Any

import msgspec

from tests.integration.parity.script import Script

# A delay of one client agrees with the other's when they differ by less than a busy machine's scheduling, which is so
# many real seconds, or by less than so large a part.
NOISE_S = 0.35
NOISE_PART = 0.15


class Request(msgspec.Struct, frozen=True):
    """endpoint: ``submit`` or ``poll``; delay_s: since the last answer, or without one since the last request.

    fields: header fields and fields of the body that a server can tell clients' behaviour by.
    """

    endpoint: str
    delay_s: float
    fields: dict[str, Any]


class Trace(msgspec.Struct, frozen=True):
    """ends: for each sample ``delivered`` or ``failed``; peak_submits: submits in flight at most."""

    requests: list[Request]
    ends: list[str]
    peak_submits: int
    duration_s: float


def difference(script: Script, sdk: Trace, load: Trace) -> str | None:
    """The first thing in which the two traces of a script do not agree; None when they do."""
    if sdk.ends != load.ends:
        return f"the SDK's samples ended {sdk.ends}, the load's {load.ends}"
    if len(sdk.ends) > 1:
        return _difference_of_many(script, sdk, load)
    for number, (theirs, ours) in enumerate(zip(sdk.requests, load.requests, strict=False)):
        if theirs.endpoint != ours.endpoint:
            return f"request {number} of the SDK is a {theirs.endpoint}, of the load a {ours.endpoint}"
        for name in sorted(theirs.fields.keys() | ours.fields.keys()):
            found = theirs.fields.get(name, "absent"), ours.fields.get(name, "absent")
            if found[0] != found[1]:
                return f"{name} of request {number} ({ours.endpoint}): {found[0]} of the SDK, {found[1]} of the load"
        if not _near(theirs.delay_s, ours.delay_s, script.speed):
            return f"request {number} ({ours.endpoint}) after {theirs.delay_s:.1f} s, of the load {ours.delay_s:.1f} s"
    if len(sdk.requests) != len(load.requests):
        return f"the SDK sent {len(sdk.requests)} requests, the load {len(load.requests)}"
    return _other_duration(script, sdk, load)


def _difference_of_many(script: Script, sdk: Trace, load: Trace) -> str | None:
    """Requests of samples side by side have no order: how many, how many at once, and for how long must agree."""
    for endpoint in ("submit", "poll"):
        theirs, ours = (sum(one.endpoint == endpoint for one in trace.requests) for trace in (sdk, load))
        if theirs != ours:
            return f"the SDK sent {theirs} requests to {endpoint}, the load {ours}"
    if script.accept_in_s and sdk.peak_submits != load.peak_submits:
        return f"the SDK had {sdk.peak_submits} submits in flight at most, the load {load.peak_submits}"
    return _other_duration(script, sdk, load)


def _other_duration(script: Script, sdk: Trace, load: Trace) -> str | None:
    """Short delays only tell in their sum, to which each request adds something of the machine's."""
    if _near(sdk.duration_s, load.duration_s, 2 * script.speed):
        return None
    return f"the SDK took {sdk.duration_s:.1f} s, the load {load.duration_s:.1f} s"


def _near(theirs_s: float, ours_s: float, speed: float) -> bool:
    return math.isclose(theirs_s, ours_s, rel_tol=NOISE_PART, abs_tol=NOISE_S * speed)


def short_form(script: Script, trace: Trace) -> str:
    """``submit, poll, 46 s, poll, delivered``; delays below a second and those within an answer's are left out."""
    if len(trace.ends) > 1:
        ends = ", ".join(f"{trace.ends.count(end)} {end}" for end in sorted(set(trace.ends)))
        at_once = f"{trace.peak_submits} submits at once, " if script.accept_in_s else ""
        return f"{at_once}{round(trace.duration_s)} s, {ends}"
    parts: list[str] = []
    for request in trace.requests:
        if round(request.delay_s) > 0:
            parts.append(f"{round(request.delay_s)} s")
        peek = request.fields.get("body allow_metadata_only")
        parts.append("fetch" if peek is False else request.endpoint)
    return ", ".join([*counted(parts), *trace.ends])


def counted(parts: list[str]) -> list[str]:
    """``5 x poll`` for five in a row."""
    counted: list[tuple[str, int]] = []
    for part in parts:
        if counted and counted[-1][0] == part:
            counted[-1] = (part, counted[-1][1] + 1)
        else:
            counted.append((part, 1))
    return [part if count == 1 else f"{count} x {part}" for part, count in counted]
