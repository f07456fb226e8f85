"""Words that a reader has to guess stand neither in docstrings and messages nor on pages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
BANNED = re.compile(
    r"\b(?:beside|told|whoever|anew|of one's own)\b"
    # "is no policy" for "is not a policy"; "there is no policy" and "is no longer" are plain.
    r"|(?<!there )(?<!answer )\bis no\b(?! longer| more| less| larger| later| sooner)",
    re.IGNORECASE,
)


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Lines of a page without its code, or of the strings of a module, with their numbers."""
    text = path.read_text("utf-8")
    if path.suffix == ".md":
        blank = re.sub(
            r"^ *```.*?^ *```", lambda b: "\n" * b[0].count("\n"), text, flags=re.S | re.M
        )
        yield from enumerate(re.sub(r"`[^`\n]*`", "", blank).splitlines(), 1)
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield from enumerate(node.value.splitlines(), node.lineno)


def banned(paths: list[Path]) -> list[str]:
    found = [(path, *line) for path in paths for line in texts(path)]
    return [
        f"{path.relative_to(ROOT)}:{line}: {text.strip()}"
        for path, line, text in found
        if BANNED.search(text)
    ]


@pytest.mark.parametrize("package", ["instances", "hindsight", "online"])
def test_docstrings_and_messages_have_no_banned_word(package: str) -> None:
    assert banned(sorted((ROOT / package).rglob("*.py"))) == []


def test_pages_have_no_banned_word() -> None:
    assert banned(PAGES) == []
