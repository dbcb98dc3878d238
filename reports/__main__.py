"""The command line: ``python -m reports observe ...`` and ``python -m reports render RUN``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from reports.errors import RunFolderError
from reports.processes import ProcessNotFoundError, find_process

_USAGE_ERROR = 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is 0, or 2 after a sentence that says what was wrong."""
    options = _parser().parse_args(arguments)
    try:
        _observe(options) if options.command == "observe" else _render(options)
    except (ProcessNotFoundError, RunFolderError) as error:
        print(f"python -m reports: {error}", file=sys.stderr)
        return _USAGE_ERROR
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m reports", description="Watch a server, and report on runs.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    observe = commands.add_parser(
        "observe",
        help="sample a server's resources into a CSV file",
        description="Sample memory, CPU, files and metrics of a target and its engine into a CSV file, until SIGTERM, "
        "Ctrl-C or the end of the process that started this one.",
    )
    observe.add_argument("--target", metavar="pid:N|port:N", help="the process to watch, by id or by listening port")
    observe.add_argument("--target-metrics", metavar="URL", type=_url, help="the target's Prometheus page")
    observe.add_argument("--canary", metavar="URL", type=_url, help="a page to time, such as the health check")
    observe.add_argument("--engine-pid", metavar="N", type=int, help="the engine's process")
    observe.add_argument("--engine-metrics", metavar="URL", type=_url, help="the engine's Prometheus page")
    observe.add_argument("--interval", metavar="TIME", type=_seconds, default=1.0, help="default 1s")
    observe.add_argument("--out", metavar="FILE", type=Path, required=True, help="the CSV file to make")

    render = commands.add_parser(
        "render", help="judge a run folder again and make its report.html anew", description="Make a run's report anew."
    )
    render.add_argument("run", metavar="RUN", type=Path, help="the run folder")
    return parser


def _observe(options: argparse.Namespace) -> None:
    from reports.observer import Observed, observe

    observed = Observed(
        target_pid=find_process(options.target) if options.target else None,
        target_metrics=options.target_metrics,
        canary=options.canary,
        engine_pid=options.engine_pid,
        engine_metrics=options.engine_metrics,
    )
    observe(observed, options.out, options.interval)


def _render(options: argparse.Namespace) -> None:
    # The observer starts in this module too, and must not pay for numpy and matplotlib.
    from reports.conclude import render
    from reports.run_folder import RunFolder

    folder = RunFolder.open(options.run)
    document = render(folder)
    print(f"{document.run.verdict}: {folder.report_html}")


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise argparse.ArgumentTypeError(f"{text!r} is no http:// or https:// address")
    return text


def _seconds(text: str) -> float:
    for unit, factor in (("ms", 0.001), ("s", 1.0), ("m", 60.0)):
        number = text.removesuffix(unit)
        if number != text and number.replace(".", "", 1).isdecimal() and float(number) > 0:
            return float(number) * factor
    raise argparse.ArgumentTypeError(f"{text!r} is no duration above zero; write 1s, 250ms or 0.5m")


if __name__ == "__main__":
    sys.exit(main())
