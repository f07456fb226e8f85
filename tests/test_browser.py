"""Pages of the built site in the system's Chromium: `make docs` first, or `make test-browser`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import matplotlib.image
import pytest

SITE = Path(__file__).resolve().parent.parent / "build" / "site"
NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), "")
PAGES = ("index", "headroom", "reproduction")

pytestmark = [
    pytest.mark.skipif(not CHROMIUM, reason=f"none of {', '.join(NAMES)} is installed"),
    pytest.mark.skipif(not SITE.exists(), reason="build/site is missing: run make docs"),
]


def opened(page: str, profile: Path, *options: str) -> str:
    """Open a page without a window; return what Chromium prints."""
    fixed = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}")
    command = [CHROMIUM, *fixed, *options, (SITE / f"{page}.html").as_uri()]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.parametrize("page", PAGES)
def test_a_page_opens_with_its_heading_and_style(page: str, tmp_path: Path) -> None:
    dom = opened(page, tmp_path / "profile", "--dump-dom")
    assert "<h1" in dom
    assert "</html>" in dom
    for link in ("stylesheet", "<nav"):
        assert link in dom


@pytest.mark.parametrize("width", [1280, 500])
def test_a_page_is_drawn_at_a_width(width: int, tmp_path: Path) -> None:
    """Chromium's windows are at least 500 wide; the page fills the window and is not blank."""
    picture = tmp_path / "page.png"
    size = (f"--window-size={width},900", f"--screenshot={picture}")
    opened("index", tmp_path / "profile", *size)
    pixels = matplotlib.image.imread(picture)
    assert pixels.shape[:2] == (900, width)
    assert pixels[..., :3].std() > 0.02
