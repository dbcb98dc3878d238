"""A real browser for tests: Playwright on the system's Chromium."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def browser() -> Iterator[Browser]:
    """Skips the test where there is none."""
    executable = next(filter(None, map(shutil.which, NAMES)), None)
    if executable is None:
        pytest.skip(f"there is no Chromium on this machine (looked for {', '.join(NAMES)})")
    args = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium's sandbox is not for root
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=executable, args=args)
        try:
            yield chromium
        finally:
            chromium.close()
