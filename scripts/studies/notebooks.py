"""Notebooks made of pages: the text of a page, and its blocks as cells to run."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

STORIES = ("researcher", "engineer", "optimiser")
"""Pages of docs/ that are notebooks too."""

BLOCK = re.compile(
    r"(?:^<!-- not run: (?P<reason>[^\n]+) -->\n\n)?"
    r'^```(?P<language>\w*)(?: title="(?P<title>[^"\n]+)")?\n'
    r"(?P<code>.*?)^```\n",
    re.MULTILINE | re.DOTALL,
)
LINK = re.compile(r"\]\((?!\w+:|#)(?P<target>[^)]+)\)")


def notebook_of(page: str) -> str:
    """Turn a page into a notebook without outputs.

    Python blocks become cells, those with a title cells that write the file, and each command of a
    ``console`` block a line that the shell runs. Outputs are left out. A block that is not run
    stays text, unless its comment says that the notebook runs it. Links lead from docs/notebooks/.
    """
    cells: list[dict[str, object]] = [
        {
            "cell_type": kind,
            "id": f"cell-{number}",
            "metadata": {},
            "source": source.splitlines(keepends=True),
            **({"execution_count": None, "outputs": []} if kind == "code" else {}),
        }
        for number, (kind, source) in enumerate(_cells(page))
    ]
    python = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook = {
        "cells": cells,
        "metadata": {"kernelspec": python, "language_info": {"name": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _cells(page: str) -> Iterator[tuple[str, str]]:
    text, end = "", 0
    for block in BLOCK.finditer(page):
        text, end = text + page[end : block.start()], block.end()
        code = _code(block)
        if code is None:
            text += block[0]
        elif code:
            if text.strip():
                yield "markdown", LINK.sub(r"](../\g<target>)", text.strip())
            text = ""
            yield "code", code
    text += page[end:]
    if text.strip():
        yield "markdown", LINK.sub(r"](../\g<target>)", text.strip())


def _code(block: re.Match[str]) -> str | None:
    """Return what a cell runs: nothing for an output, None where the block stays text."""
    if block["reason"] and "the notebook runs it" not in block["reason"]:
        return None
    if block["title"]:
        return f"%%writefile {block['title']}\n{block['code'].strip()}"
    if block["language"] == "python":
        return block["code"].strip()
    if block["language"] == "console":
        return "\n".join(f"!{one}" for one in re.findall(r"^\$ (.+)$", block["code"], re.MULTILINE))
    return "" if block["language"] == "text" else None
