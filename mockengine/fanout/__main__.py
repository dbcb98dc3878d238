"""``python -m mockengine.fanout``: how long batches take through the pipeline, with each way of splitting them."""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from mockengine.durations import DurationError, parse_duration
from mockengine.fanout import bench, end_to_end, open_loop
from mockengine.fanout.streams import TOKENS
from mockengine.fanout.transport import TRANSPORTS

_USAGE_ERROR = 2


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(_USAGE_ERROR, f"{self.prog}: error: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    output = _output(options)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # ends what was started, as Ctrl-C does
    try:
        {"bench": _bench, "open-loop": _open_loop, "end-to-end": _end_to_end}[options.command](options, output)
    except (bench.BenchError, FileExistsError) as error:
        sentence = f"{error.filename} exists; name another folder." if isinstance(error, FileExistsError) else error
        print(f"python -m mockengine.fanout: error: {sentence}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        goes_on = "; the same command goes on from there" if options.command == "end-to-end" and options.output else ""
        print(
            f"python -m mockengine.fanout: stopped; {output} holds what was measured so far{goes_on}", file=sys.stderr
        )
        return 130
    print(f"raw trials: {output / 'raw.jsonl'}")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m mockengine.fanout", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    closed = commands.add_parser("bench", help="time batches one after the other", description=bench.__doc__)
    _add_common(closed, (1, 32, 310))
    opened = commands.add_parser("open-loop", help="delays at a fixed rate of batches", description=open_loop.__doc__)
    _add_common(opened, (32, 128))
    opened.add_argument("--interval", type=_seconds, default=0.02, help="between batches (default 20ms)")
    opened.add_argument("--arrivals", choices=open_loop.ARRIVALS, default="fixed", help="of batches (default fixed)")
    opened.add_argument("--duration", type=_seconds, default=3.0, help="of each measurement (default 3s)")
    opened.add_argument("--workers", type=_count, default=2, help="HTTP workers (default 2)")
    served = commands.add_parser("end-to-end", help="a served request's time", description=end_to_end.__doc__)
    _add_common(served, (32, 64, 128, 256), "that does not exist yet, or of the same sweep, which then goes on")
    served.add_argument(
        "--intervals",
        type=_times,
        default=(0.02, 0.05),
        metavar="TIME,TIME,...",
        help="between batches (default 20ms,50ms)",
    )
    served.add_argument("--steps", type=_count, default=50, help="of an answer, each a token (default 50)")
    served.add_argument("--waves", type=_count, default=2, help="of requests, after one that warms up (default 2)")
    served.add_argument("--http-workers", type=_count, default=2, help="(default 2)")
    return parser


def _add_common(
    parser: argparse.ArgumentParser, rows: tuple[int, ...], folder: str = "that does not exist yet"
) -> None:
    sizes = ",".join(str(count) for count in rows)
    parser.add_argument("--transport", choices=TRANSPORTS, default="msgpack")
    parser.add_argument("--rounds", type=_count, default=9, help="of all arms in shuffled order (default 9)")
    parser.add_argument("--rows", type=_counts, default=rows, help=f"of a batch, comma-separated (default {sizes})")
    parser.add_argument(
        "--detokenizers", type=_count, default=1, help="more than one have a router before them (default 1)"
    )
    parser.add_argument("--output", type=Path, help=f"a folder {folder} (default runs/<time>-fanout-...)")


def _output(options: argparse.Namespace) -> Path:
    started = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    path: Path = options.output or Path("runs", f"{started}-fanout-{options.command}-{options.transport}")
    return path


def _bench(options: argparse.Namespace, output: Path) -> None:
    plan = bench.Plan(
        transport=options.transport,
        rounds=options.rounds,
        rows=options.rows,
        arms=list(bench.ARMS),
        detokenizers=options.detokenizers,
    )
    print(bench.summary(bench.run(plan, output)))


def _open_loop(options: argparse.Namespace, output: Path) -> None:
    streams = max(1, round(options.duration / options.interval / len(TOKENS)))
    loads = [
        open_loop.Load(
            transport=options.transport,
            rows=rows,
            streams=streams,
            interval_s=options.interval,
            detokenizers=options.detokenizers,
            workers=options.workers,
            arrivals=options.arrivals,
        )
        for rows in options.rows
    ]
    open_loop.run(loads, options.rounds, output)


def _end_to_end(options: argparse.Namespace, output: Path) -> None:
    cells = [
        end_to_end.Cell(
            transport=options.transport,
            rows=rows,
            interval_s=interval_s,
            steps=options.steps,
            waves=options.waves,
            detokenizers=options.detokenizers,
            http_workers=options.http_workers,
        )
        for interval_s in options.intervals
        for rows in options.rows
    ]
    end_to_end.run(cells, options.rounds, output)


def _times(text: str) -> tuple[float, ...]:
    return tuple(_seconds(part) for part in text.split(","))


def _seconds(text: str) -> float:
    try:
        seconds = parse_duration(text)
    except DurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    if seconds <= 0:
        raise argparse.ArgumentTypeError(f"{text!r} is no time above zero")
    return seconds


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 up")
    return int(text)


def _counts(text: str) -> tuple[int, ...]:
    return tuple(_count(part) for part in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
