"""``python -m tests.integration.parity [ROW ...]``: plays all rows and writes docs/parity.md, or plays some."""

from __future__ import annotations

import argparse
import sys

from tests.integration.parity.page import PAGE, render
from tests.integration.parity.record import PlayerError, record
from tests.integration.parity.rows import ROWS
from tests.integration.parity.trace import difference, short_form


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.integration.parity", description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="names in docs/parity.md; default: all")
    names = parser.parse_args().rows
    if unknown := sorted(set(names) - {row.name for row in ROWS}):
        parser.error(f"no row is named '{unknown[0]}'; docs/parity.md has the names")
    rows = [row for row in ROWS if not names or row.name in names]
    try:
        pairs = record(rows)
    except PlayerError as error:
        print(error, file=sys.stderr)
        return 1
    different = {row.name: found for row in rows if (found := difference(row, *pairs[row.name]))}
    for row in rows:
        if names or row.name in different:
            print(f"{row.name}: {different.get(row.name, 'agree')}")
            print(f"  SDK:  {short_form(row, pairs[row.name].sdk)}")
            print(f"  load: {short_form(row, pairs[row.name].load)}")
    print(f"{len(rows) - len(different)} of {len(rows)} rows agree.")
    if not names:
        PAGE.write_text(render(pairs), encoding="utf-8")
        print(f"page: {PAGE}")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
