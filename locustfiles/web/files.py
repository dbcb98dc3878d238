"""The files of a run folder that a browser may have."""

from __future__ import annotations

from pathlib import Path


def listing(folder: Path) -> list[str]:
    """Paths below the run folder, with / between their parts. Links are left out: they may lead elsewhere."""
    found = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]
    root = folder.resolve()
    return sorted(path.relative_to(folder).as_posix() for path in found if path.resolve().is_relative_to(root))


def find(folder: Path, name: str) -> Path | None:
    """The file of that name; None unless the listing has exactly this name, so that no name leads out of the folder."""
    return folder / name if name in listing(folder) else None
