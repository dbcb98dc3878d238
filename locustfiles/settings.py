"""What a run is asked to do: parsed options in, checked and frozen settings out.

Pure, but for files of stages and of thresholds.
"""

from __future__ import annotations

import argparse
import math
import re
import shlex
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from locustfiles.arrivals import CLOSED
from locustfiles.preset import CONSTANTS, CUSTOM, PRESET_NAMES, PRESETS, SDK, Preset
from locustfiles.protocols.choice import SDK_PROTOCOLS, ProtocolError, protocol_named
from locustfiles.source_addresses import parse_source_addresses, source_addresses
from locustfiles.stages import Stages, StagesError, due_times, most_outstanding, read_stages
from mockengine.corpus import PROFILES, BodyProfile
from reports.schema import Stage
from reports.threshold_files import asked_thresholds
from reports.thresholds import ThresholdError

RETRIEVED_TTL_S = 300.0  # how long the server that we start keeps a delivered result, unless it is told otherwise
LEAST_WORKER_TIMEOUT_S = 3.0
SWEEP_INTERVAL_S = 1.0  # how often the server that we start drops expired results

REAL_SDK_PERCENT = 2  # of the futures, where nobody says how many the real SDK is to follow

VERIFY = ("auto", "corpus", "shape")

# What one client has under way at once when it polls its session, besides its submits: results that it fetches, over
# the 1,000 connections of the SDK's pool for them (tinker, _constants.py), and the session's poll.
FETCHES_AT_ONCE = 1000
SESSION_POLLS_AT_ONCE = 1
# What constants of a client may be, where any from 0 on would not do.
LIMITS: dict[str, tuple[float, float]] = {
    "poll_timeout_s": (0.001, math.inf),
    "submit_timeout_s": (0.001, math.inf),
    "submits_at_once": (1, math.inf),
    "throttled_submits_at_once": (1, math.inf),
    "submit_pause_s": (0.001, math.inf),
    "backoff_factor": (1, 100),
    "resubmit_jitter": (0, 1),
}
# What whole numbers may be: a future takes three bytes of the ledger, each prompt is a list of its tokens, and seeds
# have to be the same in JSON.
WHOLE_NUMBERS = {
    "requests": (1, 10**8),
    "in_flight": (1, 10**6),
    "max_tokens": (1, 10**7),
    "prompt_tokens": (1, 10**7),
    "slots": (1, 10**6),
    "seed": (0, 2**53),
    "corpus_seed": (0, 2**53),
}
# Beside those of futures, whatever the protocol: sessions and heartbeats.
SPARE_CONNECTIONS_PER_USER = 2


class SettingsError(Exception):
    """An option's value can't be used; the text is a sentence for the user."""


class EngineSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The mock engine that the run starts."""

    port: int
    slots: int
    service_time: str
    body_profile: BodyProfile
    corpus_seed: int
    extra_args: list[str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class ServerSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The server under test that the run starts."""

    port: int
    poll_hold_s: float
    retrieved_ttl_s: float
    completed_ttl_s: float
    extra_args: list[str]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class CorpusSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Of which corpus the engine's answers are, whoever has started it."""

    profile: BodyProfile
    seed: int


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """One run. engine and server are None when they are not started by it: the target is somebody else's."""

    requests: int
    outstanding: int
    in_flight: int
    users: int
    processes: int
    max_tokens: int
    prompt_tokens: int
    lengths: str
    arrivals: str
    stages: list[Stage]
    protocol: str
    preset: Preset
    real_sdk_percent: int  # of the futures, that the real SDK follows
    seed: int
    model: str
    run_name: str
    run_dir: str | None
    observe: str
    engine_metrics: str | None  # None: nobody asks the engine
    drain_s: float
    worker_timeout_s: float
    target_timeout_s: float
    source_addresses: list[str]
    settle_s: float
    retrieved_ttl_s: float | None  # None: not known, as the target is not ours
    thresholds: list[str]
    hold_engine: bool
    futures_log: bool
    target_url: str
    engine: EngineSettings | None
    server: ServerSettings | None
    corpus: CorpusSettings | None  # None: of a result, only the shape is known

    @property
    def speaks_tinker(self) -> bool:
        return self.protocol in SDK_PROTOCOLS

    @property
    def polls_sessions(self) -> bool:
        """Whether a client's futures are polled together, and their results acknowledged."""
        return self.protocol == "tinker-sessions"


