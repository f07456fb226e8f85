"""Write the page that tells where the package has what the papers state."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from _checkout import ROOT

from instances.files import write_atomically
from online.commands.console import check_output, run, say
from studies.papers.page import papers_page


def papers(
    page: Annotated[Path, typer.Argument(metavar="FILE.md", help="Where to write it.")],
) -> None:
    """Write the page that tells where the package has what the papers state."""
    check_output(page, (".md",), "FILE.md")
    write_atomically(page, papers_page(ROOT, page))
    say(f"wrote {page}")


if __name__ == "__main__":
    run(papers)
