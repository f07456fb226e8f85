"""Every path and every dotted name of the packages that a page mentions exists."""

from __future__ import annotations

import re
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
PAGES += sorted((ROOT / "docs").rglob("*.md"))
FOLDERS = "instances|hindsight|online|scripts|tests|docs|.ci|.github"
PATH = re.compile(rf"(?<![\w./-])(?:{FOLDERS.replace('.', '[.]')})/[\w./*-]*|[\w/]+[.]py\b")
DOTTED = re.compile(r"(?<![\w./-])(?:instances|hindsight|online)(?:[.][A-Za-z_]\w*)+")
PLACED = re.compile(r"`(\w+)`(?:\s\w+)?\s(?:of|in)\s`([\w/]+[.]py)`")
OLD = re.compile(r"^## (?:From 0[.]1[.]0 to 0[.]2[.]0|\d+[.]\d+[.]\d+ -)", re.MULTILINE)
"""Headings after which a page names what is gone: those of released versions."""
OWN = re.compile(r"(?:my|mine|FILE|NAME)(?:_\w+)?[.]py")
"""Files that stand for the reader's."""


def prose(page: Path) -> str:
    """The page without its blocks of code, which other tests run."""
    text = OLD.split(page.read_text(encoding="utf-8"))[0]
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)


@cache
def files() -> tuple[str, ...]:
    """Every file of the packages, scripts and tests, with a slash in front."""
    folders = ("instances", "hindsight", "online", "scripts", "tests", "docs/site")
    found = (path for folder in folders for path in (ROOT / folder).rglob("*.py"))
    return tuple(f"/{path.relative_to(ROOT)}" for path in [*found, ROOT / "llm_hindsight.py"])


def is_there(path: str, page: Path) -> bool:
    if OWN.fullmatch(Path(path).name) or (ROOT / path).exists():
        return True
    if "*" in path:
        return any(ROOT.glob(path))
    if path.endswith(".py") and any(file.endswith(f"/{path}") for file in files()):
        return True
    # A file that a block of the page writes or runs.
    used = re.compile(rf"^[^`]*(?<![\w/]){re.escape(path)}\b[^`]*$", re.MULTILINE)
    return used.search(page.read_text("utf-8")) is not None


def resolves(name: str) -> bool:
    """Whether a dotted name is a module, what a module defines, or a field of a class."""
    found: Any = None
    parts = name.split(".")
    for end, part in enumerate(parts, 1):
        module = ".".join(parts[:end])
        if hasattr(found, part):
            found = getattr(found, part)
        elif part in getattr(found, "__annotations__", {}):
            return end == len(parts)
        elif (found is not None and not hasattr(found, "__path__")) or not find_spec(module):
            return False
        elif end < len(parts):
            found = import_module(module)
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_exists(page: Path) -> None:
    text = prose(page)
    missing = []
    for span in re.findall(r"`([^`]+)`", text):
        missing += [path for path in PATH.findall(span) if not is_there(path.rstrip("."), page)]
        missing += [name for name in DOTTED.findall(span) if not resolves(name)]
    for name, path in PLACED.findall(text):
        holds = [file for file in files() if file.endswith(f"/{path}")]
        if not any(re.search(rf"\b{name}\b", (ROOT / file[1:]).read_text()) for file in holds):
            missing.append(f"{name} of {path}")
    assert not missing, missing