def settings_from(options: argparse.Namespace) -> Settings:
    """The run that Locust's parsed options describe. Raises SettingsError."""
    for name, (least, most) in WHOLE_NUMBERS.items():
        _between(least, most, f"--{name.replace('_', '-')}", getattr(options, name))
    for name in ("engine_port", "server_port"):
        if not 1 <= (port := getattr(options, name)) <= 65_535:
            raise SettingsError(f"--{name.replace('_', '-')} should be between 1 and 65535, found {port}.")
    _check_protocol(options)
    if options.worker_timeout < LEAST_WORKER_TIMEOUT_S:
        raise SettingsError(
            f"--worker-timeout should be at least {LEAST_WORKER_TIMEOUT_S:g}s, as load processes report every second, "
            f"found {options.worker_timeout:g}s."
        )
    if options.verify not in VERIFY:
        raise SettingsError(f"--verify should be one of {', '.join(VERIFY)}, found '{options.verify}'.")
    if options.hold_engine and options.host:
        raise SettingsError("--hold-engine holds the mock engine that a run starts, but with --host it starts none.")
    if options.body_profile not in PROFILES:
        raise SettingsError(f"--body-profile should be one of {', '.join(PROFILES)}, found '{options.body_profile}'.")
    if not re.fullmatch(r"[\w. -]{1,50}", options.run_name):
        raise SettingsError(
            "--run-name is part of a folder's name and should have up to 50 letters, digits, spaces, '.', '_' and '-' "
            f"only, found {options.run_name!r}."
        )
    processes = max(1, options.processes or 1, options.expect_workers or 1)
    staged = _stages(options)
    users, outstanding = _users_and_outstanding(options, _asked_outstanding(options, staged), processes)
    their_url = _their_url(options.host)
    engine = None if their_url else _engine(options)
    server = None if their_url else _server(options)
    observe = _observe(options.observe, their_url)
    return Settings(
        requests=_requests(options, staged),
        outstanding=outstanding,
        in_flight=options.in_flight,
        users=users,
        processes=processes,
        max_tokens=options.max_tokens,
        prompt_tokens=options.prompt_tokens,
        lengths=options.lengths,
        arrivals=(staged.spread or CLOSED) if staged else options.arrivals,
        stages=staged.stages if staged else [],
        protocol=options.protocol,
        preset=_preset(options),
        real_sdk_percent=_real_sdk_percent(options),
        seed=options.seed,
        model=options.model,
        run_name=options.run_name,
        run_dir=options.run_dir or None,
        observe=observe,
        engine_metrics=_engine_metrics(options.engine_metrics, engine, observe),
        drain_s=options.drain,
        worker_timeout_s=options.worker_timeout,
        target_timeout_s=options.target_timeout,
        source_addresses=_source_addresses(options),
        settle_s=options.settle,
        retrieved_ttl_s=server.retrieved_ttl_s if server else options.retrieved_ttl,
        thresholds=_thresholds(options),
        hold_engine=options.hold_engine,
        futures_log=options.futures_log,
        target_url=their_url or (server.url if server else ""),
        engine=engine,
        server=server,
        corpus=_corpus(options, engine),
    )


def connections(settings: Settings, outstanding: int) -> int:
    """Connections to the target that one load process needs at most for so many outstanding futures of its own."""
    futures = outstanding
    if settings.polls_sessions:  # a future that waits needs none
        futures = min(outstanding, settings.users * (settings.preset.submits_at_once + FETCHES_AT_ONCE))
        futures += settings.users * SESSION_POLLS_AT_ONCE
    return futures + settings.users * SPARE_CONNECTIONS_PER_USER


def sources(settings: Settings, ports: int | None) -> list[str]:
    """Addresses to connect to the target from; none to leave it to the system. ports: of each of them.

    Raises SourceAddressesError.
    """
    host = urlsplit(settings.target_url).hostname or ""
    return source_addresses(settings.source_addresses, host, connections(settings, settings.outstanding), ports)


