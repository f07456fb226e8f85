"""Change one token of a room at a time, and show which test suites fail.

A room is a folder or a file. Such a change is a mutant. It is made in a temporary copy of the
checkout. A suite is one argument of pytest, or several joined by '+':

    python scripts/mutants.py online/routers --suite tests/test_policies.py --suite tests/online

A suite kills a mutant if a test fails or if it takes much longer than without the mutant.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import io
import json
import keyword
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer

ROOT = Path(__file__).resolve().parent.parent
TRACKED = ("git", "ls-files", "--cached", "--others", "--exclude-standard")
PRELOADED = ("_pytest", "hypothesis", "networkx", "numba", "pyomo.environ", "scipy.optimize")
"""Modules that are imported once for all suites. None of them is from the checkout."""
MEMORY = 8 * 2**30

SWAPS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "//": "*"}
SWAPS |= {"min": "max", "max": "min", "and": "or", "or": "and", "True": "False", "False": "True"}
SWAPS |= {"0": "1", "1": "2", "2": "3", "if": "if not"}
BINARY = {"+": "-", "-": "+", "*": "+"}
"""Replacements of operators that may also be signs. They are made only behind an operand."""


class Mutant(NamedTuple):
    """A change of a file: the place of one token, the token, and its replacement."""

    file: str
    line: int
    column: int
    old: str
    new: str

    def apply(self, text: str) -> str:
        """Return the text of the file with the token replaced."""
        lines = text.splitlines(keepends=True)
        line, end = lines[self.line - 1], self.column + len(self.old)
        lines[self.line - 1] = line[: self.column] + self.new + line[end:]
        return "".join(lines)


def _left_alone(tree: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Yield the nodes in which no token is replaced: imports, raises, annotations, decorators."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Raise):
            yield node
        parts = [getattr(node, name, None) for name in ("annotation", "returns")]
        yield from (part for part in parts if isinstance(part, ast.expr))
        yield from getattr(node, "decorator_list", [])


def mutants_of(file: str, text: str) -> Iterator[Mutant]:
    """Yield every mutant of a source file."""
    spans = [
        ((node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0))
        for node in _left_alone(ast.parse(text))
    ]
    operand = False
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line, column = token.start
        place = (line, len(token.line[:column].encode()))  # ast counts bytes
        new = SWAPS.get(token.string) or (BINARY.get(token.string) if operand else None)
        if new and not any(first <= place < last for first, last in spans):
            yield Mutant(file, line, column, token.string, new)
        named = token.type in (tokenize.NAME, tokenize.NUMBER, tokenize.STRING)
        operand = token.string in (")", "]") or (named and not keyword.iskeyword(token.string))


def copy_checkout(copy: Path) -> None:
    """Copy the files of the checkout that git does not ignore, and the compiled loops."""
    names = subprocess.run(TRACKED, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    loops = [str(path.relative_to(ROOT)) for path in ROOT.glob("hindsight/**/*.nb[ic]")]
    for name in filter(lambda name: (ROOT / name).is_file(), [*names.splitlines(), *loops]):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name)


def write(copy: Path, file: str, text: str) -> None:
    """Write a source file, and remove files compiled from it."""
    path = copy / file
    path.write_text(text, encoding="utf-8")
    for stale in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        stale.unlink()
    if "compilation import" in text:  # a loop of another file may contain one of this file
        for stale in copy.glob("hindsight/**/*.nb[ic]"):
            stale.unlink()


def run(copy: Path, suite: str, limit: float) -> str:
    """Run a suite in a forked process. Return the first failure, or "hang" after ``limit`` seconds.

    The result is an empty string if all tests pass.
    """
    log, began = copy / "suite.log", time.monotonic()
    child = os.fork()
    if child == 0:
        os.setsid()
        os.chdir(copy)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        for stream in (1, 2):
            os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        sys.path[0] = os.environ["PYTHONPATH"] = str(copy)
        pytest = importlib.import_module("pytest")
        preloaded = "ignore::pytest.PytestAssertRewriteWarning"
        options = ("-xq", "-p", "no:cacheprovider", "-m", "not slow", "-W", preloaded)
        code = int(pytest.main([*options, *suite.split("+")]))
        sys.stdout.flush()
        os._exit(code)
    try:
        while not (ended := os.waitpid(child, os.WNOHANG))[0]:
            if time.monotonic() > began + limit:
                return "hang"
            time.sleep(0.05)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
    failed = [line for line in log.read_text().splitlines() if line.startswith(("FAILED", "ERROR"))]
    return "" if ended[1] == 0 else [*failed, f"ended with status {ended[1]}"][0]


def main(
    room: Annotated[list[str], typer.Argument(metavar="ROOM...", help="Folders or files.")],
    suite: Annotated[list[str], typer.Option(help="Tests to run; may be given repeatedly.")],
    count: Annotated[int, typer.Option(help="Number of mutants.", min=1)] = 60,
    seed: Annotated[int, typer.Option(help="Seed of the draw.", min=0)] = 1,
    out: Annotated[Path | None, typer.Option(help="File for one JSON line per mutant.")] = None,
) -> None:
    """Draw mutants of rooms, run the suites on each, and print which suite kills which mutant."""
    os.environ |= {"CI": "true", "OPENBLAS_NUM_THREADS": "1"}  # CI: the same examples in each run
    for name in PRELOADED:
        importlib.import_module(name)
    found = [path for one in room for path in ([ROOT / one], (ROOT / one).rglob("*.py"))]
    files = sorted({str(p.relative_to(ROOT)) for ps in found for p in ps if p.suffix == ".py"})
    texts = {file: (ROOT / file).read_text(encoding="utf-8") for file in files}
    pool = [mutant for file in files for mutant in mutants_of(file, texts[file])]
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        copy_checkout(copy)
        limits = {}
        for one in suite:
            began = time.monotonic()
            if failure := run(copy, one, 1800):
                sys.exit(f"{one} fails without a mutant: {failure}")
            limits[one] = 30 + 4 * (time.monotonic() - began)
        results: dict[str, dict[str, str]] = {}
        for k in np.random.default_rng(seed).permutation(len(pool))[:count]:
            file, line, column, old, new = mutant = pool[k]
            write(copy, file, mutant.apply(texts[file]))
            killed = {one: run(copy, one, limit) for one, limit in limits.items()}
            write(copy, file, texts[file])
            name = f"{file}:{line}:{column} {old} -> {new}"
            marks = [
                (why if why == "hang" else "killed") if why else "-" for why in killed.values()
            ]
            print(*(f"{mark:<8}" for mark in marks), name, flush=True)
            results[name] = killed
            if out is not None:
                with out.open("a") as lines:
                    lines.write(json.dumps(mutant._asdict() | {"killed": killed}) + "\n")
    for one in suite:
        names = [name for name, killed in results.items() if not killed[one]]
        print(f"\n{one}: kills {len(results) - len(names)} of {len(results)}, not these:")
        print(*names, sep="\n")


if __name__ == "__main__":
    typer.run(main)
