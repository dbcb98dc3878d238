"""repoll's options, beside Locust's own."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from locustfiles.arrivals import CLOSED
from locustfiles.durations import parse_duration
from locustfiles.preset import CONSTANTS, PRESET_NAMES
from locustfiles.protocols.choice import NAMES
from locustfiles.settings import REAL_SDK_PERCENT, VERIFY
from mockengine.corpus import PROFILES

SDK_MAX_OUTSTANDING = 2000  # the SDK's sample_max_concurrent_requests, futures outstanding per client


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare repoll's options. Locust fills them from command line, environment and [tool.locust]."""
    load = parser.add_argument_group("repoll: load", "How many futures there are, and when they start.")
    _add(load, "--requests", type=int, default=131_072, help="futures in the whole run, over all workers")
    _add(
        load,
        "--outstanding",
        type=int,
        default=None,
        help="futures outstanding at most, over all users; default: users x in-flight",
    )
    _add(
        load,
        "--in-flight",
        type=int,
        default=SDK_MAX_OUTSTANDING,
        help="futures that one user, which is one SDK client, keeps outstanding at most",
    )
    _add(
        load,
        "--arrivals",
        default=CLOSED,
        metavar="closed|constant:RATE|poisson:RATE|trace:FILE[,speed=2]",
        help="when futures start: when others have ended, so that --outstanding are kept; or at their times, RATE a "
        "second or as a CSV file has them with their lengths, --outstanding at most",
    )
    _add(
        load,
        "--stages",
        default=None,
        metavar="FILE",
        in_web_ui=False,
        help="a TOML file with stages of a rate or a number outstanding, one after the other, instead of --arrivals",
    )
    work = parser.add_argument_group("repoll: work", "What each future asks for.")
    _add(work, "--max-tokens", type=int, default=8192, help="tokens of each result, with --lengths fixed")
    _add(work, "--prompt-tokens", type=int, default=128, help="tokens of each prompt, with --lengths fixed")
    _add(
        work,
        "--lengths",
        default="fixed",
        metavar="fixed|trace:FILE",
        help="lengths of prompts and results: all alike, or drawn from the columns ContextTokens and GeneratedTokens "
        "of a CSV file",
    )
    _add(work, "--seed", type=int, default=0, help="the same seed asks for the same results")
    _add(work, "--model", default="mock", help="base model that the sampling sessions ask for")
    client = parser.add_argument_group("repoll: client", "How clients submit and poll, and how they look at results.")
    _add(
        client,
        "--protocol",
        default="tinker",
        metavar="|".join(NAMES),
        help="tinker: poll each future by itself; tinker-sessions: a client's session for all of its futures, whose "
        "results it then fetches and acknowledges; respond-async (RFC 7240), operations, or a class of your own, with "
        "--host: see docs/protocols.md",
    )
    _add(
        client,
        "--client",
        default="load",
        metavar="load|sdk[:PERCENT]",
        help=f"sdk: let the real tinker SDK follow PERCENT of the futures ({REAL_SDK_PERCENT}), in processes of its "
        "own beside the load; its results are verified and counted with the others",
    )
    _add(
        client,
        "--poll-preset",
        default="sdk",
        metavar="|".join(PRESET_NAMES),
        help="which client's polling and submitting to imitate; custom: the SDK's, but for what --client-... say",
    )
    _add(
        client,
        "--verify",
        default="auto",
        metavar="|".join(VERIFY),
        help="compare results with the mock engine's corpus (--body-profile, --corpus-seed), or look at their shape "
        "only; auto: corpus unless with --host",
    )
    _add(
        client,
        "--source-addresses",
        default="",
        metavar="ADDRESS,...",
        help="addresses of this machine to connect from, where one has not enough ports; for targets on this machine "
        "they are found without it",
    )
    run = parser.add_argument_group("repoll: run", "What is recorded and watched, and how the run ends.")
    _add(run, "--run-name", default="soak", help="name of the run, part of its folder's name")
    _add(
        run,
        "--run-dir",
        default=None,
        metavar="DIR",
        help="the run's folder; default: runs/<UTC time>-<name>",
    )
    _add(
        run,
        "--observe",
        default="auto",
        metavar="pid:N|port:N|none|auto",
        help="the process whose memory, CPU and files to record; auto: the server started here, or with --host the one "
        "that listens on that port of this machine",
    )
    _add(
        run,
        "--engine-metrics",
        default="",
        metavar="URL",
        help="with --host: the Prometheus page of the engine behind it, whose finished requests are then compared with "
        "what was submitted",
    )
    _add(
        run,
        "--futures-log",
        action="store_true",
        help="write futures.csv.zst into the run's folder, a row for each future; with several processes, one file "
        "each",
    )
    _add(
        run,
        "--drain",
        type=parse_duration,
        default=60.0,
        metavar="TIME",
        help="how long a stopped run waits for its outstanding futures before it abandons them",
    )
    _add(
        run,
        "--target-timeout",
        type=parse_duration,
        default=60.0,
        metavar="TIME",
        help="for how long every connection to the target may fail before the run is ended as invalid",
    )
    _add(
        run,
        "--settle",
        type=parse_duration,
        default=0.0,
        metavar="TIME",
        help="how long to watch the target on after the load has ended, to see what memory it gives back: its "
        "--retrieved-ttl and a minute more",
    )
    _add(
        run,
        "--worker-timeout",
        type=parse_duration,
        default=15.0,
        metavar="TIME",
        help="how long a load process may say nothing, which it does every second, before the run is ended as invalid",
    )
    _add(
        run,
        "--threshold",
        action="append",
        default=[],
        metavar="'NAME < LIMIT'",
        in_web_ui=False,
        help="what the run has to keep to pass, such as 'failed == 0', 'future_p99 < 60s' or 'throughput >= 0.95 * "
        "engine_ceiling'; may be given more than once. Names: see python -m reports check --help",
    )
    _add(
        run,
        "--thresholds",
        default=None,
        metavar="FILE",
        in_web_ui=False,
        help="a TOML file with thresholds = [...]; default: [tool.repoll] of ./pyproject.toml",
    )
    custom = parser.add_argument_group("repoll: custom client (with --poll-preset custom)")
    for constant in CONSTANTS:
        _add_constant(custom, constant)
    engine = parser.add_argument_group(
        "repoll: mock engine (not with --host)", "Stands behind the server, in place of vLLM."
    )
    _add(engine, "--engine-port", type=int, default=8000, help="port of the mock engine")
    _add(engine, "--slots", type=int, default=2048, help="requests that the engine serves at once")
    _add(
        engine,
        "--service-time",
        default="lognormal:mean=5s,cv=0.8,max=20s",
        metavar="SPEC",
        help="fixed:5s or lognormal:mean=5s,cv=0.8,max=20s; see python -m mockengine --help",
    )
    _add(
        engine,
        "--body-profile",
        default="seed-equivalent",
        metavar="|".join(PROFILES),
        help="what the engine sends",
    )
    _add(engine, "--corpus-seed", type=int, default=0, help="seed of the results' content")
    _add(
        engine,
        "--hold-engine",
        action="store_true",
        help="let the engine answer nothing until as many futures as asked for are outstanding, all of them accepted",
    )
    _add(engine, "--engine-args", default="", metavar="'ARGS'", help="further options of python -m mockengine")
    server = parser.add_argument_group(
        "repoll: server under test (not with --host)", "Takes futures, forwards them to the engine, keeps the results."
    )
    _add(server, "--server-port", type=int, default=8001, help="port of the server under test")
    _add(
        server,
        "--poll-hold",
        type=parse_duration,
        default=300.0,
        metavar="TIME",
        help="how long it holds a poll",
    )
    _add(
        server,
        "--retrieved-ttl",
        type=parse_duration,
        default=None,
        metavar="TIME",
        help="how long it keeps a delivered result (300s); with --host, how long yours does, to judge its memory by",
    )
    _add(
        server,
        "--completed-ttl",
        type=parse_duration,
        default=600.0,
        metavar="TIME",
        help="how long it keeps a result that nobody fetched",
    )
    _add(
        server,
        "--server-args",
        default="",
        metavar="'ARGS'",
        help="further options of python -m server_under_test",
    )


