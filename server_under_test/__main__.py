"""``python -m server_under_test``: the forwarding server on one port."""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import resource
import secrets
import signal
import sys
from collections.abc import Callable
from typing import get_args
from urllib.parse import urlsplit

import uvloop
from aiohttp import web

from server_under_test.accepting import Listener
from server_under_test.access import Connections, keep_requests_out_of_the_log
from server_under_test.app import Server, ServerOptions
from server_under_test.engine_client import EngineClient
from server_under_test.futures_api import FutureOptions
from server_under_test.result_path import PathName, ProtoOnce, ResultPath
from server_under_test.store import KeepFor

EXIT_USAGE = 2
EXIT_STOPPED_TWICE = 1
API_KEY_VARIABLE = "SERVER_UNDER_TEST_API_KEY"
# The kernel cuts this to net.core.somaxconn.
LISTEN_BACKLOG = 16_384
SHUTDOWN_TIMEOUT_S = 0.1  # what is under way after the drain is broken off; aiohttp takes 0 for no limit


def main() -> int:
    options = _parser().parse_args()
    if (mistake := _mistake(options)) is not None:
        return _usage_error(mistake)
    if options.check:
        return 0
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    keep_requests_out_of_the_log()
    try:
        uvloop.run(_serve(options))
    except _CannotListenError as error:
        return _usage_error(str(error))
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
    parser.add_argument(
        "--metrics-port",
        type=int,
        metavar="PORT",
        help="serve /metrics on a port of its own, where no key is asked for",
    )
    parser.add_argument("--metrics-host", default="127.0.0.1", metavar="HOST", help="address for --metrics-port")
    parser.add_argument("--engine", default="http://127.0.0.1:8000", metavar="URL", help="the vLLM engine")
    parser.add_argument(
        "--result-path",
        choices=get_args(PathName),
        default="proto-once",
        help="encode each result once, or, to compare with, store JSON and encode it at every retrieval",
    )
    parser.add_argument("--engine-connections", type=int, default=2048, help="requests at the engine at once")
    parser.add_argument("--max-outstanding", type=int, default=200_000, help="futures outstanding, past them 429")
    parser.add_argument("--max-held", type=_size, default="16GB", metavar="SIZE", help="results held, past them 429")
    parser.add_argument(
        "--inline-limit", type=_size, metavar="SIZE", help="longer results are announced first to clients that allow it"
    )
    parser.add_argument("--session-polling", action="store_true", help="tell clients to poll sessions, not futures")
    parser.add_argument("--max-connections-per-address", type=int, metavar="N", help="connections past it are closed")
    parser.add_argument("--check", action="store_true", help="look at the options and serve nothing")
    for option, default, text in (
        ("--poll-hold", 300.0, "how long a poll waits for its future"),
        ("--session-poll-hold", 30.0, "how long a poll waits for anything in its session"),
        ("--keep-alive", 120.0, "how long a connection may be without a whole request"),
        ("--shutdown-deadline", 30.0, "how long after SIGTERM outstanding futures may take"),
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


_SIZES = {"": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


def _size(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([KMG]i?B)?", text, re.IGNORECASE)
    if match is None:
        raise argparse.ArgumentTypeError(f"expected a size such as 64KB or 2GB, found '{text}'")
    return int(float(match[1]) * _SIZES[(match[2] or "").upper()])


def _mistake(options: argparse.Namespace) -> str | None:
    """What is wrong with the options, as a sentence."""
    if not _is_http_url(options.engine):
        return f"--engine should look like http://HOST:PORT, found '{options.engine}'."
    for name in ("port", "metrics_port"):
        if (value := getattr(options, name)) is not None and not 1 <= value <= 65535:
            return f"--{name.replace('_', '-')} should be between 1 and 65535, found {value}."
    for name in ("engine_connections", "max_outstanding", "max_connections_per_address"):
        if (value := getattr(options, name)) is not None and value < 1:
            return f"--{name.replace('_', '-')} should be at least 1, found {value}."
    for name in ("sweep_interval", "engine_timeout", "keep_alive"):
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


class _CannotListenError(Exception):
    """The text is a sentence."""


async def _listen(make_protocol: Callable[[], asyncio.Protocol], host: str, port: int, option: str) -> Listener:
    try:
        return await Listener.open(make_protocol, host, port, LISTEN_BACKLOG)
    except OSError as error:
        # An unknown host has a negative number, which is none of the system's.
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror
        raise _CannotListenError(f"Cannot listen on {host}:{port}: {reason}. Choose another {option}.") from error


async def _serve(options: argparse.Namespace) -> None:
    """Serve until SIGTERM or SIGINT, and then until all has ended; a second one ends it at once.

    Raises _CannotListenError.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, _stop_or_exit, stop)
    engine = EngineClient(options.engine, options.engine_timeout, options.engine_connect_deadline)
    server = Server(_server_options(options), engine, _result_path(options.result_path), boot=secrets.token_hex(8))
    # handler_cancellation: a client that goes away ends its poll, which is then neither held nor answered.
    runner = web.AppRunner(server.app(), handler_cancellation=True, shutdown_timeout=SHUTDOWN_TIMEOUT_S)
    await runner.setup()
    assert runner.server is not None
    connections = Connections(runner.server, options.max_connections_per_address, options.keep_alive)
    metrics = web.AppRunner(server.metrics_app(), access_log=None, shutdown_timeout=SHUTDOWN_TIMEOUT_S)
    await metrics.setup()
    metrics_listener: Listener | None = None
    background = asyncio.create_task(server.run_background())
    try:
        listener = await _listen(connections, options.host, options.port, "--host or --port")
        if options.metrics_port is not None:
            assert metrics.server is not None
            where = options.metrics_host, options.metrics_port
            metrics_listener = await _listen(metrics.server, *where, "--metrics-host or --metrics-port")
        print(f"server_under_test ready on http://{options.host}:{options.port}", flush=True)
        await stop.wait()
        listener.close()
        await server.drain(options.shutdown_deadline)
        print(f"server_under_test: {server.summary()}", file=sys.stderr)
    finally:
        background.cancel()
        engine.close()
        if metrics_listener is not None:
            metrics_listener.close()
        await runner.cleanup()
        await metrics.cleanup()


def _stop_or_exit(stop: asyncio.Event) -> None:
    if stop.is_set():
        os._exit(EXIT_STOPPED_TWICE)
    stop.set()


def _result_path(name: PathName) -> ResultPath:
    if name == "proto-once":
        return ProtoOnce()
    from server_under_test.json_reencode import JsonReencode  # with its libraries, which the other path does without

    return JsonReencode()


def _server_options(options: argparse.Namespace) -> ServerOptions:
    return ServerOptions(
        engine_connections=options.engine_connections,
        futures=FutureOptions(
            poll_hold_s=options.poll_hold,
            session_poll_hold_s=options.session_poll_hold,
            max_outstanding=options.max_outstanding,
            max_held_bytes=options.max_held,
            inline_limit_bytes=options.inline_limit,
        ),
        keep_for=KeepFor(
            pending_ttl_s=options.pending_ttl,
            completed_ttl_s=options.completed_ttl,
            retrieved_ttl_s=options.retrieved_ttl,
        ),
        sweep_interval_s=options.sweep_interval,
        session_polling=options.session_polling,
        metrics_apart=options.metrics_port is not None,
        api_key=os.environ.get(API_KEY_VARIABLE),
    )


if __name__ == "__main__":
    sys.exit(main())
