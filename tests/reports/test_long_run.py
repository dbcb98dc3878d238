"""A day's report: small enough to attach, and no peak of a second is lost in it."""

from __future__ import annotations

import re
from pathlib import Path

from reports.conclude import render
from tests.reports.bench_long_run import PEAK_BYTES, write_long_run


def test_a_long_run_s_report_is_small_and_keeps_the_peak_of_one_second(tmp_path: Path) -> None:
    folder = write_long_run(tmp_path / "long", 6 * 3600)
    document = render(folder)
    assert document.target.rss_peak_bytes == PEAK_BYTES
    assert folder.report_html.stat().st_size < 2_000_000
    page = folder.report_html.read_text()
    memory = page[page.index("<h3>Memory of the target</h3>") :]
    drawn = re.search(r'<path d="(M [^"]{2000,})"', memory)  # RSS: the first long line of that plot
    assert drawn is not None
    heights = [float(y) for _, y in re.findall(r"[ML] ([\d.]+) ([\d.]+)", drawn[1])]
    assert min(heights) < 0.7 * sorted(heights)[1]  # y grows downwards: one point stands high above all others
