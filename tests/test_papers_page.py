"""Tables of papers against the citations in the sources, both ways, and how these are spelled."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from studies.papers.citations import Place, cited_statements, documented
from studies.papers.page import papers_tables, places
from studies.papers.statements import RESULTS, SUBJECTS

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("instances", "hindsight", "online")
HEADING = re.compile(r"^## \[(\w+)\]$")
LINK = re.compile(r"\[`([^`]+)`\]\(\.\./([^)]+)\)")
# What any citation begins with, found without the package's own reader.
FIRST = re.compile(
    r"\[([JCWA]25|F26)\](?:'s)? (Theorem|Lemma|Proposition|Corollar|Algorithm|Equation|Example|"
    r"Definition|Table|Figure|Section|Appendix|Claim)(?:s|y|ies)? "
    r"(\(\d+\)|(?:EC\.|[A-Z]\.)?\d+(?:\.\d+)*|C\b)"
)
SHORT = re.compile(
    r"\b(Thms?|Algs?|Eqs?|Props?|Cor|Defs?|Figs?|Lem)\.? (EC\.)?\(?\d"
    r"|\[(?:[JCWA]25|F26)\],? (\(|EC\.|\d)"
)


@cache
def rows() -> dict[tuple[str, str], list[str]]:
    """Cells of every row by paper and label; the rows of what is absent have an empty list."""
    paper, found = "", {}
    for line in papers_tables(ROOT, "../").splitlines():
        heading = HEADING.match(line)
        paper = heading[1] if heading else paper
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| ") and not line.startswith(("| :-", "| statement", "| not in")):
            assert (paper, cells[0]) not in found, f"two rows for [{paper}] {cells[0]}"
            found[paper, cells[0]] = cells[1:] if len(cells) == 4 else []
    return found


def sources() -> list[Path]:
    folders = (*PACKAGES, "tests", "scripts")
    return [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]


def test_every_citation_has_a_row() -> None:
    cited = set()
    for path in sources():
        if path != Path(__file__) and not path.is_relative_to(ROOT / "scripts"):
            text = re.sub(r"\n\s*#? *", " ", path.read_text(encoding="utf-8"))
            # A name of an instance or a table's cell is no citation: no docstring, no comment.
            text = re.sub(r'(?<!")"\[[^"\n]*"(?!")', "", text)
            for paper, kind, number in FIRST.findall(text):
                cited.add((paper, f"{kind.replace('Corollar', 'Corollary')} {number}"))
    shown = {key for key, cells in rows().items() if cells}
    assert len(cited) > 100
    assert cited <= shown


def test_every_row_points_to_what_is_there() -> None:
    links = 0
    for label, cells in rows().items():
        for name, path in LINK.findall(" ".join(cells)):
            target = ROOT / path
            assert target.is_file(), (label, path)
            if name != target.name:
                last = re.escape(name.split(".")[-1])
                text = target.read_text(encoding="utf-8")
                assert re.search(rf"\b{last}\b", text), (label, name, path)
            links += 1
    assert links > 300


def test_every_row_has_a_test_or_says_why_not() -> None:
    untested = {(r.statement.paper, r.statement.label) for r in RESULTS if r.untested}
    without = {label for label, cells in rows().items() if cells and "(../tests/" not in cells[2]}
    assert without == untested


def test_every_result_is_cited_or_absent() -> None:
    cited = set(places(ROOT))
    listed = [result.statement for result in RESULTS]
    assert len(set(listed)) == len(listed)
    assert {result.statement for result in RESULTS if not result.absent} | set(SUBJECTS) == cited
    absent = {(r.statement.paper, r.statement.label) for r in RESULTS if r.absent}
    assert absent == {label for label, cells in rows().items() if not cells}


def test_citations_are_spelled_in_full() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    for path in [*pages, *sources()]:
        if path != Path(__file__):
            found = SHORT.search(path.read_text(encoding="utf-8"))
            assert found is None, (path, found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("as [A25] Example 2, Proposition 3 and", "Example 2|Proposition 3"),
        ("[C25]'s Theorems 4.2, 4.3, Corollary 4.10.", "Theorem 4.2|Theorem 4.3|Corollary 4.10"),
        ("[J25] Equations (1)-(4)", "Equation (1)|Equation (2)|Equation (3)|Equation (4)"),
        ("[A25] Figures 16 to\n    18", "Figure 16|Figure 17|Figure 18"),
        ("[W25] Theorems 1 and EC.1", "Theorem 1|Theorem EC.1"),
        ("[W25] Section EC.4.2), M = 3", "Section EC.4.2"),
        ("[C25] Example 8.2, M = 7, Theorem", "Example 8.2"),
        ("[J25] Appendix B.3; [A25] Table 1", "Appendix B.3|Table 1"),
        ("[J25] says: Theorem 4", ""),
    ],
)
def test_what_a_text_cites(text: str, expected: str) -> None:
    assert "|".join(statement.label for statement in cited_statements(text)) == expected


def test_where_a_text_stands() -> None:
    source = '''"""Of the module."""
LIMIT = 3
"""Of the constant."""
# Of the module as well,
# in two lines.

@register_policy("some-name")
class Some:
    """Of the class."""

    def rule(self):
        """Of the method."""
        value = "not this"  # Of the method, too.
        return value
'''
    assert list(documented(source, "a/b.py")) == [
        (Place("a/b.py"), "Of the module."),
        (Place("a/b.py", "LIMIT"), "Of the constant."),
        (Place("a/b.py", "Some", "some-name"), "Of the class."),
        (Place("a/b.py", "Some.rule"), "Of the method."),
        (Place("a/b.py"), "Of the module as well, in two lines."),
        (Place("a/b.py", "Some.rule"), "Of the method, too."),
    ]
