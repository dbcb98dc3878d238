"""``python -m mockengine``: a mock vLLM engine on one port."""

from __future__ import annotations

import argparse
import os
import resource
import sys
from functools import partial
from pathlib import Path
from typing import NoReturn

import uvloop

from mockengine.app import Engine, EngineOptions, Overflow
from mockengine.corpus import MAX_TOKENS, PROFILES
from mockengine.durations import DurationError, parse_duration
from mockengine.fanout.inbox import Inbox
from mockengine.fanout.serving import FanoutOptionsError, Served, add_fanout_options, fanout_options
from mockengine.faults import FaultError, Rule, parse_rule_words, read_rules
from mockengine.process import Process, tune_collector
from mockengine.service_time import FORMS, ServiceTimeError, parse_service_time
from mockengine.sharing import Worker, check_faults, check_service_time, this_worker
from mockengine.workers import run_workers

EXIT_USAGE = 2


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, without the list of all options before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"mockengine: error: {message}\n")


def main() -> int:
    parser = _parser()
    words = parser.parse_args()
    worker = this_worker()
    try:
        options = _engine_options(parser, words, worker)
        fanout = fanout_options(words)
        if words.check:
            return 0
        if worker is None and fanout is not None:
            behind = partial(Served, fanout, options)
            return run_workers(words.host, words.port, fanout.http_workers, behind)
        if worker is None and words.workers > 1:
            return run_workers(words.host, words.port, words.workers)
        _serve(options, words.host, words.port, worker)
    except (ServiceTimeError, FaultError, FanoutOptionsError) as error:
        parser.error(str(error))
    except OSError as error:
        # uvloop's own text repeats the address; an unknown host has a negative number, which is none of the system's.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        where = f"{words.host}:{words.port}"
        parser.error(f"Cannot listen on {where}: {reason}. Choose another --host or --port.")
    return 0


def _serve(options: EngineOptions, host: str, port: int, worker: Worker | None) -> None:
    process = Process(host, port, worker)
    inbox = None
    if worker is not None and worker.place is not None:
        inbox = partial(Inbox, f"http worker {worker.index}", worker.rows_address, worker.place)
    engine = Engine(options, process, inbox)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    tune_collector()
    uvloop.run(process.run(engine))


def _engine_options(parser: _Parser, words: argparse.Namespace, worker: Worker | None) -> EngineOptions:
    """Checked options; a worker gets its share of what is divided.

    Raises ServiceTimeError, FaultError and FanoutOptionsError.
    """
    fanout = fanout_options(words)
    if not 0 <= words.port <= 65_535:
        parser.error(f"--port should be between 0 and 65535, found {words.port}.")
    for name, least in (("slots", 1), ("max_model_len", 2), ("corpus_seed", 0), ("workers", 1), ("max_waiting", 0)):
        if (value := getattr(words, name)) is not None and value < least:
            parser.error(f"--{name.replace('_', '-')} should be at least {least}, found {value}.")
    if fanout is not None and words.workers > 1:
        parser.error("--workers is for an engine without a pipeline; with --fanout, say --http-workers.")
    sharing, option = (words.workers, "--workers") if fanout is None else (fanout.http_workers, "--http-workers")
    if words.slots < sharing:
        parser.error(f"--slots should be at least 1 for each of the {sharing} {option}, found {words.slots}.")
    rules = _rules(words)
    # Those of the pipeline count: what needs one process does not get on with them either.
    processes = words.workers if fanout is None else 1 + sharing
    check_faults(rules, processes)
    check_service_time(parse_service_time(words.service_time), processes)

    def share(total: int) -> int:
        return total if worker is None else worker.share(total)

    return EngineOptions(
        models=words.model,
        max_model_len=words.max_model_len,
        slots=share(words.slots),
        service_time=words.service_time,
        body_profile=words.body_profile,
        corpus_seed=words.corpus_seed,
        seed=words.seed if worker is None else words.seed * worker.of + worker.index,
        own_seeds=(words.seed, 1) if worker is None else (words.seed + worker.index, worker.of),
        overflow=_overflow(parser, words, share(words.max_waiting or 0)),
        faults=rules,
        workers=processes,
    )


def _rules(words: argparse.Namespace) -> list[Rule]:
    """Those of the command line go before those of the file. Raises FaultError."""
    from_words = [parse_rule_words(fault) for fault in words.fault]
    return from_words if words.faults is None else from_words + read_rules(words.faults)


def _overflow(parser: _Parser, words: argparse.Namespace, max_waiting: int) -> Overflow | None:
    try:
        retry_after_s = parse_duration(words.retry_after)
    except DurationError as error:
        parser.error(f"--retry-after: {error}")
    if words.max_waiting is None:
        return None
    return Overflow(max_waiting=max_waiting, status=words.overflow_status, retry_after_s=retry_after_s)


def _parser() -> _Parser:
    parser = _Parser(
        prog="python -m mockengine",
        description="A mock vLLM engine: slots, a queue, service times, bodies that are known in advance, and faults.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on, 0 for any that is free")
    parser.add_argument(
        "--workers", type=int, default=1, metavar="N", help="processes that share the port and the slots"
    )
    parser.add_argument("--model", default=["mock"], nargs="+", metavar="NAME", help="names that requests may ask for")
    parser.add_argument(
        "--max-model-len",
        type=int,
        default=2 * MAX_TOKENS,
        help="tokens of prompt and answer together, past them 400",
    )
    parser.add_argument("--slots", type=int, default=256, help="requests served at once (vLLM's max_num_seqs)")
    parser.add_argument(
        "--service-time",
        default="fixed:1s",
        metavar="SPEC",
        help=f"how long a request occupies its slot: {'; '.join(FORMS.values())}. lognormal draws longer than max are "
        "cut to it; tokens and load count the request's max_tokens; a trace is a file of seconds, one a line",
    )
    parser.add_argument(
        "--max-waiting",
        type=int,
        metavar="N",
        help="requests in the queue, past which more are refused (default: no end)",
    )
    parser.add_argument("--overflow-status", type=int, choices=(429, 503), default=503, help="what those are answered")
    parser.add_argument("--retry-after", default="1s", metavar="TIME", help="the Retry-After of that answer")
    parser.add_argument(
        "--body-profile",
        choices=PROFILES,
        default="full",
        help="how much of vLLM's answer is sent: ids and a constant logprob (11 bytes a token), ids and logprobs (26), "
        "or everything (about 80)",
    )
    parser.add_argument("--corpus-seed", type=int, default=0, help="seed of the answers' content")
    parser.add_argument("--seed", type=int, default=0, help="seed of service times, faults and requests without a seed")
    parser.add_argument(
        "--fault",
        action="append",
        default=[],
        metavar="KIND[:NAME=VALUE,...]",
        help="a fault, such as http_500:probability=0.01 or stall_in_body:every=100,seconds=5s; may be repeated; all "
        "kinds stand in docs/engine.md",
    )
    parser.add_argument("--faults", type=Path, metavar="FILE", help="more faults: [[fault]] tables of a TOML file")
    parser.add_argument("--check", action="store_true", help="look at the options and serve nothing")
    add_fanout_options(parser)
    return parser


if __name__ == "__main__":
    sys.exit(main())
