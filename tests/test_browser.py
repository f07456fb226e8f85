"""Pages in the system's Chromium, wide and narrow, light and dark: `make test-browser`."""

import shutil
from itertools import product
from pathlib import Path

import pandas as pd
import pytest

from online import pictures

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "build" / "site"
PAGES = sorted(page.relative_to(SITE).as_posix() for page in SITE.rglob("*.html"))
NAMES = ("chromium", "chromium-browser", "google-chrome")
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), "")
FAULTS = (ROOT / "tests" / "support" / "page_faults.js").read_text("utf-8")

MISSING = "build/site is missing: run make docs" if CHROMIUM else f"none of {NAMES} is installed"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not (CHROMIUM and PAGES), reason=MISSING)]


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])


def faults(browser, file):
    """Open a page of the disk; return what is wrong with it, also where it asks for the network."""
    page, found = browser.new_page(), []
    page.on("console", lambda message: found.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("request", lambda request: found.append(request.url))
    page.goto(file.as_uri())
    page.add_style_tag(content="* {transition: none !important}")
    for scheme, width in product(("light", "dark"), (1280, 400)):
        page.emulate_media(color_scheme=scheme)
        page.set_viewport_size({"width": width, "height": 900})
        found += [f"{scheme}, {width}: {fault}" for fault in page.evaluate(FAULTS)]
    page.close()
    return [one for one in found if not one.startswith(("file:", "data:", "blob:"))]


@pytest.mark.parametrize("name", PAGES)
def test_a_page_has_no_faults(browser, name):
    assert faults(browser, SITE / name) == []


def test_a_written_page_has_no_faults(browser, tmp_path):
    content = ["A sentence.", pd.DataFrame([range(100000, 100030)]), pictures.new_axes()]
    (tmp_path / "page.html").write_text(pictures.page("a title", "an answer", content), "utf-8")
    assert faults(browser, tmp_path / "page.html") == []


def test_a_faulty_page_is_found(browser, tmp_path):
    wrong = "<h1>A</h1><h3>B</h3><img src='none.png'><p style='width: 2000px; color: #aaa'>C"
    (tmp_path / "page.html").write_text(wrong, "utf-8")
    text = "\n".join(faults(browser, tmp_path / "page.html"))
    wanted = ("wide", "no image", "skips a level", "contrast of 2.3", "ERR_FILE_NOT_FOUND")
    assert [fault for fault in wanted if fault not in text] == []


def test_the_search_finds_a_page_from_the_disk(browser):
    page = browser.new_page()
    page.goto((SITE / "index.html").as_uri())
    page.click("[data-md-component=search-query]")
    page.keyboard.type("LaTeX")
    page.wait_for_selector(".md-search-result__item a[href*='/experiments.html']")
