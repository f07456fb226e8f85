"""A real browser without a network."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
BROWSER = next((found for name in BROWSERS if (found := shutil.which(name))), None)
QUIET = (
    *("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)


@contextmanager
def launched() -> Iterator[Any]:
    """Chromium, headless; it needs playwright."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # Chromium's sandbox refuses to run for root.
        flags = [*QUIET, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        browser = driver.chromium.launch(executable_path=BROWSER, args=flags)
        yield browser
        browser.close()
