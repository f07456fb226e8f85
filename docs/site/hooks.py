"""What the site needs beyond the pages: those at the root, and the files that pages link to.

On a checkout every link of a page is to a file of the repository. The site has the pages of docs/,
CONTRIBUTING and CHANGELOG, and the files of docs/; other files that a page links to, sources above
all, are copied beside them as text. A folder has no page: such a link becomes its own text.
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from studies.pages import TABLES, TABLES_HERE  # noqa: E402

# In the site, by where they stand in the repository.
PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
# What is looked up stands before what mentions it.
SEARCH_BOOST = {"glossary.md": 4.0, "reference/optima.md": 2.0, "reference/simulation.md": 2.0}
LINK = re.compile(
    r"(?P<bang>!?)\[(?P<text>[^\]]*)\]\((?!\w+:|#)(?P<target>[^)#\s]+)(?P<rest>[^)]*)\)"
)


def in_repository(page: str, target: str) -> str:
    """Where a link of ``page``, of the site, leads in the repository."""
    origin = next((source for source, own in PAGES.items() if own == page), f"docs/{page}")
    if page == PAGES["README.md"]:
        origin = "docs/index.md"
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))


def in_site(path: str) -> str | None:
    """Where a file of the repository stands in the site, None for a folder."""
    if path in PAGES:
        return PAGES[path]
    if (ROOT / path).is_dir():
        return None
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"source/{path}.txt"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add tables, the pages at the root, and what pages link to outside docs/."""
    for name, tables in TABLES.items():
        short = files.src_uris[name]
        text = short.content_string.replace(TABLES_HERE, tables())
        files.remove(short)
        files.append(File.generated(config, name, content=text))
    for source, page in PAGES.items():
        if page != "index.md":
            files.append(File.generated(config, page, content=(ROOT / source).read_text("utf-8")))
    linked = {
        in_repository(page.src_uri, link["target"])
        for page in files.documentation_pages()
        for link in LINK.finditer(page.content_string)
    }
    for path in sorted(linked):
        copy = in_site(path)
        if copy and copy.startswith("source/") and (ROOT / path).is_file():
            files.append(File.generated(config, copy, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links within the repository into links within the site."""
    here = page.file.src_uri
    if here in SEARCH_BOOST:
        page.meta["search"] = {"boost": SEARCH_BOOST[here]}

    def turned(link: re.Match[str]) -> str:
        target = in_site(in_repository(here, link["target"]))
        if target is None:
            return link["text"]
        relative = posixpath.relpath(target, posixpath.dirname(here) or ".")
        return f"{link['bang']}[{link['text']}]({relative}{link['rest']})"

    return LINK.sub(turned, markdown)