def _preset(options: argparse.Namespace) -> Preset:
    """The preset named; with custom ones the SDK's, but for what the options say."""
    told = {
        constant.name: value
        for constant in CONSTANTS
        if (value := getattr(options, f"client_{constant.name.removesuffix('_s')}")) is not None
    }
    name = options.poll_preset
    if name not in PRESET_NAMES:
        raise SettingsError(f"--poll-preset should be one of {', '.join(PRESET_NAMES)}, found '{name}'.")
    if told and name != CUSTOM:
        option = f"--client-{next(iter(told)).removesuffix('_s').replace('_', '-')}"
        raise SettingsError(f"{option} changes a client of your own. Add --poll-preset {CUSTOM}, found '{name}'.")
    for constant, value in told.items():
        least, most = LIMITS.get(constant, (0, math.inf))
        if not least <= value <= most:
            option = f"--client-{constant.removesuffix('_s').replace('_', '-')}"
            raise SettingsError(f"{option} should be from {least:g} to {most:g}, found {value:g}.")
    return replace(SDK, name=name, **told) if name == CUSTOM else PRESETS[name]


def _source_addresses(options: argparse.Namespace) -> list[str]:
    try:
        return parse_source_addresses(options.source_addresses)
    except ValueError as error:
        raise SettingsError(f"--source-addresses should be addresses with commas between them: {error}.") from error


def _check_protocol(options: argparse.Namespace) -> None:
    try:
        protocol = protocol_named(options.protocol)
    except ProtocolError as error:
        raise SettingsError(str(error)) from error
    if protocol is not None and not options.host:
        raise SettingsError(
            f"--protocol {options.protocol} needs --host: the server that a run starts by itself speaks "
            f"{' and '.join(SDK_PROTOCOLS)} only."
        )


def _real_sdk_percent(options: argparse.Namespace) -> int:
    if options.client == "load":
        return 0
    asked = re.fullmatch(r"sdk(:[0-9]{1,3})?", options.client)
    percent = int(asked[1][1:]) if asked and asked[1] else REAL_SDK_PERCENT
    if asked is None or not 1 <= percent <= 100:
        raise SettingsError(
            "--client should be load, sdk or sdk:PERCENT with 1 to 100 percent of the futures, found "
            f"'{options.client}'."
        )
    if options.protocol not in SDK_PROTOCOLS:
        raise SettingsError(
            f"--client {options.client} speaks what the SDK does, and --protocol {options.protocol} is another. Leave "
            "one of them out."
        )
    if options.hold_engine:
        raise SettingsError(
            "--hold-engine waits until all futures are accepted, which the real SDK does not tell. Leave out "
            f"--client {options.client}."
        )
    if find_spec("tinker") is None:
        raise SettingsError(
            f"--client {options.client} needs the package tinker, which is not installed here: pip install tinker, or "
            "leave the option out."
        )
    return percent


def _corpus(options: argparse.Namespace, engine: EngineSettings | None) -> CorpusSettings | None:
    if options.verify == "shape" or (options.verify == "auto" and engine is None):
        return None
    return CorpusSettings(profile=options.body_profile, seed=options.corpus_seed)


def _thresholds(options: argparse.Namespace) -> list[str]:
    try:
        return asked_thresholds(options.threshold, options.thresholds, Path.cwd())
    except ThresholdError as error:
        raise SettingsError(str(error)) from error


def _stages(options: argparse.Namespace) -> Stages | None:
    if not options.stages:
        return None
    if options.arrivals != CLOSED:
        raise SettingsError(
            f"--stages says when futures start, and so does --arrivals {options.arrivals}. Leave one of them out."
        )
    try:
        return read_stages(Path(options.stages))
    except StagesError as error:
        raise SettingsError(str(error)) from error


def _requests(options: argparse.Namespace, staged: Stages | None) -> int:
    """Stages with a rate have a number of futures of their own."""
    asked: int = options.requests
    if staged is None or staged.spread is None:
        return asked
    arrivals = len(due_times(staged.stages, staged.spread, options.seed))
    if not 1 <= arrivals <= asked:
        raise SettingsError(
            f"The stages in {options.stages} have {arrivals} futures, and --requests allows 1 to {asked}. Raise "
            "--requests, or change the stages."
        )
    return arrivals


def _asked_outstanding(options: argparse.Namespace, staged: Stages | None) -> int | None:
    asked: int | None = options.outstanding
    if staged is None or staged.spread is not None:
        return asked
    if asked is not None:
        raise SettingsError(
            f"The stages in {options.stages} say how many futures are outstanding, and so does --outstanding {asked}. "
            "Leave one of them out."
        )
    return most_outstanding(staged.stages)


