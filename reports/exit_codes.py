"""The exit codes of a run and of everything that judges one."""

from __future__ import annotations

from reports.schema import Verdict

# 1 is what CI takes for "failed"; 2 is the convention for a mistake in the command line.
EXIT_CODES: dict[Verdict, int] = {"pass": 0, "fail": 1, "invalid": 3}
EXIT_USAGE = 2
