"""The pipeline behind an engine's HTTP workers: its options, its processes, and what is said of them at the end."""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec

from mockengine.corpus import BodyProfile
from mockengine.durations import DurationError, parse_duration
from mockengine.fanout.faults import FAULTS
from mockengine.fanout.inbox import Place, Seen
from mockengine.fanout.pipeline import Pipeline
from mockengine.fanout.splitting import SPLITTERS
from mockengine.fanout.stages import Account
from mockengine.fanout.stepping import StepScheduler
from mockengine.fanout.transport import TRANSPORTS, TransportName


class FanoutOptionsError(ValueError):
    """Options that go ill together; the text is a sentence for the user."""


class FanoutOptions(msgspec.Struct, frozen=True, kw_only=True):
    """splitter: the arm. max_rows: of a batch, None for no end. stage_times: a file for them."""

    splitter: str
    http_workers: int
    detokenizers: int
    transport: TransportName
    step_interval_s: float
    max_rows: int | None
    stage_times: Path | None
    fanout_fault: str | None


class StageTimes(msgspec.Struct, frozen=True):
    """What ``--stage-times`` writes, as JSON."""

    stages: list[Account]
    http_workers: list[Seen]


_DEFAULTS: dict[str, Any] = {
    "http_workers": 2,
    "detokenizers": 1,
    "transport": "msgpack",
    "step_interval": "20ms",
    "max_rows": None,
    "stage_times": None,
    "fanout_fault": None,
}


def add_fanout_options(parser: argparse.ArgumentParser) -> None:
    """Without defaults, so that ``fanout_options`` finds those that were given for nothing."""
    group = parser.add_argument_group(
        "several HTTP workers",
        "With --fanout, answers pass a scheduler, detokenizers and HTTP workers, each a process (docs/fanout.md).",
    )

    def add(name: str, **more: Any) -> None:
        group.add_argument(name, default=argparse.SUPPRESS, **more)

    add("--fanout", choices=SPLITTERS, help="how batches are split among the HTTP workers (default: no pipeline)")
    add("--http-workers", type=int, metavar="N", help="that share the port (default 2)")
    add("--detokenizers", type=int, metavar="N", help="more than one have a router before them (default 1)")
    add("--transport", choices=TRANSPORTS, help="of messages between processes (default msgpack)")
    add("--step-interval", metavar="TIME", help="from one batch to the next (default 20ms)")
    add("--max-rows", type=int, metavar="N", help="of a batch, past which requests are aborted (default: no end)")
    add("--fanout-fault", choices=FAULTS, metavar="KIND", help=f"a mistake in the pipeline: {', '.join(FAULTS)}")
    add("--stage-times", type=Path, metavar="FILE", help="for the account of every process, and when rows passed it")


def fanout_options(words: argparse.Namespace) -> FanoutOptions | None:
    """None for an engine without a pipeline. Raises FanoutOptionsError."""
    given = {name: getattr(words, name) for name in _DEFAULTS if hasattr(words, name)}
    if not hasattr(words, "fanout"):
        if given:
            option = f"--{next(iter(given)).replace('_', '-')}"
            raise FanoutOptionsError(f"{option} is an option of the pipeline; give --fanout with it.")
        return None
    values = _DEFAULTS | given
    for name in ("http_workers", "detokenizers", "max_rows"):
        if values[name] is not None and values[name] < 1:
            raise FanoutOptionsError(f"--{name.replace('_', '-')} should be at least 1, found {values[name]}.")
    try:
        values["step_interval_s"] = parse_duration(values.pop("step_interval"))
    except DurationError as error:
        raise FanoutOptionsError(f"--step-interval: {error}") from error
    if values["step_interval_s"] <= 0:
        raise FanoutOptionsError("--step-interval should be above 0.")
    return FanoutOptions(splitter=words.fanout, **values)


class Answers(Protocol):
    """What the scheduler has to know of the engine's options."""

    @property
    def body_profile(self) -> BodyProfile: ...
    @property
    def corpus_seed(self) -> int: ...


class Served:
    """A ``with`` block in which the pipeline runs. workers: addresses of the HTTP workers, which others start."""

    def __init__(self, options: FanoutOptions, answers: Answers, workers: list[str]) -> None:
        self._options = options
        scheduler = workers[0].removesuffix("0") + "-scheduler"
        make = partial(
            StepScheduler,
            interval_s=options.step_interval_s,
            max_rows=options.max_rows,
            profile=answers.body_profile,
            corpus_seed=answers.corpus_seed,
        )
        is_traced = options.stage_times is not None
        self._pipeline = Pipeline(
            transport=options.transport,
            splitter=options.splitter,
            detokenizers=options.detokenizers,
            workers=workers,
            scheduler=(scheduler, make),
            is_traced=is_traced,
            fault=options.fanout_fault,
        )
        self.place = Place(
            transport=options.transport,
            scheduler=scheduler,
            step_interval_s=options.step_interval_s,
            is_traced=is_traced,
        )

    def __enter__(self) -> Self:
        self._pipeline.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pipeline.__exit__(kind, error, at)

    def dead(self) -> str | None:
        return self._pipeline.dead()

    def end(self, seen: list[Seen]) -> None:
        accounts = self._pipeline.shut_down()
        print(f"mockengine: {summary(accounts, seen)}", file=sys.stderr)
        if self._options.stage_times is not None:
            self._options.stage_times.write_bytes(msgspec.json.encode(StageTimes(accounts, seen)))


def summary(accounts: list[Account], seen: list[Seen]) -> str:
    """A few sentences on the rows that came through, and how busy each process was."""
    busy = ", ".join(f"{one.name} {100 * one.utilisation:.0f} %" for one in accounts)
    rows, unknown = sum(one.rows for one in seen), sum(one.unknown for one in seen)
    wrong, aborted = sum(one.wrong for one in seen), sum(one.aborted for one in seen)
    return (
        f"{rows} rows came through the pipeline, and {unknown} for nobody; {wrong} answers were wrong and {aborted} "
        f"requests aborted. CPU time as a share of all time: {busy}."
    )
