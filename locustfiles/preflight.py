"""What will not fit is said before anything starts."""

from __future__ import annotations

import errno
import resource
import socket
from pathlib import Path
from urllib.parse import urlsplit

from locustfiles.arrivals import CLOSED, ArrivalsError, schedule
from locustfiles.ledger import share
from locustfiles.lengths import LengthsError, parse_lengths
from locustfiles.settings import Settings, connections, sources
from locustfiles.source_addresses import SourceAddressesError, ephemeral_ports
from locustfiles.traces import TraceError
from reports.thresholds import parse_threshold

# Files of a process beside its connections: standard streams, event loops, logs, listening sockets.
SPARE_FILES = 100
CONNECT_TIMEOUT_S = 5.0


class PreflightError(Exception):
    """The run cannot be done as asked; the text is a sentence for the user."""


def check(settings: Settings) -> None:
    """Raise PreflightError for the first thing that would make the run fail."""
    if settings.run_dir:
        _check_new(Path(settings.run_dir))
    try:
        parse_lengths(settings.lengths, settings.prompt_tokens, settings.max_tokens, settings.seed)
        scheduled = schedule(settings.arrivals, settings.stages, settings.requests, settings.seed)
    except (LengthsError, ArrivalsError, TraceError) as error:
        raise PreflightError(str(error)) from error
    if scheduled is not None and scheduled.lengths is not None and settings.lengths != "fixed":
        raise PreflightError(
            f"--arrivals {settings.arrivals} has lengths of its own, and so has --lengths {settings.lengths}. "
            "Leave one of them out."
        )
    check_thresholds(settings)
    check_ports_of_clients(settings, ephemeral_ports())
    check_files(settings, open_files_limit())
    if settings.engine is None:
        _check_reachable(settings.target_url)
    if settings.engine is not None:
        _check_port_free(settings.engine.port, "--engine-port")
    if settings.server is not None:
        _check_port_free(settings.server.port, "--server-port")


def _check_new(run_dir: Path) -> None:
    try:
        exists = run_dir.exists()
    except OSError as error:  # such as a name that is too long
        raise PreflightError(
            f"The run folder {run_dir} can't be made: {error.strerror}. Name another one with --run-dir."
        ) from error
    if exists:
        raise PreflightError(f"The run folder {run_dir} exists already. Name another one with --run-dir, or remove it.")


def check_thresholds(settings: Settings) -> None:
    """A threshold on what this run does not measure could only make it invalid. Raises PreflightError."""
    unobserved = "nothing is observed (--observe)" if settings.observe == "none" else None
    unseen = {
        "load": None,
        "target": unobserved,
        "schedule": "futures have intended starts in open arrivals only (--arrivals, --stages)"
        if settings.arrivals == CLOSED
        else None,
        "engine": "the engine is not started here" if settings.engine is None else unobserved,
    }
    for threshold in map(parse_threshold, settings.thresholds):
        for quantity in threshold.quantities:
            if unseen[quantity.source]:
                raise PreflightError(
                    f"The threshold '{threshold.text}' needs {quantity.name}, which is not measured: "
                    f"{unseen[quantity.source]}."
                )


def open_files_limit() -> int:
    """Open files that one process may have, once it has raised its own soft limit."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def raise_open_files_limit() -> None:
    hard = open_files_limit()
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def check_files(settings: Settings, limit: int) -> None:
    """Every connection is an open file in the load and in the server. Raises PreflightError."""
    here = connections(settings, share(settings.outstanding, settings.processes, 0)) + SPARE_FILES
    if here > limit:
        raise PreflightError(
            f"{settings.outstanding} outstanding futures over {settings.processes} load processes need about {here} "
            f"open files in one of them, but the limit is {limit}. Lower --outstanding, or add --processes, or raise "
            "the limit (ulimit -Hn)."
        )
    if settings.engine is None:
        return
    there = connections(settings, settings.outstanding) + settings.engine.slots + SPARE_FILES
    if there > limit:
        raise PreflightError(
            f"{settings.outstanding} outstanding futures and {settings.engine.slots} engine slots need about {there} "
            f"open files in the server, but the limit is {limit}. Lower --outstanding or --slots, or raise the limit "
            "(ulimit -Hn)."
        )


def check_ports_of_clients(settings: Settings, ports: int | None) -> None:
    """Connections from one address to one port need a local port each. Raises PreflightError."""
    try:
        addresses = sources(settings, ports)
    except SourceAddressesError as error:
        raise PreflightError(str(error)) from error
    for address in addresses:
        try:
            with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as probe:
                probe.bind((address, 0))
        except OSError as error:
            raise PreflightError(
                f"No connection can come from {address}: {error.strerror}. Give addresses of this machine with "
                "--source-addresses."
            ) from error


def _check_reachable(url: str) -> None:
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname or "", parts.port or 80), CONNECT_TIMEOUT_S).close()
    except (OSError, UnicodeError) as error:  # no name of a host may have so long a part
        why = getattr(error, "strerror", None) or error
        raise PreflightError(f"No server can be reached at {url}: {why}. Start it, or correct --host.") from error


def check_web_port(host: str, port: int) -> None:
    """host: as Locust takes --web-host, empty for all addresses. Raises PreflightError."""
    _check_port_free(port, "--web-port", "" if host == "*" else host)


def _check_port_free(port: int, option: str, host: str = "127.0.0.1") -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            why = (
                "is taken by another program" if error.errno == errno.EADDRINUSE else f"can't be used: {error.strerror}"
            )
            raise PreflightError(
                f"Port {port} {why}. Stop that program or choose another port with {option}."
            ) from error
