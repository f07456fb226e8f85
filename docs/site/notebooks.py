"""The tutorial and the stories as Jupyter notebooks, written when the site is built."""

from __future__ import annotations

import json
import re

NOTEBOOKS = ("tutorial.md", "researcher.md", "engineer.md", "optimiser.md")
BLOCK = re.compile(
    r'^```(?P<kind>\w+)(?: title="(?P<file>[^"]+)")?\n(?P<body>.*?)^```$', re.MULTILINE | re.DOTALL
)


def code_of(block: re.Match[str]) -> str:
    """Return the code cell of a block of a page; empty for a block of output."""
    body = block["body"].rstrip()
    if block["file"]:
        return f"%%writefile {block['file']}\n{body}"
    if block["kind"] == "python":
        return body
    prompt = {"console": "$ ", "sh": ""}.get(block["kind"], "no command")
    lines = [line for line in body.splitlines() if line.startswith(prompt)]
    return "\n".join("!" + line.removeprefix(prompt) for line in lines)


def notebook_of(page: str) -> str:
    """Return the notebook of a page, as JSON. Its commands run in a shell."""
    cells, begin = [], 0
    for block in (found for found in BLOCK.finditer(page) if code_of(found)):
        cells += [("markdown", page[begin : block.start()].strip()), ("code", code_of(block))]
        begin = block.end()
    cells.append(("markdown", page[begin:].strip()))
    code = {"execution_count": None, "outputs": []}
    written = [
        {"cell_type": kind, "id": f"cell-{k}", "metadata": {}, "source": source}
        | (code if kind == "code" else {})
        for k, (kind, source) in enumerate(cells)
        if source
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    whole = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}}
    return json.dumps(whole | {"cells": written}, indent=1)