def _at_least(least: int, option: str, found: int) -> None:
    if found < least:
        raise SettingsError(f"{option} should be at least {least}, found {found}.")


def _between(least: int, most: int, option: str, found: int) -> None:
    _at_least(least, option, found)
    if found > most:
        raise SettingsError(f"{option} should be at most {most}, found {found}.")


def _users_and_outstanding(options: argparse.Namespace, asked: int | None, processes: int) -> tuple[int, int]:
    """Enough users for the outstanding futures, and one a process at least: each process does its share."""
    needed = processes
    if asked is not None:
        _at_least(1, "--outstanding", asked)
        needed = max(processes, -(-asked // options.in_flight))
    users = options.num_users or needed
    if users < processes:
        raise SettingsError(
            f"--processes {processes} needs as many users at least, found --users {users}. Raise --users."
        )
    outstanding = users * options.in_flight
    if asked is not None:
        if asked > outstanding:
            raise SettingsError(
                f"--outstanding {asked} is more than {users} users x --in-flight {options.in_flight} = "
                f"{outstanding}. Raise --users or --in-flight."
            )
        outstanding = asked
    if outstanding < processes:
        raise SettingsError(f"--outstanding {outstanding} leaves some of the {processes} processes idle. Raise it.")
    return users, outstanding


def _their_url(host: str | None) -> str | None:
    if not host:
        return None
    if not _is_http(host):
        raise SettingsError(f"--host should look like http://HOST:PORT, found '{host}'.")
    return host.rstrip("/")


def _is_http(url: str) -> bool:
    """Whether it is the address of a server that speaks plain HTTP."""
    try:
        parts = urlsplit(url)
        return parts.scheme == "http" and bool(parts.hostname) and parts.port != 0
    except ValueError:  # brackets, or a port that is none
        return False


def _observe(spec: str, their_url: str | None) -> str:
    """``auto`` for a server of our own, else ``pid:N``, ``port:N`` or ``none``."""
    kind, _, number = spec.partition(":")
    if spec == "none" or (kind in ("pid", "port") and number.isdecimal()):
        return spec
    if spec != "auto":
        raise SettingsError(f"--observe should be pid:N, port:N, none or auto, found '{spec}'.")
    if their_url is None:
        return "auto"
    parts = urlsplit(their_url)
    local = parts.hostname in ("localhost", "::1") or (parts.hostname or "").startswith("127.")
    return f"port:{parts.port or 80}" if local else "none"


def _engine_metrics(url: str, engine: EngineSettings | None, observe: str) -> str | None:
    """engine: ours; None behind --host."""
    if engine is not None:
        if url:
            raise SettingsError(
                "--engine-metrics is for an engine behind --host; that of a run of its own is asked anyway."
            )
        return f"{engine.url}/metrics"
    if not url:
        return None
    if not _is_http(url):
        raise SettingsError(f"--engine-metrics should look like http://HOST:PORT/metrics, found '{url}'.")
    if observe == "none":
        raise SettingsError("--engine-metrics is asked by the observer: say with --observe which process to watch.")
    return url


def _words(option: str, text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise SettingsError(f"{option} should be words as a shell takes them, found {text!r}: {error}.") from error


def _engine(options: argparse.Namespace) -> EngineSettings:
    return EngineSettings(
        port=options.engine_port,
        slots=options.slots,
        service_time=options.service_time,
        body_profile=options.body_profile,
        corpus_seed=options.corpus_seed,
        extra_args=_words("--engine-args", options.engine_args),
    )


def _server(options: argparse.Namespace) -> ServerSettings:
    return ServerSettings(
        port=options.server_port,
        poll_hold_s=options.poll_hold,
        retrieved_ttl_s=RETRIEVED_TTL_S if options.retrieved_ttl is None else options.retrieved_ttl,
        completed_ttl_s=options.completed_ttl,
        extra_args=_words("--server-args", options.server_args),
    )


def default_run_dir(root: Path, started_utc: str, name: str) -> Path:
    """``runs/<UTC time>-<name>``; started_utc as ISO 8601."""
    return root / f"{started_utc.replace(':', '').replace('-', '')}-{name}"
