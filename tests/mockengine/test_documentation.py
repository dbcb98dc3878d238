"""The page on the engine says what the engine does."""

from __future__ import annotations

from pathlib import Path

from mockengine.faults import KINDS, Kind
from mockengine.service_time import FORMS

PAGE = (Path(__file__).parents[2] / "docs" / "engine.md").read_text("utf-8")


def row(name: str, kind: Kind) -> str:
    parameters = ", ".join(f"`{key}={str(value).lower()}`" for key, value in kind.defaults.items())
    return f"| `{name}` | {parameters} | {kind.effect} | {kind.outcome} | {kind.duty} |"


def test_every_kind_of_fault_has_its_row_and_there_are_no_others() -> None:
    start = PAGE.index("| kind | parameters |")
    found = PAGE[start : PAGE.index("\n\n", start)].splitlines()[2:]
    assert found == [row(name, kind) for name, kind in KINDS.items()]


def test_every_service_time_is_there() -> None:
    assert all(f"`{form}:" in PAGE for form in FORMS)
