"""The submit rules of an SDK client, pure: what a submit came to in, what to do next out.

From the ``tinker`` SDK (``lib/internal_client_holder.py``, ``lib/public_interfaces/sampling_client.py``): 429 pauses
the whole client; connection failures, 408, 409 and 5xx are retried with back-off for five minutes; anything else is
final.
"""

from __future__ import annotations

from dataclasses import dataclass

from locustfiles.polling import backoff_s

SUBMITS_AT_ONCE = 400  # asample calls in flight per client
RETRY_WINDOW_S = 300.0
PAUSE_S = 1.0
PAUSE_LARGE_S = 5.0
LARGE_REQUEST_BYTES = 128 * 1024

NO_ANSWER = 0  # stands for the HTTP status when the connection failed or timed out


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer carries the future's id."""


@dataclass(frozen=True, slots=True)
class PauseClient:
    """The server is overloaded: no submit of this client before delay_s are over."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class SubmitAgain:
    """Send the same request again after delay_s."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class Refused:
    """The submit failed for good."""

    error_class: str


SubmitStep = Accepted | PauseClient | SubmitAgain | Refused


def after_submit(status: int, retries: int, elapsed_s: float, request_bytes: int) -> SubmitStep:
    """What follows a submit answered with ``status``.

    retries: how often this submit was already retried; elapsed_s: since its first attempt.
    """
    if status == 200:
        return Accepted()
    if status == 429:
        return PauseClient(PAUSE_S if request_bytes <= LARGE_REQUEST_BYTES else PAUSE_LARGE_S)
    retryable = status in (NO_ANSWER, 408, 409) or 500 <= status < 600
    if retryable and elapsed_s < RETRY_WINDOW_S:
        return SubmitAgain(min(backoff_s(retries), RETRY_WINDOW_S - elapsed_s))
    return Refused("submit: no answer" if status == NO_ANSWER else f"submit {status}")
