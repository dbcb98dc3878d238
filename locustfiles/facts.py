"""What the load knows of a run, in the run folder's terms. Pure: settings and totals in, rows and facts out."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version

from locustfiles.measures import Totals
from locustfiles.settings import SWEEP_INTERVAL_S, Settings
from reports.schema import EngineSettings, ResourceRow, TargetSettings, TimelineRow, Workload


def timeline_row(totals: Totals, monotonic_s: float, unix_s: float) -> TimelineRow:
    return TimelineRow(
        monotonic_s=monotonic_s,
        unix_s=unix_s,
        submitted=totals.futures.submitted,
        delivered=totals.futures.delivered,
        failed=totals.futures.failed,
        lost=totals.futures.lost,
        outstanding=totals.outstanding,
        polls=totals.polls.total,
        re_polls=totals.polls.re_polls,
        re_polls_timeout=totals.re_polls_by_cause.get("timeout", 0),
        re_polls_try_again=totals.re_polls_by_cause.get("try_again", 0),
        re_polls_error=totals.re_polls_by_cause.get("error", 0),
        delivered_bytes=totals.delivered_bytes,
        load_cpu_s=totals.load_cpu_s,
        load_lag_max_s=totals.lag_max_s,
    )


def all_accepted(totals: Totals, settings: Settings) -> bool:
    """Whether as many futures as are to be outstanding have been accepted; one that was refused never will be."""
    return totals.accepted + totals.futures.failed >= min(settings.requests, settings.outstanding)


def held_note(totals: Totals, after_s: float, resources: Sequence[ResourceRow]) -> str:
    """What the target's memory was when all futures were outstanding and none had been answered."""
    note = f"{totals.outstanding:,} futures were outstanding at once when the engine was let go, after {after_s:.0f} s."
    first, last = (resources[0].target_rss_bytes, resources[-1].target_rss_bytes) if resources else (None, None)
    if first is None or last is None or not totals.outstanding:
        return note
    each = (last - first) / totals.outstanding
    return f"{note} The target's memory was {last / 1e6:,.0f} MB then, {each / 1e3:.1f} kB a future above its start."


def real_sdk_note(totals: Totals, percent: int) -> str:
    """What became of the futures that the real SDK followed."""
    ends = ", ".join(f"{count:,} {end}" for end, count in sorted(totals.real_sdk.items(), key=lambda end: -end[1]))
    return (
        f"The real SDK (tinker {version('tinker')}) followed {sum(totals.real_sdk.values()):,} of the futures, "
        f"{percent} percent: {ends or 'none has ended'}. Its polls and retries are its own and not counted here."
    )


def workload(settings: Settings) -> Workload:
    return Workload(
        requests=settings.requests,
        max_tokens=settings.max_tokens,
        lengths=settings.lengths,
        prompt_tokens=settings.prompt_tokens,
        in_flight=settings.in_flight,
        outstanding=settings.outstanding,
        users=settings.users,
        processes=settings.processes,
        poll_preset=settings.preset.described,
        protocol=settings.protocol,
        real_sdk_percent=settings.real_sdk_percent,
        arrivals=settings.arrivals,
        stages=settings.stages,
        body_profile=settings.engine.body_profile if settings.engine else None,
        seed=settings.seed,
    )


def target(settings: Settings) -> TargetSettings:
    server = settings.server
    if server is None:
        return TargetSettings(
            url=settings.target_url, retrieved_ttl_s=settings.retrieved_ttl_s, acknowledged=settings.polls_sessions
        )
    return TargetSettings(
        url=settings.target_url,
        retrieved_ttl_s=server.retrieved_ttl_s,
        completed_ttl_s=server.completed_ttl_s,
        sweep_interval_s=SWEEP_INTERVAL_S,
        poll_hold_s=server.poll_hold_s,
        acknowledged=settings.polls_sessions,
    )


def engine(settings: Settings) -> EngineSettings | None:
    if settings.engine is None:
        return None
    return EngineSettings(
        url=settings.engine.url,
        slots=settings.engine.slots,
        service_time=settings.engine.service_time,
        body_profile=settings.engine.body_profile,
    )
