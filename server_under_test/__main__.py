"""``python -m server_under_test``: the forwarding server on one port."""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import re
import resource
import secrets
import signal
import sys
from urllib.parse import urlsplit

import uvloop
from aiohttp import web

from server_under_test.app import Server, ServerOptions
from server_under_test.engine_client import EngineClient
from server_under_test.store import KeepFor

EXIT_USAGE = 2
API_KEY_VARIABLE = "SERVER_UNDER_TEST_API_KEY"
# The kernel cuts this to net.core.somaxconn.
LISTEN_BACKLOG = 16_384
# Tens of thousands of held polls are millions of live objects, and a pass over all of them stops the loop for a second
# or more. What requests leave behind is freed by reference counts; the collector finds next to nothing, so it looks at
# young objects only, at few enough of them (50,000 in its second generation) for passes of some 20 ms.
GC_THRESHOLDS = (5_000, 10, 1_000)
SHUTDOWN_TIMEOUT_S = 0.1  # what is under way is broken off; aiohttp takes 0 for no limit
KEEP_ALIVE_S = 120.0


def main() -> int:
    options = _parser().parse_args()
    if (mistake := _mistake(options)) is not None:
        return _usage_error(mistake)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    gc.collect()
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLDS)
    try:
        uvloop.run(_serve(options))
    except OSError as error:
        # uvloop's own text repeats the address; an unknown host has a negative number, which is none of the system's.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        where = f"{options.host}:{options.port}"
        return _usage_error(f"Cannot listen on {where}: {reason}. Choose another --host or --port.")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m server_under_test",
        description="A forwarding server for a future-polling sampling API: each result is encoded once and served "
        f"as it is. With the environment variable {API_KEY_VARIABLE}, clients must send that key.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=8001, help="port to listen on")
    parser.add_argument("--engine", default="http://127.0.0.1:8000", metavar="URL", help="the vLLM engine")
    parser.add_argument("--engine-connections", type=int, default=2048, help="requests at the engine at once")
    parser.add_argument("--max-outstanding", type=int, default=200_000, help="futures outstanding, past them 429")
    for option, default, text in (
        ("--poll-hold", 300.0, "how long a poll waits for its future"),
        ("--retrieved-ttl", 300.0, "how long a result is kept after its last complete delivery"),
        ("--completed-ttl", 600.0, "how long a result is kept that nobody has fetched"),
        ("--pending-ttl", 3600.0, "how long the engine may take before the future fails"),
        ("--engine-timeout", 3600.0, "how long a request to the engine may take, with all attempts"),
        ("--engine-connect-deadline", 30.0, "how long to try to connect to an engine that is away"),
        ("--sweep-interval", 1.0, "how often expired futures are dropped"),
    ):
        parser.add_argument(option, type=_duration, default=default, metavar="TIME", help=f"{text}, such as 300s")
    return parser


_UNITS_S = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def _duration(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)?", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected a length of time such as 300s or 250ms, found '{text}'")
    return float(match[1]) * _UNITS_S[match[2] or "s"]


def _mistake(options: argparse.Namespace) -> str | None:
    """What is wrong with the options, as a sentence."""
    if not _is_http_url(options.engine):
        return f"--engine should look like http://HOST:PORT, found '{options.engine}'."
    if not 1 <= options.port <= 65535:
        return f"--port should be between 1 and 65535, found {options.port}."
    for name in ("engine_connections", "max_outstanding"):
        if getattr(options, name) < 1:
            return f"--{name.replace('_', '-')} should be at least 1, found {getattr(options, name)}."
    for name in ("sweep_interval", "engine_timeout"):
        if getattr(options, name) == 0:
            return f"--{name.replace('_', '-')} should be longer than 0 s."
    return None


def _is_http_url(text: str) -> bool:
    try:
        parts = urlsplit(text)
        return text.isascii() and parts.scheme == "http" and bool(parts.hostname) and parts.port != 0
    except ValueError:  # the port is no number
        return False


def _usage_error(sentence: str) -> int:
    print(f"server_under_test: error: {sentence}", file=sys.stderr)
    return EXIT_USAGE


async def _serve(options: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT. Raises OSError when the port can't be had."""
    stop = asyncio.Event()
    for signum in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(signum, stop.set)
    server_options = ServerOptions(
        engine_connections=options.engine_connections,
        poll_hold_s=options.poll_hold,
        max_outstanding=options.max_outstanding,
        keep_for=KeepFor(
            pending_ttl_s=options.pending_ttl,
            completed_ttl_s=options.completed_ttl,
            retrieved_ttl_s=options.retrieved_ttl,
        ),
        sweep_interval_s=options.sweep_interval,
        api_key=os.environ.get(API_KEY_VARIABLE),
    )
    engine = EngineClient(options.engine, options.engine_timeout, options.engine_connect_deadline)
    server = Server(server_options, engine, boot=secrets.token_hex(8))
    # handler_cancellation: a client that goes away ends its poll, which is then neither held nor answered.
    runner = web.AppRunner(
        server.app(),
        access_log=None,
        handler_cancellation=True,
        keepalive_timeout=KEEP_ALIVE_S,
        shutdown_timeout=SHUTDOWN_TIMEOUT_S,
    )
    await runner.setup()
    background = asyncio.create_task(server.run_background())
    try:
        await web.TCPSite(runner, options.host, options.port, backlog=LISTEN_BACKLOG).start()
        print(f"server_under_test ready on http://{options.host}:{options.port}", flush=True)
        await stop.wait()
    finally:
        background.cancel()
        print(f"server_under_test: {server.summary()}", file=sys.stderr)
        await server.stop()
        engine.close()
        await runner.cleanup()


if __name__ == "__main__":
    sys.exit(main())
