"""``python -m tests.integration.parity``."""

from __future__ import annotations

import sys

from tests.integration.parity.record import record_both
from tests.integration.parity.rows import ROWS
from tests.integration.parity.trace import difference, short_form


def main() -> int:
    rows = [row for row in ROWS if not sys.argv[1:] or row.name in sys.argv[1:]]
    sdk, load = record_both(rows)
    wrong = 0
    for row in rows:
        found = difference(sdk[row.name], load[row.name], row.speed)
        wrong += found is not None
        print(
            f"{row.name}: {found or 'agree'}\n  SDK  {short_form(sdk[row.name])}\n  load {short_form(load[row.name])}"
        )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
