"""Thresholds kept in a file: ``thresholds = [...]`` of a TOML file, or in ``[tool.repoll]`` of pyproject.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from reports.thresholds import ThresholdError, parse_threshold

_PYPROJECT = "pyproject.toml"


def asked_thresholds(given: Sequence[str], file: str | None, here: Path | None = None) -> list[str]:
    """Those given one by one and those of the file; when there is neither, those of pyproject.toml in ``here``.

    Each is checked. Raises ThresholdError.
    """
    texts = [*given, *(_read(Path(file)) if file else [])]
    if not given and not file and here is not None and (here / _PYPROJECT).is_file():
        texts = _read(here / _PYPROJECT)
    return [parse_threshold(text).text for text in texts]


def _read(path: Path) -> list[str]:
    try:
        table: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ThresholdError(f"cannot read {path}: {(error.strerror or str(error)).lower()}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ThresholdError(f"cannot read {path}: it is no TOML ({error}).") from error
    if path.name == _PYPROJECT:
        table = table.get("tool", {}).get("repoll", {})
    unknown = sorted(set(table) - {"thresholds"})
    if unknown:
        raise ThresholdError(f"{path} should have 'thresholds' only, found '{unknown[0]}'.")
    texts = table.get("thresholds", [])
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise ThresholdError(f"'thresholds' in {path} should be a list of texts, such as [\"failed == 0\"].")
    return texts
