"""The rows: every answer and failure that a poll or a submit can come to, and sequences of them."""

from __future__ import annotations

from dataclasses import replace

from tests.integration.parity.script import (
    EMPTY_400,
    HTML,
    METADATA,
    NOT_PROTOBUF,
    RESET,
    RESULT,
    SILENT,
    TRUNCATED,
    TRY_AGAIN,
    Answer,
    Script,
    says,
    status,
)

NO_JSON_408 = replace(status(408, b"later"), label="408 without JSON", content_type="text/plain")
FAILED = says("error", error="It broke.", category="server")
BILLING_S = {"billing_exception_max_pause_duration_sec": 12}
LARGE_RESULT = says("30 MB", status="complete_metadata", response_payload_size=30_000_000)


def _after(start_s: float, count: int = 25) -> tuple[float, ...]:
    """One sample at first, and ``count`` more later."""
    return (0.0, *[start_s] * count)


POLLS = (
    Script("result", "the first poll brings it"),
    Script("result with 202", "any 2xx is an answer", polls=(replace(RESULT, status=202),)),
    Script("try_again", "poll again at once", polls=(TRY_AGAIN,) * 5),
    Script("try_again without a state", "poll again at once", polls=(says("try_again", type="try_again"),) * 2),
    Script("complete_metadata", "fetch at once", polls=(METADATA,)),
    Script("complete_metadata, then try_again", "ask for the whole from then on", polls=(METADATA, TRY_AGAIN)),
    Script("complete_metadata twice", "final", polls=(METADATA, METADATA)),
    Script("complete_metadata, then 410", "metadata is allowed again", polls=(METADATA, status(410), METADATA)),
    Script("error", "final", polls=(FAILED,)),
    Script("error of the user", "final", polls=(says("error", error="Bad prompt.", category="user"),)),
    Script("error without text", "final", polls=(says("error: null", error=None),)),
    Script("a result as JSON", "final", polls=(says("JSON result", type="sample", sequences=[]),)),
    Script("a list as JSON", "final", polls=(Answer("[]", body=b"[]"),)),
    Script("JSON cut short by the server", "final", polls=(Answer('{"type":', body=b'{"type":'),)),
    Script("HTML with 200", "final", polls=(HTML,)),
    Script("nothing with 200", "final", polls=(Answer("empty", content_type=None),)),
    Script("204", "final", polls=(Answer("204", 204, content_type=None),)),
    Script("protobuf that is none", "final", polls=(NOT_PROTOBUF,)),
    Script("408", "poll again at once", polls=(status(408, b'{"queue_state":"active"}'),) * 5),
    Script("408 without JSON", "poll again at once", polls=(NO_JSON_408,) * 5),
    Script("500", "poll again at once", polls=(status(500),) * 5),
    Script("503 with Retry-After", "poll again at once", polls=(status(503, Retry_After="9"),) * 3),
    Script("429", "back off", polls=(status(429),) * 4),
    Script("429 with Retry-After", "back off by its own times", polls=(status(429, Retry_After="9"),) * 2),
    Script("400 three times", "poll again at once", polls=(status(400),) * 3),
    Script("400 four times", "final", polls=(status(400),) * 4),
    Script("400 and 408", "408 allows three more", polls=(*[status(400)] * 3, status(408), *[status(400)] * 3)),
    Script("400 and 408 without JSON", "which does not", polls=(*[status(400)] * 3, NO_JSON_408, status(400))),
    Script("400 and try_again", "nor does try_again", polls=(*[status(400)] * 3, TRY_AGAIN, status(400))),
    Script("400 without a body", "counts as a failed connection", polls=(EMPTY_400,) * 4),
    Script("402", "5 s", polls=(status(402),) * 2),
    Script("402 until the pause's end", "final", polls=(status(402),) * 9, client_config=BILLING_S),
    Script("402 between resets", "leaves the back-off as it is", polls=(RESET, status(402), RESET, RESET)),
    *[Script(str(code), "final", polls=(status(code),)) for code in (401, 403, 404, 409, 422)],
    Script(
        "410 without retries",
        "final, as the server says",
        polls=(status(410),),
        client_config={"sample_no_retries": True},
    ),
    Script("410", "the sample is submitted anew", polls=(status(410),) * 6, speed=10),
    Script("reset", "back off", polls=(RESET,) * 4),
    Script("reset seven times", "30 s at most", polls=(RESET,) * 7, speed=10),
    Script("truncated", "back off", polls=(TRUNCATED,) * 3),
    Script("silent", "45 s, then back off", polls=(SILENT,) * 3, speed=10),
    Script("silent six times", "up to 30 s of back-off", polls=(SILENT,) * 6, speed=20),
    Script(
        "reset, 503, reset",
        "an answer starts the back-off anew",
        polls=(RESET, RESET, RESET, status(503), RESET, RESET),
    ),
    Script("reset, try_again, reset", "as does this one", polls=(RESET, RESET, RESET, TRY_AGAIN, RESET)),
    Script("reset, 429, reset", "429 does not", polls=(RESET, status(429), RESET)),
)

