"""``python -m mockengine``: a mock vLLM engine on one port."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import resource
import signal
import sys

import uvloop
from aiohttp import web

from mockengine.app import Engine, EngineOptions
from mockengine.corpus import PROFILES
from mockengine.service_time import ServiceTimeError, parse_service_time

EXIT_USAGE = 2
# The kernel cuts this to net.core.somaxconn.
LISTEN_BACKLOG = 16_384
# Reference counts free what requests leave; full passes over thousands of live requests would only delay answers.
GC_THRESHOLDS = (5_000, 10, 1_000)
SHUTDOWN_TIMEOUT_S = 0.1  # what is under way is broken off; aiohttp takes 0 for no limit


def main() -> int:
    options = _parser().parse_args()
    try:
        service_time = parse_service_time(options.service_time)
    except ServiceTimeError as error:
        return _usage_error(str(error))
    if options.slots < 1:
        return _usage_error(f"--slots should be at least 1, found {options.slots}.")
    engine = Engine(
        EngineOptions(
            model=options.model,
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
        return _usage_error(
            f"Cannot listen on {options.host}:{options.port}: {os.strerror(error.errno or 0)}. Choose another --port."
        )
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m mockengine",
        description="A mock vLLM engine: slots, a queue, service times, and bodies that are known in advance.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=8000, help="port to listen on")
    parser.add_argument("--model", default="mock", help="the model's name")
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


def _usage_error(sentence: str) -> int:
    print(f"mockengine: error: {sentence}", file=sys.stderr)
    return EXIT_USAGE


async def _serve(engine: Engine, host: str, port: int) -> None:
    """Serve until SIGTERM or SIGINT. Raises OSError when the port can't be had."""
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    # handler_cancellation: a client that goes away ends its request, which frees the slot.
    runner = web.AppRunner(
        engine.app(), access_log=None, handler_cancellation=True, shutdown_timeout=SHUTDOWN_TIMEOUT_S
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port, backlog=LISTEN_BACKLOG).start()
        print(f"mockengine ready on http://{host}:{port}", flush=True)
        await stop.wait()
    finally:
        await runner.cleanup()


if __name__ == "__main__":
    sys.exit(main())
