"""Imports run one way, ``instances <- hindsight <- online <- scripts``, and stay light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("instances", "hindsight", "online", "scripts")
SHARED = {
    path.stem for part in ("oracles", "support") for path in (ROOT / "tests" / part).glob("*.py")
}
SOLVERS = {"pyomo", "highspy", "pulp", "ortools", "gurobipy", "cplex"}
EXTRAS = (
    *("dask", "distributed", "matplotlib", "pandas", "rich", "typer"),
    *("hypothesis", "pytest"),
)


def source_files(layer: str) -> list[Path]:
    return sorted((ROOT / layer).rglob("*.py"))


@cache
def imported_modules(
    path: Path, walk: Callable[[ast.AST], Iterable[ast.AST]] = ast.walk
) -> list[tuple[int, str]]:
    """Line and absolute name of everything a file imports in the nodes that are walked."""
    package = path.relative_to(ROOT).with_suffix("").parts[:-1]
    found = []
    for node in walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found.append((node.lineno, alias.name))
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            stem = ".".join([*base, *([node.module] if node.module else [])])
            # "from . import x" and "from pyomo import environ" name a module after "import".
            for alias in node.names:
                found.append((node.lineno, f"{stem}.{alias.name}".strip(".")))
        elif isinstance(node, ast.Call) and node.args:
            function = node.func
            called = getattr(function, "attr", getattr(function, "id", ""))
            first = node.args[0]
            if called in {"import_module", "__import__"} and isinstance(first, ast.Constant):
                found.append((node.lineno, str(first.value)))
    return found


def offences(path: Path, banned: set[str]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line} imports {module}"
        for line, module in imported_modules(path)
        if module.split(".")[0] in banned
    ]


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_only_those_before_it(layer: str) -> None:
    banned = {*LAYERS[LAYERS.index(layer) + 1 :], "tests", *SHARED}
    assert [found for path in source_files(layer) for found in offences(path, banned)] == []


def test_only_the_command_and_the_scripts_import_subcommands() -> None:
    rooms = [path for layer in LAYERS[:-1] for path in source_files(layer)]
    assert [
        f"{path.relative_to(ROOT)}:{line}"
        for path in rooms
        if path.parent.name != "commands"
        for line, module in imported_modules(path)
        if module.startswith("online.commands")
    ] == []


def test_only_the_bridges_import_engines() -> None:
    files = [path for layer in LAYERS[:-1] for path in source_files(layer)]
    found = {path for path in files if offences(path, {"vllm", "torch"})}
    assert found == {ROOT / "online/bridges" / name for name in ("vllm.py", "vllm_metrics.py")}


def test_instances_never_reach_for_a_solver() -> None:
    found = [text for path in source_files("instances") for text in offences(path, SOLVERS)]
    assert found == []


def executed_on_import(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when a module is loaded: no bodies of functions, nothing for types."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from executed_on_import(node)


@cache
def file_behind(name: str) -> Path | None:
    """The file of the longest part of a dotted name that is a module of the project."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        stem = ROOT.joinpath(*parts[:length])
        for path in (stem.with_suffix(".py"), stem / "__init__.py"):
            if path.is_file():
                return path
    return None


def imports_between(
    paths: Iterable[Path], walk: Callable[[ast.AST], Iterable[ast.AST]], of: Callable[[Path], Path]
) -> dict[Path, set[Path]]:
    """Who imports whom, where ``of`` is what stands for a file: the file itself, or its room.

    The face of a whole package imports from all of its rooms and is left out as an importer.
    """
    graph: dict[Path, set[Path]] = {}
    for path in paths:
        if path.name == "__init__.py" and path.parent.parent == ROOT:
            continue
        for _, name in imported_modules(path, walk=walk):
            target = file_behind(name) if name.split(".")[0] in LAYERS else None
            if target is not None and of(target) != of(path):
                graph.setdefault(of(path), set()).add(of(target))
    return graph


def circle(graph: dict[Path, set[Path]]) -> list[str]:
    """One circle of the graph, empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return [str(path.relative_to(ROOT)) for path in error.args[1]]
    return []


@pytest.mark.parametrize("of", [Path.absolute, lambda path: path.parent], ids=["files", "rooms"])
@pytest.mark.parametrize("walk", [executed_on_import, ast.walk], ids=["on-import", "ever"])
def test_no_circle(
    walk: Callable[[ast.AST], Iterable[ast.AST]], of: Callable[[Path], Path]
) -> None:
    paths = [path for layer in LAYERS for path in source_files(layer)]
    assert circle(imports_between(paths, walk, of)) == []


@pytest.mark.parametrize("layer", LAYERS[:-1])
def test_no_module_of_a_package_imports_its_face(layer: str) -> None:
    """The face imports the modules: a module that imports it gets half of it."""
    face = ROOT / layer / "__init__.py"
    assert [
        f"{path.relative_to(ROOT)}:{line}"
        for path in source_files(layer)
        for line, name in imported_modules(path, walk=executed_on_import)
        if path != face and name.split(".")[0] == layer and file_behind(name) == face
    ] == []


def test_the_faces_of_hindsight_load_nothing() -> None:
    """What needs no solver, the certificate checker above all, comes without one."""
    faces = list((ROOT / "hindsight").glob("*/**/__init__.py"))
    assert faces
    for face in faces:
        (docstring,) = ast.parse(face.read_text("utf-8")).body
        assert isinstance(docstring, ast.Expr), face


@pytest.mark.parametrize("layer", LAYERS[:-1])
def test_no_module_is_called_as_a_public_name(layer: str) -> None:
    """After ``hindsight/solve.py`` is loaded, ``hindsight.solve`` would be that module."""
    inside = {path.stem for path in (ROOT / layer).iterdir()}
    assert inside & set(__import__(layer).__all__) == set()


ONE = "instances.Instance.from_arrays([1, 2], [3, 1], memory_limit=8)"
FRESH = {
    # Imported first, and what must not be loaded then.
    "llm_hindsight": {*EXTRAS, "instances", "numpy", "online"},
    "online": {*SOLVERS, "hindsight", "numba"},
}
MISSING = {
    # Works where these are not installed.
    "import hindsight": EXTRAS,
    f"import instances, online; online.simulate({ONE}, 'mc-sf')": (*EXTRAS, *sorted(SOLVERS)),
}


@pytest.mark.parametrize(
    "code",
    [
        *(
            f"import sys, {name}; assert not {{*{sorted(banned)}}} & {{*sys.modules}}"
            for name, banned in FRESH.items()
        ),
        *(
            f"import sys; sys.modules.update(dict.fromkeys({names!r})); {code}"
            for code, names in MISSING.items()
        ),
    ],
)
def test_in_a_new_interpreter(code: str) -> None:
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
