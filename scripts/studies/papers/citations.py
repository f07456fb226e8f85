"""Citations of the papers in docstrings and comments, each with the place that makes it.

A citation is the paper in brackets and then words and numbers: after ``[A25]``, for instance,
``Example 2, Proposition 3``; or ``Theorems 4.2, 4.3``, ``Equations (1)-(4)``, ``Section EC.1``.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from studies.reproduction.paper_items import PAPERS

_PLURALS = {"Corollary": "Corollaries", "Appendix": "Appendices"}
KINDS = (
    *("Theorem", "Lemma", "Proposition", "Corollary", "Claim", "Definition", "Algorithm"),
    *("Equation", "Example", "Table", "Figure", "Section", "Appendix"),
)
_SINGULAR = {form: kind for kind in KINDS for form in (kind, _PLURALS.get(kind, f"{kind}s"))}
_NUMBER = r"(?:\(\d+\)|(?:EC\.)?\d+(?:\.\d+)*)"
_JOINT = r"(?:, and |, | and | or | to |-)"
_LIST = rf"{_NUMBER}(?:{_JOINT}{_NUMBER})*"
_WORDS = "|".join(sorted(_SINGULAR, key=len, reverse=True))
_LETTER = r"[A-Z](?:\.\d+)?\b"
_ONE = rf"(?:(?:{_WORDS}) {_LIST}|Appendix {_LETTER})"
_CITATION = re.compile(rf"\[({'|'.join(PAPERS)})\](?:'s)? ({_ONE}(?:(?:, and|,| and| or) {_ONE})*)")
_PART = re.compile(rf"({_WORDS}) ({_LIST}|{_LETTER})")
_NUMBERS = re.compile(rf"({_JOINT})?({_NUMBER}|{_LETTER})")


class Statement(NamedTuple):
    """Numbered item of a paper, e.g. ``("J25", "Theorem", "4.1")``; an equation's is ``"(9)"``."""

    paper: str
    kind: str
    number: str

    @property
    def label(self) -> str:
        """Return the citation without the paper."""
        return f"{self.kind} {self.number}"


@dataclass(frozen=True, order=True)
class Place:
    """A module, class, function or constant.

    Attributes
    ----------
    path : str
        Of the file, relative to the project, with slashes.
    name : str
        Qualified within the file; empty for the file itself.
    registered : str
        The name under which a policy or a generator is known; empty for anything else.
    """

    path: str
    name: str = ""
    registered: str = ""


def cited_statements(text: str) -> list[Statement]:
    """Every statement that a text cites, in its order; ranges are spelled out."""
    found: list[Statement] = []
    for citation in _CITATION.finditer(" ".join(text.split())):
        for part in _PART.finditer(citation[2]):
            numbers: list[str] = []
            for joint, number in _NUMBERS.findall(part[2]):
                if joint in (" to ", "-"):
                    numbers.extend(_between(numbers[-1], number))
                numbers.append(number)
            kind = _SINGULAR[part[1]]
            found.extend(Statement(citation[1], kind, number) for number in numbers)
    return found


def _between(first: str, last: str) -> list[str]:
    inner = "({})" if first.startswith("(") else "{}"
    bounds = int(first.strip("()")), int(last.strip("()"))
    return [inner.format(number) for number in range(bounds[0] + 1, bounds[1])]


def citations(root: Path, folder: str) -> Iterator[tuple[Statement, Place]]:
    """Every citation in the Python files below a folder of the project."""
    for path in sorted((root / folder).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if not any(f"[{paper}]" in source for paper in PAPERS):
            continue
        for place, text in documented(source, path.relative_to(root).as_posix()):
            for statement in cited_statements(text):
                yield statement, place


def documented(source: str, path: str) -> Iterator[tuple[Place, str]]:
    """Docstrings, those of constants too, and blocks of comments, with the place of each."""
    tree = ast.parse(source)
    spans: list[tuple[int, int, Place]] = []
    yield from _docstrings(tree, Place(path), spans)
    for line, comment in _comments(source):
        within = [span for span in spans if span[0] <= line <= span[1]]
        yield (max(within)[2] if within else Place(path)), comment


def _docstrings(
    node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
    place: Place,
    spans: list[tuple[int, int, Place]],
) -> Iterator[tuple[Place, str]]:
    text = ast.get_docstring(node)
    if text:
        yield place, text
    prefix = f"{place.name}." if place.name else ""
    for before, each in zip([None, *node.body], node.body, strict=False):
        if isinstance(each, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            inner = Place(place.path, prefix + each.name, _registered(each))
            spans.append((each.lineno, each.end_lineno or each.lineno, inner))
            yield from _docstrings(each, inner, spans)
        elif isinstance(before, ast.Assign | ast.AnnAssign) and isinstance(each, ast.Expr):
            target = before.target if isinstance(before, ast.AnnAssign) else before.targets[0]
            value = each.value
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                name = next(part.id for part in ast.walk(target) if isinstance(part, ast.Name))
                yield Place(place.path, prefix + name), value.value


def _registered(node: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    for decorator in node.decorator_list:
        if isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Name):
            first = decorator.args[0] if decorator.args else None
            if decorator.func.id.startswith("register_") and isinstance(first, ast.Constant):
                return str(first.value)
    return ""


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """First line and text of each run of comments on lines of their own or behind code."""
    block: list[str] = []
    first = last = -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        if token.start[0] != last + 1 and block:
            yield first, " ".join(block)
            block = []
        if not block:
            first = token.start[0]
        block.append(token.string.lstrip("# "))
        last = token.start[0]
    if block:
        yield first, " ".join(block)
