"""The command line: ``python -m reports observe``, ``merge``, ``render``, ``check``, ``compare`` and ``experiment``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from reports.errors import RunFolderError, explained
from reports.exit_codes import EXIT_CODES, EXIT_USAGE
from reports.processes import ProcessNotFoundError
from reports.quantities import QUANTITIES
from reports.rows import RESOURCES_CSV
from reports.thresholds import STATES, ThresholdError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is its own (see ``judge.EXIT_CODES``), or 2 after a sentence on what was wrong."""
    options = _parser().parse_args(arguments)
    commands: dict[str, Callable[[argparse.Namespace], int]] = {
        "observe": _observe,
        "merge": _merge,
        "render": _render,
        "check": _check,
        "compare": _compare,
        "experiment": _experiment,
    }
    try:
        return commands[options.command](options)
    except (ProcessNotFoundError, RunFolderError, ThresholdError) as error:
        print(f"python -m reports: {error}", file=sys.stderr)
        return EXIT_USAGE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m reports", description="Watch a server, and report on runs.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    observe = commands.add_parser(
        "observe",
        help="sample a server's resources into a CSV file",
        description="Sample memory, CPU, files and metrics of a target and its engine into a CSV file, until SIGTERM, "
        "Ctrl-C or the end of the process that started this one.",
    )
    target = observe.add_mutually_exclusive_group()
    target.add_argument("--target", metavar="pid:N|port:N|cmdline:TEXT", help="the process to watch")
    for name, metavar, text in (
        ("pid", "N", "its id"),
        ("port", "N", "a port that it listens on"),
        ("cmdline", "TEXT", "a part of its command line"),
    ):
        target.add_argument(
            f"--{name}", dest="target", metavar=metavar, type=f"{name}:{{}}".format, help=f"the process by {text}"
        )
    observe.add_argument("--target-metrics", metavar="URL", type=_url, help="the target's Prometheus page")
    observe.add_argument("--canary", metavar="URL", type=_url, help="a page to time, such as the health check")
    observe.add_argument("--engine-pid", metavar="N", type=int, help="the engine's process")
    observe.add_argument("--engine-metrics", metavar="URL", type=_url, help="the engine's Prometheus page")
    observe.add_argument("--interval", metavar="TIME", type=_seconds, default=1.0, help="default 1s")
    observe.add_argument(
        "--out", metavar="FILE", type=Path, required=True, help="the .csv file to make, or a directory for it"
    )

    merge = commands.add_parser(
        "merge",
        help="put what an observer saw beside a run, by time, into its folder",
        description="Put what python -m reports observe --out DIR saw on the target's machine into a run's folder, by "
        "the two machines' clocks of the day, and make its reports anew.",
    )
    merge.add_argument("run", metavar="RUN", type=Path, help="the run folder")
    merge.add_argument("observed", metavar="DIR", type=Path, help="what the observer wrote")

    render = commands.add_parser(
        "render", help="judge a run folder again and make its report.html anew", description="Make a run's report anew."
    )
    render.add_argument("run", metavar="RUN", type=Path, help="the run folder")

    check = commands.add_parser(
        "check",
        help="judge a run folder by thresholds; exit code 0 pass, 1 fail, 2 usage, 3 invalid",
        description="Judge a run by the given thresholds (by its own, if none is given), and make its reports anew.",
        epilog="quantities: " + ", ".join(QUANTITIES),
    )
    check.add_argument("run", metavar="RUN", type=Path, help="the run folder")
    check.add_argument(
        "--threshold", metavar="'NAME < LIMIT'", action="append", default=[], help="may be given more than once"
    )
    check.add_argument("--thresholds", metavar="FILE", help="a TOML file with thresholds = [...], or a pyproject.toml")

    compare = commands.add_parser(
        "compare",
        help="one page of several runs: what differs, plots over each other, ratios",
        description="Compare runs of the same work on the same machine; the first is what the others are related to.",
    )
    compare.add_argument("runs", metavar="RUN", type=Path, nargs="+", help="run folders, two or more")
    compare.add_argument(
        "--out", metavar="FILE", type=Path, default=Path("comparison.html"), help="default %(default)s"
    )

    experiment = commands.add_parser(
        "experiment",
        help="run the arms of a plan in paired rounds, and say what differs",
        description="Run an experiment, or go on with one that was interrupted, and make its experiment.html.",
    )
    experiment.add_argument("plan", metavar="PLAN.toml", type=Path)
    experiment.add_argument("--out", metavar="DIR", type=Path, help="its folder; default experiments/NAME")
    experiment.add_argument("--rounds", metavar="N", type=int, help="other than the plan's")
    experiment.add_argument("--args", metavar="'ARGS'", default="", help="further arguments of every arm's command")
    return parser


