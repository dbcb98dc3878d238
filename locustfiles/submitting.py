"""The submit rules of an SDK client, pure: what a submit came to in, what to do next out.

From the ``tinker`` SDK (``lib/internal_client_holder.py``, ``lib/public_interfaces/sampling_client.py``): 429, and 402
for a while, pause the whole client; connection failures, 408, 409 and 5xx are retried with back-off for five minutes,
and then the whole sample anew; anything else is final.
"""

from __future__ import annotations

from dataclasses import dataclass

from locustfiles.preset import SDK, Preset

SUBMITS_AT_ONCE = SDK.submits_at_once
ESTIMATED_BYTES_PER_TOKEN = 10  # what the SDK takes a token of the prompt for, whatever its digits

NO_ANSWER = 0  # stands for the HTTP status when the connection failed or timed out


@dataclass(frozen=True, slots=True)
class Accepted:
    """The answer carries the future's id."""


@dataclass(frozen=True, slots=True)
class PauseClient:
    """The server is overloaded: no submit of this client before delay_s are over, and none retried until now."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class SubmitAgain:
    """Send the same request again after delay_s."""

    delay_s: float


@dataclass(frozen=True, slots=True)
class Refused:
    """This submit failed for good. anew: the same work may be submitted anew, as a new request."""

    error_class: str
    anew: bool = False


SubmitStep = Accepted | PauseClient | SubmitAgain | Refused


def after_submit(
    preset: Preset, status: int, retries: int, elapsed_s: float, request_bytes: int, billing_pauses: bool = True
) -> SubmitStep:
    """What follows a submit answered with ``status``.

    retries: how often this submit was retried since the last pause of the client or the first attempt; elapsed_s: time
    since then; request_bytes: as the SDK estimates them; billing_pauses: whether the client bears with a 402.
    """
    if 200 <= status < 300:
        return Accepted()
    if status == 429 or (status == 402 and billing_pauses):
        large = request_bytes > preset.large_submit_bytes
        return PauseClient(preset.large_submit_pause_s if large else preset.submit_pause_s)
    retryable = status in (NO_ANSWER, 408, 409) or 500 <= status < 600
    window_s = preset.submit_retry_window_s
    if retryable and elapsed_s < window_s:
        return SubmitAgain(min(preset.backoff_s(retries), window_s - elapsed_s))
    return Refused("submit: no answer" if status == NO_ANSWER else f"submit {status}", anew=retryable)
