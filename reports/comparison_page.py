"""The page of a comparison of runs: one file that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from reports.compare import IncomparableError, Run, check_comparable, compared, differences, names_of
from reports.overlay import COLORS, overlaid_plots
from reports.page import fill_template
from reports.run_folder import RunFolder


def comparison_page(runs: Sequence[Run]) -> str:
    """Raises IncomparableError."""
    if not 2 <= len(runs) <= len(COLORS):
        raise IncomparableError(f"compare 2 to {len(COLORS)} runs, found {len(runs)}.")
    check_comparable(runs)
    return fill_template(
        "comparison.html",
        runs=list(zip(runs, COLORS, strict=False)),
        differences=differences(runs),
        compared=compared(runs),
        plots=overlaid_plots(runs),
    )


def read_runs(paths: Sequence[Path]) -> list[Run]:
    """Raises RunFolderError."""
    folders = [RunFolder.open(path) for path in paths]
    return [
        Run(name, folder.read_document(), folder.timeline(), folder.resources())
        for name, folder in zip(names_of(paths), folders, strict=True)
    ]
