"""What an observer saw on the target's machine, put into the folder of a run that another machine led."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import numpy as np

from reports.errors import RunFolderError, explained
from reports.rows import RESOURCES_CSV, RowWriter, read_rows
from reports.run_folder import RunFolder
from reports.schema import ResourceRow, TimelineRow
from reports.series import column

# Kept on either side of the run: the target at rest before it, and what it gives back after it.
MARGIN_S = 60.0


def merge(folder: RunFolder, observed: Path) -> int:
    """Put those rows of ``observed`` that fall into the run into its resources.csv, and count them.

    Raises RunFolderError.
    """
    source = observed / RESOURCES_CSV
    if not source.is_file():
        raise RunFolderError(f"{observed} is not what an observer wrote: it has no {RESOURCES_CSV}.")
    own = folder.resources()
    if any(row.target_rss_bytes is not None for row in own):
        raise RunFolderError(f"{folder.path} has a target's memory already: it was observed, or merged before.")
    fitting = in_time_of(folder.timeline(), read_rows(source, ResourceRow))
    if not fitting:
        raise RunFolderError(
            f"nothing in {observed} was seen during {folder.path}: the clocks of the two machines differ, or the "
            "observer was not running."
        )
    if own:  # the cores that a report speaks of are those of the machine that led the run
        fitting = [
            msgspec.structs.replace(row, machine_cpu_utilisation=None, machine_available_bytes=None) for row in fitting
        ]
    new = folder.resources_csv.with_name(folder.resources_csv.name + ".new")
    with explained(f"cannot write {new}"):
        new.unlink(missing_ok=True)
    with RowWriter(new, ResourceRow) as rows:
        for row in sorted([*own, *fitting], key=lambda row: row.monotonic_s):
            rows.write(row)
    with explained(f"cannot write {folder.resources_csv}"):
        new.replace(folder.resources_csv)
    return len(fitting)


def in_time_of(timeline: Sequence[TimelineRow], rows: Sequence[ResourceRow]) -> list[ResourceRow]:
    """The rows that fall into a run, or a minute before or after it, on the run's own monotonic clock.

    The clocks of the day tell how the two monotonic ones differ: the median, as one of them may be set meanwhile.
    """
    if not timeline:
        return []
    ahead_s = float(np.median(column(timeline, "monotonic_s") - column(timeline, "unix_s")))
    moved = [msgspec.structs.replace(row, monotonic_s=row.unix_s + ahead_s) for row in rows]
    first, last = timeline[0].monotonic_s - MARGIN_S, timeline[-1].monotonic_s + MARGIN_S
    return [row for row in moved if first <= row.monotonic_s <= last]
