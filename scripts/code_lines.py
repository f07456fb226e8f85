"""Count code lines by folder and words of pages. Fail if a budget in pyproject.toml is exceeded.

A code line has a token that is not part of a docstring or a comment.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("instances", "hindsight", "online")
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def code_lines(text: str) -> int:
    """Count the lines of a Python source that have code."""
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    spans = [(t.start[0], t.end[0]) for t in tokens if t.type not in NO_CODE and t.string]
    lines = {line for first, last in spans for line in range(first, last + 1)}
    for node in ast.walk(ast.parse(text)):
        kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
        if isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            lines -= {*range(docstring.lineno, (docstring.end_lineno or 0) + 1)}
    return len(lines)


def counts(root: Path = ROOT) -> dict[str, int]:
    """Return the code lines of each folder, and the words of pages, in a checkout.

    Files that git ignores are left out.
    """
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py", "docs/*.md"]
    names = subprocess.run(listing, cwd=root, capture_output=True, text=True, check=True).stdout
    found = dict.fromkeys((*PACKAGES, "packages", "scripts", "tests", "words"), 0)
    for path in filter(Path.is_file, (root / name for name in names.splitlines())):
        text, folder = path.read_text(encoding="utf-8"), path.relative_to(root).parts[0]
        if path.suffix == ".md":
            found["words"] += len(text.split())
        elif folder in found:
            found[folder] += code_lines(text)
    return found | {"packages": sum(found[name] for name in PACKAGES)}


if __name__ == "__main__":
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found, budget = counts(), project["tool"]["llm-hindsight"]["budget"]
    print(f"{'code lines':<12}{'now':>8}{'budget':>8}")
    for key, count in found.items():
        print(f"{key:<12}{count:>8,}{budget[key]:>8,}{'  too many' * (count > budget[key])}")
    if any(found[key] > budget[key] for key in found):
        sys.exit("remove as many, or raise the number in pyproject.toml in its own commit")
