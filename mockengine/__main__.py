"""``python -m mockengine``: a mock vLLM engine on one port."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import resource
import signal
import sys
from typing import NoReturn

import uvloop
from aiohttp import web

from mockengine.app import Engine, EngineOptions
from mockengine.corpus import MAX_TOKENS, PROFILES
from mockengine.service_time import ServiceTimeError, parse_service_time

EXIT_USAGE = 2
# The kernel cuts this to net.core.somaxconn.
LISTEN_BACKLOG = 16_384
# Reference counts free what requests leave; full passes over thousands of live requests would only delay answers.
GC_THRESHOLDS = (5_000, 10, 1_000)


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, without the list of all options before it."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_USAGE, f"mockengine: error: {message}\n")


def main() -> int:
    parser = _parser()
    options = parser.parse_args()
    if not 1 <= options.port <= 65_535:
        parser.error(f"--port should be between 1 and 65535, found {options.port}.")
    for name, least in (("slots", 1), ("max_model_len", 2), ("corpus_seed", 0)):
        if getattr(options, name) < least:
            parser.error(f"--{name.replace('_', '-')} should be at least {least}, found {getattr(options, name)}.")
    try:
        service_time = parse_service_time(options.service_time)
    except ServiceTimeError as error:
        parser.error(str(error))
    engine = Engine(
        EngineOptions(
            model=options.model,
            max_model_len=options.max_model_len,
            slots=options.slots,
            service_time=service_time,
            body_profile=options.body_profile,
            corpus_seed=options.corpus_seed,
            seed=options.seed,
        )
    )
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        uvloop.run(_serve(engine, options.host, options.port))
    except OSError as error:
        # uvloop's own text repeats the address; an unknown host has a negative number, which is none of the system's.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        where = f"{options.host}:{options.port}"
        parser.error(f"Cannot listen on {where}: {reason}. Choose another --host or --port.")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m mockengine",
        description="A mock vLLM engine: slots, a queue, service times, and bodies that are known in advance.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on")
    parser.add_argument("--model", default="mock", help="the model's name")
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
        help="how long a request occupies its slot: fixed:TIME or lognormal:mean=TIME,cv=NUMBER[,max=TIME]; "
        "draws longer than max are cut to it",
    )
    parser.add_argument(
        "--body-profile",
        choices=PROFILES,
        default="full",
        help="how much of vLLM's answer is sent: ids and a constant logprob (11 bytes a token), ids and logprobs (26), "
        "or everything (about 80)",
    )
    parser.add_argument("--corpus-seed", type=int, default=0, help="seed of the answers' content")
    parser.add_argument("--seed", type=int, default=0, help="seed of service times and of requests without a seed")
    return parser


async def _serve(engine: Engine, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT. Raises OSError when the port can't be had."""
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    # handler_cancellation: a client that goes away ends its request, which frees the slot.
    runner = web.AppRunner(engine.app(), access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, host, port, backlog=LISTEN_BACKLOG).start()
    print(f"mockengine ready on http://{host}:{port}", flush=True)
    await stop.wait()
    print(f"mockengine: {engine.metrics.summary()}", file=sys.stderr)
    # No runner.cleanup(): it waits for requests under way, and those that end just when its patience does are logged as
    # errors. What is under way is broken off, by the cancelling of all tasks with which the loop ends.


if __name__ == "__main__":
    sys.exit(main())
