"""docs/ci.md names every quantity that there is, as what it is, and its examples are accepted."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from reports.quantities import QUANTITIES
from reports.thresholds import parse_threshold

PAGE = (Path(__file__).parents[2] / "docs/ci.md").read_text()


def test_the_table_has_every_quantity_and_its_dimension() -> None:
    documented: dict[str, str] = {}
    for names, dimensions in re.findall(r"^\| (`.*?`) \| ([a-z, ]+) \|", PAGE, re.MULTILINE):
        each, kinds = re.findall(r"`(\w+)`", names), dimensions.split(", ")
        documented |= dict(zip(each, kinds if len(kinds) == len(each) else kinds * len(each), strict=True))
    assert documented == {name: quantity.dimension for name, quantity in QUANTITIES.items()}


def test_the_examples_are_thresholds() -> None:
    (toml,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    examples = tomllib.loads(toml)["thresholds"] + re.findall(r"--threshold '(.*?)'", PAGE)
    assert len(examples) > 5
    assert all(parse_threshold(text).text == text for text in examples)
