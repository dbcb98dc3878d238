"""docs/arrivals.md: its stages can be read, and its arrivals are accepted."""

from __future__ import annotations

import re
from pathlib import Path

from locustfiles.arrivals import schedule
from locustfiles.stages import length_s, read_stages

PAGE = (Path(__file__).parents[2] / "docs/arrivals.md").read_text()


def test_the_stages_of_the_example(tmp_path: Path) -> None:
    (toml,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "day.toml").write_text(toml)
    spread, stages = read_stages(tmp_path / "day.toml")
    assert (spread, length_s(stages)) == ("poisson", 71 * 60)


def test_the_examples_of_rates_are_arrivals() -> None:
    specs = re.findall(r"--arrivals ((?:constant|poisson):\d+)", PAGE)
    assert len(specs) == 2
    for spec in specs:
        assert schedule(spec, [], 3, 0) is not None
