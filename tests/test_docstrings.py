"""Docstrings name the parameters that there are; ruff's rules hold their form."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("instances", "hindsight", "online")
SECTION = re.compile(
    r"^Parameters\n-{10}\n(?P<entries>.*?)(?=^[A-Z][a-z]+\n-{4,}$|\Z)", re.M | re.S
)
ENTRY = re.compile(r"^(?P<names>\*{0,2}\w+(?:, \*{0,2}\w+)*) : \S")
ELSEWHERE = "parameters and errors are those of"
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def documented(docstring: str) -> set[str] | None:
    """Names in the section Parameters; None without one."""
    section = SECTION.search(docstring)
    if section is None:
        return None
    names: list[str] = []
    for line in section["entries"].splitlines():
        if line and not line.startswith(" "):
            entry = ENTRY.match(line)
            assert entry, f"no entry of numpydoc's form: {line}"
            names.extend(name.lstrip("*") for name in entry["names"].split(", "))
    assert len(names) == len(set(names)), f"twice: {names}"
    return set(names)


def taken(function: ast.FunctionDef | ast.AsyncFunctionDef) -> set[str]:
    """Names of its parameters; a generator's stream is drawn from by `generate`, not given."""
    arguments = function.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    names = {argument.arg for argument in every} - {"self", "cls"}
    if any("register_generator" in ast.unparse(one) for one in function.decorator_list):
        names.discard("rng")
    return names


def public(body: list[ast.stmt]) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if not node.name.startswith("_"):
                yield node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body)


@pytest.mark.parametrize("package", PACKAGES)
def test_parameters_are_those_of_the_function(package: str) -> None:
    wrong, seen = [], 0
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in public(ast.parse(path.read_text(encoding="utf-8")).body):
            docstring = ast.get_docstring(node) or ""
            names = documented(docstring)
            if names is None or isinstance(node, ast.ClassDef):
                continue
            seen += 1
            there = taken(node)
            if names != there and not (ELSEWHERE in docstring and names <= there):
                wrong.append((path.name, node.name, sorted(names ^ there)))
    assert not wrong
    assert seen > 15


@pytest.mark.parametrize("package", PACKAGES)
def test_parameters_of_a_class_are_taken_by_it(package: str) -> None:
    """Those left out say what they are by name and type, or stand among the attributes."""
    wrong, seen = [], 0
    for path in sorted((ROOT / package).rglob("*.py")):
        for node in public(ast.parse(path.read_text(encoding="utf-8")).body):
            names = documented(ast.get_docstring(node) or "")
            if names is None or not isinstance(node, ast.ClassDef):
                continue
            seen += 1
            makers = [one for one in node.body if isinstance(one, FUNCTIONS)]
            there = next((taken(one) for one in makers if one.name == "__init__"), None)
            if there is None:
                fields = [one.target for one in node.body if isinstance(one, ast.AnnAssign)]
                there = {one.id for one in fields if isinstance(one, ast.Name)}
            if not names <= there:
                wrong.append((path.name, node.name, sorted(names - there)))
    assert not wrong
    assert seen


def test_the_section_is_read() -> None:
    head = "Do.\n\nParameters\n----------\n"
    text = head + "a, b : int\n    Both.\n**c : Any\n    More.\n\nRaises\n------\nE\n"
    assert documented(text) == {"a", "b", "c"}
    assert documented("Do.") is None
    with pytest.raises(AssertionError, match="numpydoc"):
        documented(head + "Infinite at times.\n")
    with pytest.raises(AssertionError, match="twice"):
        documented(head + "a : int\n    One.\na : int\n    Two.\n")
