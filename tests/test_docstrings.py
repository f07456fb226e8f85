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
Documented = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


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


def public(body: list[ast.stmt]) -> Iterator[Documented]:
    for node in body:
        if isinstance(node, Documented):
            if not node.name.startswith("_"):
                yield node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body)


def refusals(node: Documented, names: set[str], classes: dict[str, ast.ClassDef]) -> list[str]:
    """Names documented and not taken, or of a function taken and not documented."""
    docstring = ast.get_docstring(node) or ""
    if not isinstance(node, ast.ClassDef):
        there = taken(node)
        of_another = ELSEWHERE in docstring and names <= there
        return [] if of_another else sorted(names ^ there)
    # Those left out say what they are by name and type, or stand among the attributes.
    makers = [one for one in node.body if isinstance(one, FUNCTIONS) and one.name == "__init__"]
    # A generator takes the fields of its bases too.
    family = [node]
    for one in family:
        names_of_bases = [base.id for base in one.bases if isinstance(base, ast.Name)]
        family += [classes[name] for name in names_of_bases if name in classes]
    body = [line for one in family for line in one.body]
    fields = [one.target for one in body if isinstance(one, ast.AnnAssign)]
    there = {one.id for one in fields if isinstance(one, ast.Name)}
    return sorted(names - (taken(makers[0]) if makers else there))


@pytest.mark.parametrize("package", PACKAGES)
def test_parameters_are_those_of_the_function_or_class(package: str) -> None:
    wrong, seen = [], {True: 0, False: 0}
    paths = sorted((ROOT / package).rglob("*.py"))
    bodies = {path: ast.parse(path.read_text(encoding="utf-8")).body for path in paths}
    classes = {
        one.name: one for body in bodies.values() for one in body if isinstance(one, ast.ClassDef)
    }
    for path, body in bodies.items():
        for node in public(body):
            names = documented(ast.get_docstring(node) or "")
            if names is not None:
                seen[isinstance(node, ast.ClassDef)] += 1
                if found := refusals(node, names, classes):
                    wrong.append((path.name, node.name, found))
    assert not wrong
    assert seen[True]
    assert seen[False] > 15
