"""Docstrings name the parameters that there are; ruff's rules hold their form."""

from __future__ import annotations

import inspect
import pkgutil
import re
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

SECTION = re.compile(
    r"^Parameters\n-{10}\n(?P<entries>.*?)(?=^[A-Z][a-z]+\n-{4,}$|\Z)", re.M | re.S
)
ENTRY = re.compile(r"^(?P<names>\*{0,2}\w+(?:, \*{0,2}\w+)*) : \S")
ELSEWHERE = "parameters and errors are those of"


def documented(thing: Any) -> set[str] | None:
    """Names in the section Parameters; None without one."""
    section = SECTION.search(inspect.cleandoc(thing.__doc__ or ""))
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


def members(owner: Any, module: str) -> Iterator[Any]:
    """Public functions and classes that a module defines, and the methods of these classes."""
    for name, thing in vars(owner).items():
        thing = getattr(thing, "__func__", getattr(thing, "py_func", thing))  # of a compiled loop
        thing = inspect.unwrap(thing)
        is_here = getattr(thing, "__module__", "") == module and not name.startswith("_")
        if is_here and (inspect.isfunction(thing) or inspect.isclass(thing)):
            yield thing
            if inspect.isclass(thing):
                yield from members(thing, module)


@pytest.mark.parametrize("package", ["instances", "hindsight", "online"])
def test_parameters_are_those_of_the_function_or_class(package: str) -> None:
    wrong, seen = [], Counter[bool]()
    for one in pkgutil.walk_packages(import_module(package).__path__, f"{package}."):
        if one.name.startswith("online.bridges."):
            continue  # needs vLLM
        for thing in members(import_module(one.name), one.name):
            names = documented(thing)
            if names is None:
                continue
            seen[inspect.isclass(thing)] += 1
            there = {*inspect.signature(thing).parameters} - {"self", "cls", "rng"}
            of_another = inspect.isclass(thing) or ELSEWHERE in (thing.__doc__ or "")
            odd = names - {"rng"} - there if of_another else (names - {"rng"}) ^ there
            if odd:
                wrong.append((thing.__module__, thing.__qualname__, sorted(odd)))
    assert not wrong
    assert min(seen[True], seen[False]) > 15
