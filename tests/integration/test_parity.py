"""Our load does what the real SDK does, answer by answer: both play the same scripts, and their traces agree."""

from __future__ import annotations

import pytest

from tests.integration.parity.record import record_both
from tests.integration.parity.rows import ROWS
from tests.integration.parity.script import Script
from tests.integration.parity.trace import Trace, difference


@pytest.fixture(scope="module")
def traces() -> tuple[dict[str, Trace], dict[str, Trace]]:
    return record_both(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_load_does_as_the_sdk(traces: tuple[dict[str, Trace], dict[str, Trace]], row: Script) -> None:
    sdk, load = traces
    assert difference(sdk[row.name], load[row.name], row.speed) is None
