"""Plugin of pytest: compiled loops run as plain Python, where no index may leave its array.

    PYTHONPATH=tests/support python -m pytest -p interpreted_kernels ...

An index past the end is an error of numpy's then. Here so is a negative one, which numpy and numba
count from the end, unless it is written as a number; and what `numpy.empty` leaves unset is a
number that no result survives. The loops that never ran are listed at the end.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from hindsight.runtime import compilation

NEVER_RAN: set[str] = set()


def _natural(index: Any) -> Any:
    """Return an index that is no number below 0."""
    if isinstance(index, int | np.integer) and index < 0:
        raise IndexError(f"index {index} counts from the end")
    return index


def _unset(shape: Any, dtype: Any = np.float64) -> Any:
    """Return what `numpy.empty` does, with a number in it that stands out."""
    kind = np.dtype(dtype)
    return np.full(shape, np.iinfo(kind).min // 2 if kind.kind == "i" else kind.type(1e30), kind)


class _Checked(ast.NodeTransformer):
    """Send every index through `_natural` and ``np.empty`` to `_unset`."""

    def _check(self, index: Any) -> Any:
        if isinstance(index, ast.Tuple):
            return ast.Tuple([self._check(one) for one in index.elts], index.ctx)
        if isinstance(index, ast.Slice):
            return ast.Slice(self._check(index.lower), self._check(index.upper), index.step)
        if index is None or isinstance(index, ast.Constant | ast.UnaryOp):
            return index
        return ast.Call(ast.Name("_natural", ast.Load()), [index], [])

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        return ast.Subscript(node.value, self._check(node.slice), node.ctx)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        self.generic_visit(node)
        return ast.Name("_unset", ast.Load()) if ast.unparse(node) == "np.empty" else node


def interpreted(function: Callable[..., Any], *_: object, **__: object) -> Callable[..., Any]:
    """Take the place of `njit` and `inner` of `hindsight.runtime.compilation`."""
    code, names = function.__code__, function.__globals__
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    (definition,) = tree.body
    assert isinstance(definition, ast.FunctionDef)
    definition.decorator_list = []
    definition.body = [_Checked().visit(one) for one in definition.body]
    ast.increment_lineno(ast.fix_missing_locations(tree), code.co_firstlineno - 1)
    names |= {"_natural": _natural, "_unset": _unset}
    made: dict[str, Any] = {}
    exec(compile(tree, code.co_filename, "exec", annotations.compiler_flag), names, made)
    name = f"{function.__module__}.{function.__name__}"
    NEVER_RAN.add(name)

    def run(*arguments: Any) -> Any:
        NEVER_RAN.discard(name)
        return made[function.__name__](*arguments)

    return run


def pytest_configure() -> None:
    """Before any module with loops is imported; hashes overflow on purpose."""
    compilation.njit = interpreted  # type: ignore[assignment]
    compilation.inner = interpreted
    np.seterr(over="ignore")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """List the loops that never ran."""
    for name in sorted(NEVER_RAN):
        terminalreporter.write_line(f"never ran: {name}")
