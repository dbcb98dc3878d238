"""Numbers as people read them, for the report and the progress line."""

from __future__ import annotations

NOT_MEASURED = "–"


def count(value: float | None) -> str:
    """A whole number with thousands separators."""
    return NOT_MEASURED if value is None else f"{value:,.0f}"


def rate(value: float | None) -> str:
    """Events a second: a decimal below 100."""
    if value is None:
        return NOT_MEASURED
    return f"{value:,.0f}/s" if value >= 100 else f"{value:.1f}/s"


def percent(fraction: float | None) -> str:
    return NOT_MEASURED if fraction is None else f"{100 * fraction:.1f} %"


def size(bytes_: float | None) -> str:
    """A size in decimal units (1 GB is 10**9 bytes), as thresholds and disks state it."""
    if bytes_ is None:
        return NOT_MEASURED
    if bytes_ < 0:
        return f"-{size(-bytes_)}"
    for unit, factor, digits in (("GB", 1e9, 2), ("MB", 1e6, 0), ("kB", 1e3, 0)):
        if bytes_ >= factor:
            return f"{bytes_ / factor:.{digits}f} {unit}"
    return f"{bytes_:.0f} B"


def capital(words: str) -> str:
    """The same with a capital at its beginning, and all else as it is."""
    return words[:1].upper() + words[1:]


def exact_size(bytes_: float) -> str:
    """A size to the byte."""
    return f"{bytes_:,.0f} B"


def seconds(value: float | None) -> str:
    """A latency with three significant digits or so, in the unit that suits it."""
    if value is None:
        return NOT_MEASURED
    if 0 < value < 1e-5:
        return f"{1e6 * value:.0f} µs"
    if value < 1:
        milliseconds = 1000 * value
        return f"{milliseconds:.2f} ms" if milliseconds < 10 else f"{milliseconds:.0f} ms"
    return f"{value:.2f} s" if value < 10 else f"{value:.1f} s"


def duration(value: float | None) -> str:
    """A span of time in the two largest units that it has: ``47 s``, ``5 min 12 s``, ``3 h 05 min``."""
    if value is None:
        return NOT_MEASURED
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
