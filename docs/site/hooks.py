"""The parts of the site that are not files of docs/: generated parts, and pages of the root.

On a checkout every link of a page leads to a file of the repository. The site has the pages of
docs/, README as its start page, CONTRIBUTING and CHANGELOG, and the files of docs/. Other
files that a page links to, such as sources, are copied into the site as text. A folder has no page:
a link to one becomes its own text.
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
sys.path[:0] = [str(ROOT), str(ROOT / "scripts"), str(ROOT / "docs" / "site")]

from notebooks import NOTEBOOKS, notebook_of  # noqa: E402

from generated import MARK, expanded  # noqa: E402
from studies.pages import TABLES, TABLES_HERE  # noqa: E402

PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
}
"""Pages of the site by the file of the root that they are made from."""
# Definitions come before mentions in the results of a search.
SEARCH_BOOST = {"glossary.md": 4.0, "reference/optima.md": 2.0, "reference/simulation.md": 2.0}
LINK = re.compile(
    r"(?P<bang>!?)\[(?P<text>[^\]]*)\]\((?!\w+:|#)(?P<target>[^)#\s]+)(?P<rest>[^)]*)\)"
)


def in_repository(page: str, target: str) -> str:
    """Return the file of the repository that a link on a page of the site leads to."""
    origin = next((source for source, own in PAGES.items() if own == page), f"docs/{page}")
    return posixpath.normpath(posixpath.join(posixpath.dirname(origin), target))


def in_site(path: str) -> str | None:
    """Return the place of a file of the repository in the site, None for a folder."""
    if path in PAGES:
        return PAGES[path]
    if (ROOT / path).is_dir():
        return None
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"source/{path}.txt"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Leave out the page for missing addresses: its links need the address of a server."""
    config.theme.static_templates.discard("404.html")
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add generated parts, the pages of the root, and files outside docs/ that pages link to."""
    for name, tables in TABLES.items():
        short = files.src_uris[name]
        text = short.content_string.replace(TABLES_HERE, tables())
        files.remove(short)
        files.append(File.generated(config, name, content=text))
    for page in list(files.documentation_pages()):
        if MARK.search(page.content_string):
            files.remove(page)
            text = expanded(page.content_string)
            files.append(File.generated(config, page.src_uri, content=text))
    for name in NOTEBOOKS:
        text = notebook_of(files.src_uris[name].content_string)
        files.append(File.generated(config, name.replace(".md", ".ipynb"), content=text))
    for source, name in PAGES.items():
        files.append(File.generated(config, name, content=(ROOT / source).read_text("utf-8")))
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

    if here in NOTEBOOKS:
        own = here.replace(".md", ".ipynb")
        markdown = markdown.replace("\n\n", f"\n\n[As a notebook]({own})\n\n", 1)
    if here == PAGES["README.md"]:
        # Its picture is HTML, for two themes.
        markdown = markdown.replace('="docs/', '="')
    return LINK.sub(turned, markdown)
