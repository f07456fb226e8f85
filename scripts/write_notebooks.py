"""Write the notebooks of docs/ from their pages: `python scripts/write_notebooks.py`."""

from __future__ import annotations

import _checkout

from instances.files import write_atomically
from online.commands.console import run, say
from studies.notebooks import STORIES, notebook_of


def write() -> int:
    """Write every notebook anew."""
    docs = _checkout.ROOT / "docs"
    for name in STORIES:
        text = notebook_of((docs / f"{name}.md").read_text("utf-8"))
        write_atomically(docs / "notebooks" / f"{name}.ipynb", text.encode())
        say(f"docs/notebooks/{name}.ipynb")
    return 0


if __name__ == "__main__":
    run(write)
