"""No name leads out of a run folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from locustfiles.web.files import find, listing


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    (folder / "logs").mkdir(parents=True)
    for name in ("run.json", "logs/engine.log", "../secret"):
        (folder / name).write_text("x")
    (folder / "link.html").symlink_to(tmp_path / "secret")
    (folder / "elsewhere").symlink_to(tmp_path)
    return folder


def test_files_are_listed_and_found(folder: Path) -> None:
    assert listing(folder) == ["logs/engine.log", "run.json"]
    assert find(folder, "logs/engine.log") == folder / "logs/engine.log"


@pytest.mark.parametrize(
    "name",
    ["../secret", "logs/../../secret", "logs/../run.json", "/etc/passwd", "link.html", "elsewhere/secret", "logs", ""],
)
def test_nothing_else_is(folder: Path, name: str) -> None:
    assert find(folder, name) is None
