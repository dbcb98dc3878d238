"""Restarts of target and engine, told by counters that fall."""

from __future__ import annotations

from reports.schema import ResourceRow

# Each counts from the start of its process, or of what took over its process id.
_COUNTERS = {
    "The target": ("target_cpu_s", "target_results_served"),
    "The engine": ("engine_cpu_s", "engine_slot_seconds"),
}


class RestartWatch:
    """Follows the samples of one run."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def seen(self, row: ResourceRow) -> list[str]:
        """A sentence for each of the two that was started anew since the sample before."""
        sentences = []
        for who, names in _COUNTERS.items():
            values = {name: value for name in names if (value := getattr(row, name)) is not None}
            if any(value < self._last.get(name, value) for name, value in values.items()):
                sentences.append(f"{who} was started anew.")
            self._last |= values
        return sentences
