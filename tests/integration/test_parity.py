"""Our load does what the real SDK does, answer by answer: both play the same scripts, and their traces agree."""

from __future__ import annotations

import pytest

from tests.integration.parity.page import PAGE, row_names
from tests.integration.parity.record import Pair, record
from tests.integration.parity.rows import ROWS
from tests.integration.parity.script import Script
from tests.integration.parity.trace import difference


@pytest.fixture(scope="module")
def traces() -> dict[str, Pair]:
    return record(ROWS)


@pytest.mark.timeout(480)  # the first one waits until all rows have been played, in 40 s or more
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_load_does_as_the_sdk(traces: dict[str, Pair], row: Script) -> None:
    assert difference(row, *traces[row.name]) is None


def test_the_page_has_a_line_for_each_row() -> None:
    assert row_names(PAGE.read_text(encoding="utf-8")) == [row.name for row in ROWS]