def _observe(options: argparse.Namespace) -> int:
    from reports.observer import Observed, observe

    observed = Observed(
        target=options.target,
        target_metrics=options.target_metrics,
        canary=options.canary,
        engine_pid=options.engine_pid,
        engine_metrics=options.engine_metrics,
    )
    out: Path = options.out
    if out.suffix != ".csv":
        with explained(f"cannot make {out}"):
            out.mkdir(parents=True, exist_ok=True)
        out /= RESOURCES_CSV
    observe(observed, out, options.interval)
    return 0


def _merge(options: argparse.Namespace) -> int:
    from reports.conclude import render
    from reports.merge import merge
    from reports.run_folder import RunFolder

    folder = RunFolder.open(options.run)
    count = merge(folder, options.observed)
    document = render(folder)
    print(f"{count:,} samples merged")
    print(f"{document.run.verdict}: {folder.report_html}")
    return 0


def _render(options: argparse.Namespace) -> int:
    # The observer starts in this module too, and must not pay for numpy and matplotlib.
    from reports.conclude import render
    from reports.run_folder import RunFolder

    folder = RunFolder.open(options.run)
    document = render(folder)
    print(f"{document.run.verdict}: {folder.report_html}")
    return 0


def _check(options: argparse.Namespace) -> int:
    from reports.conclude import render
    from reports.run_folder import RunFolder
    from reports.threshold_files import asked_thresholds

    folder = RunFolder.open(options.run)
    document = render(folder, asked_thresholds(options.threshold, options.thresholds) or None)
    for result in document.thresholds:
        print(f"{STATES[result.holds]}: {result.text} ({result.found})")
    print(f"{document.run.verdict}: {' '.join(document.run.reasons)}")
    print(f"report: {folder.report_html}")
    return EXIT_CODES[document.run.verdict]


def _compare(options: argparse.Namespace) -> int:
    from reports.compare import IncomparableError
    from reports.comparison_page import comparison_page, read_runs

    try:
        page = comparison_page(read_runs(options.runs))
    except IncomparableError as error:
        raise RunFolderError(str(error)) from error
    with explained(f"cannot write {options.out}"):
        options.out.write_text(page, encoding="utf-8")
    print(f"comparison: {options.out}")
    return 0


def _experiment(options: argparse.Namespace) -> int:
    from reports.experiment import ExperimentError, ExperimentFolder, run_experiment
    from reports.experiment_page import experiment_page
    from reports.findings import findings, sentence
    from reports.plan import PlanError, read_plan

    try:
        plan = read_plan(options.plan, options.rounds, options.args)
        folder = ExperimentFolder(options.out or Path("experiments") / plan.name)
        rounds = run_experiment(plan, folder, lambda line: print(line, file=sys.stderr, flush=True))
    except (PlanError, ExperimentError) as error:
        raise RunFolderError(str(error)) from error
    except KeyboardInterrupt:
        print("interrupted; the same command goes on after the last finished round.", file=sys.stderr)
        return EXIT_CODES["invalid"]
    folder.write_page(experiment_page(plan, rounds, folder.environment()))
    for found in findings(plan, rounds):
        for finding in found.findings:
            print(sentence(found, finding, plan))
    print(f"experiment: {folder.experiment_html}")
    return 0


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
