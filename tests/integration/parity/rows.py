"""The rows: every answer and failure that a poll or a submit can come to, and sequences of them."""

from __future__ import annotations

from tests.integration.parity.script import (
    HTML,
    METADATA,
    RESET,
    SILENT,
    TRUNCATED,
    TRY_AGAIN,
    Script,
    status,
)

ROWS = (
    Script("result", "the first poll brings the result"),
    Script("try_again", "poll again at once", polls=(TRY_AGAIN,) * 4),
    Script("poll 503", "poll again at once", polls=(status(503),) * 5),
    Script("poll 410", "the sample is submitted anew", polls=(status(410),) * 3),
    Script("poll reset", "back off", polls=(RESET,) * 4),
    Script("metadata", "fetch at once", polls=(METADATA,)),
    Script("poll silent", "45 s, then back off", polls=(SILENT,) * 3, speed=10),
    Script("poll truncated", "back off", polls=(TRUNCATED,) * 2),
    Script("poll HTML", "final", polls=(HTML,)),
    Script("submit 429", "pause", submits=(status(429),) * 2),
)
