"""What one kind of client does by numbers: its time-outs, pauses, retries and limits.

The constants are those of the public ``tinker`` SDK 0.38 (in ``lib``: ``api_future_impl.py``, ``retry_handler.py``,
``internal_client_holder.py``, ``public_interfaces/sampling_client.py``), proven by comparing traces: docs/parity.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

KIB, MIB = 1024, 1024 * 1024


def _constant(value: Any, about: str) -> Any:
    return field(default=value, metadata={"about": about})


@dataclass(frozen=True, slots=True)
class Preset:
    """How one kind of client polls and submits. Times in seconds, sizes in bytes."""

    name: str
    poll_timeout_s: float = _constant(45.0, "how long it waits for the answer of a poll")
    pause_after_timeout: bool = _constant(True, "whether a poll without an answer is followed by a back-off")
    backoff_first_s: float = _constant(1.0, "pause after the first 429, failed connection or time-out in a row")
    backoff_factor: float = _constant(2.0, "by how much that pause grows with each further one in a row")
    backoff_max_s: float = _constant(30.0, "the longest of these pauses")
    bad_requests_allowed: int = _constant(3, "polls answered 400 in a row before the future has failed")
    rejections_allowed: int = _constant(
        16,
        "answers 400 without a body, as proxies send them, that count as failed connections; each answer returns one",
    )
    billing_pause_s: float = _constant(5.0, "pause after a poll answered 402")
    billing_window_s: float = _constant(3600.0, "how long 402 is followed by pauses before it is final")
    response_bytes: int = _constant(50 * MIB, "results on their way at once, of those whose size was told")
    submit_timeout_s: float = _constant(60.0, "how long it waits for the answer of a submit")
    submits_at_once: int = _constant(400, "submits in flight at once")
    submit_bytes: int = _constant(10 * MIB, "prompts in flight at once, at ten bytes a token")
    submit_pause_s: float = _constant(
        1.0, "pause of all submits after one was answered 429, and how often it is looked"
    )
    large_submit_pause_s: float = _constant(5.0, "that pause after a large one")
    large_submit_bytes: int = _constant(128 * KIB, "what a large one has more of, at ten bytes a token")
    throttled_s: float = _constant(10.0, "how long after such a pause submits are throttled")
    throttled_submits_at_once: int = _constant(10, "submits in flight at once while they are")
    throttled_bytes_factor: int = _constant(20, "how many times its bytes a submit counts while they are")
    submit_retry_window_s: float = _constant(300.0, "how long one submit is retried, with back-off")
    resubmits: bool = _constant(
        True, "whether a sample is submitted anew when its future is gone or its retries are over"
    )
    resubmit_first_s: float = _constant(0.5, "pause before it is submitted anew for the first time")
    resubmit_max_s: float = _constant(10.0, "the longest of these pauses, each of which is twice the one before")
    resubmit_jitter: float = _constant(0.25, "part of that pause by which it may be shorter or longer")
    progress_timeout_s: float = _constant(7200.0, "how long it submits anew without that any sample succeeds")

    @property
    def described(self) -> str:
        """Its name, and for a custom one what makes it differ from the SDK."""
        own = [
            f"{constant.name}={value}"
            for constant in CONSTANTS
            if self.name == CUSTOM and (value := getattr(self, constant.name)) != constant.default
        ]
        return f"{self.name} ({', '.join(own)})" if own else self.name

    def backoff_s(self, consecutive: int) -> float:
        """The pause after ``consecutive`` earlier errors in a row: 1, 2, 4 ... 30 s."""
        return min(self.backoff_first_s * self.backoff_factor ** min(consecutive, 64), self.backoff_max_s)

    def resubmit_s(self, attempts: int, chance: float) -> float:
        """The pause after ``attempts`` earlier ones; chance: from -1 to 1."""
        pause_s = min(self.resubmit_first_s * 2.0 ** min(attempts, 64), self.resubmit_max_s)
        return min(pause_s * (1 + self.resubmit_jitter * chance), self.resubmit_max_s)


CONSTANTS = [constant for constant in fields(Preset) if constant.name != "name"]

SDK = Preset("sdk")
PRESETS = {
    preset.name: preset
    for preset in (
        SDK,
        # The SDK's default transport adds its read and its write budget: 45 s become 90 s, and 60 s become 120 s.
        replace(SDK, name="sdk-pyqwest", poll_timeout_s=90.0, submit_timeout_s=120.0),
        # What load-test harnesses without the SDK do: poll again at once.
        replace(SDK, name="plain-45s", pause_after_timeout=False),
    )
}
CUSTOM = "custom"
PRESET_NAMES = (*PRESETS, CUSTOM)