SUBMITS = (
    Script("submit 429", "1 s", submits=(status(429),) * 6),
    Script("submit 429, large", "5 s", submits=(status(429),) * 2, prompt_tokens=13_500),
    Script("submit 429, just not large", "1 s", submits=(status(429),) * 2, prompt_tokens=13_000),
    Script("submit 429 with Retry-After", "1 s", submits=(status(429, Retry_After="9"),) * 2),
    Script("submit 408", "back off", submits=(status(408),) * 3),
    Script("submit 409", "back off", submits=(status(409),) * 3),
    Script("submit 503", "back off", submits=(status(503),) * 4),
    Script("submit 503, 429, 503", "429 starts it anew", submits=(status(503), status(503), status(429), status(503))),
    Script("submit reset", "back off", submits=(RESET,) * 3),
    Script("submit truncated", "back off", submits=(TRUNCATED,) * 2),
    Script("submit silent", "60 s, then back off", submits=(SILENT,) * 2, speed=10),
    Script("submit 503 for five minutes", "then anew", submits=(status(503),) * 17, speed=20),
    Script("submit 402", "as 429", submits=(status(402),) * 6),
    Script(
        "submit 402, large, until the pause's end",
        "final",
        submits=(status(402),) * 5,
        prompt_tokens=13_500,
        client_config=BILLING_S,
    ),
    Script("submit 400 without a body", "counts as a failed connection", submits=(EMPTY_400,) * 3),
    *[Script(f"submit {code}", "final", submits=(status(code),)) for code in (400, 401, 403, 404, 410, 422)],
    Script("submit HTML with 200", "final", submits=(HTML,)),
    Script("submit JSON cut short", "final", submits=(Answer('{"request_', body=b'{"request_'),)),
    Script("submit without an id", "final", submits=(says("{}"),)),
    Script("submit with an id that is none", "final", submits=(says("request_id: 5", request_id=5),)),
    Script(
        "submit without sequence ids",
        "final, but only when the result is there",
        submits=(says("no sequence ids", request_id="future-0"),),
        polls=(TRY_AGAIN,),
    ),
    Script(
        "submit with too many sequence ids",
        "the same",
        submits=(says("2 sequence ids", request_id="future-0", sample_sequence_ids=["a", "b"]),),
    ),
    Script("submit 201", "any 2xx is an answer", submits=(Answer("201", 201, b'{"request_id":"a"}'),), polls=(FAILED,)),
)

SIDE_BY_SIDE = (
    Script("25 side by side", "all submits at once", starts_s=(0.0, *[5.0] * 24), accept_in_s=4.0),
    Script(
        "25 after a 429", "ten at once for ten seconds", submits=(status(429),), starts_s=_after(7), accept_in_s=4.0
    ),
    Script("25 long after a 429", "all at once again", submits=(status(429),), starts_s=_after(15), accept_in_s=4.0),
    Script("12 large ones", "10 MiB at once", starts_s=_after(1, 12), prompt_tokens=150_000, accept_in_s=10.0, speed=4),
    Script(
        "12 large ones, 1 MB at once",
        "as the server says",
        starts_s=_after(1, 12),
        prompt_tokens=30_000,
        accept_in_s=4.0,
        speed=4,
        client_config={"sample_dispatch_bytes_semaphore_size": 1_000_000},
    ),
    Script(
        "9 after a 429, 1 MB at once",
        "each counts as twenty",
        submits=(status(429),),
        starts_s=_after(7, 9),
        prompt_tokens=5_000,
        accept_in_s=4.0,
        client_config={"sample_dispatch_bytes_semaphore_size": 1_000_000},
    ),
    Script("6 large results", "50 MiB at once", peeks=LARGE_RESULT, starts_s=_after(0.1, 6), result_in_s=4.0),
    Script(
        "6 large results, 1 MB at once",
        "as the server says",
        peeks=LARGE_RESULT,
        starts_s=_after(0.1, 6),
        result_in_s=4.0,
        client_config={"inflight_response_bytes_semaphore_size": 1_000_000},
    ),
)

TRANSPORT = tuple(
    replace(row, name=f"{row.name} (pyqwest)", preset="sdk-pyqwest")
    for row in (
        Script("silent", "90 s, then back off", polls=(SILENT,), speed=10),
        Script("submit silent", "120 s, then back off", submits=(SILENT,), speed=10),
        Script("reset", "back off", polls=(RESET,) * 3),
        Script("truncated", "back off", polls=(TRUNCATED,) * 2),
        Script("503", "poll again at once", polls=(status(503),) * 3),
        Script("HTML with 200", "final", polls=(HTML,)),
    )
)

# By the headings of the page.
GROUPS = {
    "What a poll can come to": POLLS,
    "What a submit can come to": SUBMITS,
    "Samples side by side": SIDE_BY_SIDE,
    "The SDK's default transport": TRANSPORT,
}
ROWS = tuple(row for rows in GROUPS.values() for row in rows)