def _add_constant(group: Any, constant: dataclasses.Field[Any]) -> None:
    """An option of the type and the unit that the constant's name says."""
    name = f"--client-{constant.name.removesuffix('_s').replace('_', '-')}"
    default = constant.default
    kind, metavar = (parse_duration, "TIME") if constant.name.endswith("_s") else (type(default), "N")
    shown = f"{default:g}s" if metavar == "TIME" else str(default)
    if isinstance(default, bool):
        kind, metavar, shown = parse_yes_no, "yes|no", "yes" if default else "no"
    about = f"{constant.metadata['about']}; default: {shown}"
    _add(group, name, type=kind, default=None, metavar=metavar, in_web_ui=False, help=about)


def parse_yes_no(text: str) -> bool:
    """Raises argparse.ArgumentTypeError."""
    if text not in ("yes", "no"):
        raise argparse.ArgumentTypeError(f"expected yes or no, found '{text}'")
    return text == "yes"


def _add(group: Any, *args: str, in_web_ui: bool = True, **kwargs: Any) -> None:
    action = group.add_argument(*args, **kwargs)
    # What Locust's own parser sets on its actions, and an argument group does not: the start form asks for it.
    action.include_in_web_ui = in_web_ui
    action.is_secret = action.is_required = action.is_multiple = False
