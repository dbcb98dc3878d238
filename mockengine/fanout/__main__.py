"""``python -m mockengine.fanout bench``: how long a batch takes through the pipeline, with each way of splitting it."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from mockengine.fanout import bench
from mockengine.fanout.transport import TRANSPORTS

_USAGE_ERROR = 2


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(_USAGE_ERROR, f"{self.prog}: error: {message}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        return _bench(options)
    except (bench.BenchError, FileExistsError) as error:
        sentence = f"{error.filename} exists; name another folder." if isinstance(error, FileExistsError) else error
        print(f"python -m mockengine.fanout: error: {sentence}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="python -m mockengine.fanout", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    one = commands.add_parser("bench", help="compare the ways of splitting in paired rounds", description=bench.__doc__)
    one.add_argument("--transport", choices=TRANSPORTS, default="msgpack")
    one.add_argument("--rounds", type=_count, default=9, help="after a round that warms up (default 9)")
    one.add_argument(
        "--rows", type=_counts, default=(1, 32, 310), help="of a batch, comma-separated (default 1,32,310)"
    )
    one.add_argument(
        "--detokenizers", type=_count, default=1, help="more than one have a router before them (default 1)"
    )
    one.add_argument("--output", type=Path, help="a folder that does not exist yet (default runs/<time>-fanout-...)")
    return parser


def _bench(options: argparse.Namespace) -> int:
    plan = bench.Plan(
        transport=options.transport,
        rounds=options.rounds,
        rows=options.rows,
        arms=list(bench.ARMS),
        detokenizers=options.detokenizers,
    )
    started = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    output = options.output or Path("runs", f"{started}-fanout-{plan.transport}")
    print(bench.summary(bench.run(plan, output)))
    print(f"raw trials: {output / 'raw.jsonl'}")
    return 0


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 up")
    return int(text)


def _counts(text: str) -> tuple[int, ...]:
    return tuple(_count(part) for part in text.split(","))


if __name__ == "__main__":
    sys.exit(main())
