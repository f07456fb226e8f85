"""Compilation of loops by numba: its options, its cache on disk, and reports of it."""

from __future__ import annotations

import gc
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager
from typing import Any, TypeVar, cast

import numba
import numba.extending
import numpy as np
import numpy.typing as npt
from numba.core import event

Function = TypeVar("Function", bound=Callable[..., object])


def njit(
    function: Function,
    fastmath: Collection[str] = (),
    *,
    is_step: bool = False,
    makes_arrays: bool = False,
) -> Function:
    """Compile ``function`` with numba on its first call, and keep the machine code on disk.

    Compiled code releases the GIL, so threads can run it in parallel. If there is no writable
    directory for the machine code (a read-only installation without a home directory), every
    process compiles the function again.

    Parameters
    ----------
    function : Function
        A function in the subset of Python that numba compiles.
    fastmath : collection of str, optional
        LLVM's fast-math flags, which allow inexact rewriting of float operations; none by default.
    is_step : bool, default False
        Whether numba inlines the function into each compiled caller. Passing a named tuple to an
        inlined function costs no time.
    makes_arrays : bool, default False
        Whether the function creates or returns arrays. If not, it is compiled without reference
        counting of arrays: it then compiles in less time and runs faster.
    """
    options: dict[str, Any] = {
        "nogil": True,
        "no_cfunc_wrapper": True,
        "fastmath": set(fastmath),
        "inline": "always" if is_step else "never",
        "_nrt": makes_arrays,
    }
    try:
        compiled: Any = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # numba found no writable directory for the machine code: do not keep it
        compiled = numba.njit(**options)(function)
    index = _index(compiled)
    if index is not None:
        index._load_index = known_here(index._load_index)
    return cast(Function, compiled)


def known_here(load: Callable[[], dict[Any, Any]]) -> Callable[[], dict[Any, Any]]:
    """Wrap ``load``, which reads numba's cache index of a function, to ignore an outdated index.

    numba keeps an index of the compiled versions of a function on disk, by argument types. It
    unpickles the index before it checks that the source is unchanged. If another version of this
    package wrote the index, the module of an argument type may no longer exist, and unpickling
    fails. Then the wrapped ``load`` returns an empty index, and numba compiles the function again.
    """

    def loaded() -> dict[Any, Any]:
        try:
            return load()
        except (ImportError, AttributeError):
            return {}

    return loaded


def step(function: Function) -> Function:
    """Compile ``function`` with numba and inline it into each compiled caller.

    `njit` describes the other options of the compilation.
    """
    return njit(function, is_step=True)


def inner(function: Function) -> Function:
    """Compile ``function`` for compiled callers only. Python callers run it uncompiled.

    numba then makes no Python wrapper for ``function``. Such a wrapper unpacks the arguments of a
    call from Python. For named tuples of arrays, compiling the wrapper takes about as long as
    compiling the function. In calls such as ``f(0)`` the literal has the type int64. With `njit`
    numba would compile a separate version of ``f`` for the literal.
    """
    compiles = numba.extending.register_jitable(_nrt=False, no_cpython_wrapper=True)
    return compiles(function)


def plain(loop: Any) -> Any:
    """Return the Python function from which ``loop`` was compiled.

    ``loop`` must not call other compiled functions.
    """
    return getattr(loop, "py_func", loop)


def _index(loop: Any) -> Any:
    """Return the object with which numba finds the machine code of a compiled function on disk.

    Return None if numba does not keep machine code of the function on disk.
    """
    # numba has no public function that returns the cache index.
    return getattr(getattr(loop, "_cache", None), "_cache_file", None)


class _Compilations(event.Listener):
    """Listener that reports each compilation by numba, and pauses garbage collection during it.

    The garbage collector would take an eighth of the compilation's time and free almost nothing, as
    nearly all objects are in use. If a compiled function calls another one, compiling both counts
    as one compilation. numba holds a lock during a compilation, so only one thread at a time calls
    the methods of this listener.
    """

    def __init__(self, callback: Callable[[str, bool], object]) -> None:
        self._callback, self._depth, self._collects = callback, 0, False

    def on_start(self, event: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            self._collects = gc.isenabled()
            gc.disable()
            self._report(event, is_ready=False)

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            if self._collects:
                gc.enable()
            self._report(event, is_ready=True)

    def _report(self, event: Any, *, is_ready: bool) -> None:
        function = event.data["dispatcher"].py_func
        self._callback(f"{function.__module__}.{function.__name__}", is_ready)


def reported_compilations(callback: Callable[[str, bool], object]) -> AbstractContextManager[None]:
    """Call ``callback`` at the start and the end of each compilation in the ``with`` block.

    The arguments of the callback are the full name of the function that numba compiles, and False
    at the start or True at the end. Functions whose machine code is on disk are not compiled, so
    they are not reported.
    """
    return event.install_listener("numba:compile", _Compilations(callback))


@step
def overwrite(target: npt.NDArray[np.generic], source: npt.NDArray[np.generic]) -> None:
    """Copy the one-dimensional array ``source`` into ``target``, which has the same length.

    This replaces ``target[:] = source`` in functions that numba compiles. For that statement numba
    also compiles the formatting of an error message, which takes two seconds.
    """
    for k in range(len(source)):
        target[k] = source[k]
