"""Compilation of loops by numba: options, machine code on disk, and progress reports."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, wraps
from itertools import count
from types import FunctionType
from typing import Any, TypeVar, cast

import numba
import numba.extending
import numpy as np
import numpy.typing as npt
from numba.core import event

from .clock import Clock

Function = TypeVar("Function", bound=Callable[..., object])
Result = TypeVar("Result")

PLAIN_SECONDS = 1.0
"""Seconds that a loop marked `plain_at_first` runs as plain Python before it is compiled: about as
long as its compilation takes."""


def njit(
    function: Function,
    fastmath: Collection[str] = (),
    *,
    is_step: bool = False,
    makes_arrays: bool = False,
) -> Function:
    """Compile ``function`` on its first call and keep the machine code on disk.

    Compiled code releases the GIL, so threads can run it in parallel. If no directory for the
    machine code is writable (a read-only installation without a home directory), every process
    compiles the function again.

    Parameters
    ----------
    function : Function
        A function in the subset of Python that numba compiles.
    fastmath : collection of str, optional
        LLVM fast-math flags; none by default.
    is_step : bool, default False
        Whether to inline the function into each compiled caller. Named tuples can be passed to an
        inlined function at no cost.
    makes_arrays : bool, default False
        Whether the function creates or returns arrays. Other functions are compiled without
        reference counts of arrays: they compile in less time and run faster.
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
    except RuntimeError:  # "cannot cache function ...: no locator available"
        compiled = numba.njit(**options)(function)
    index = _index(compiled)
    if index is not None:
        index._load_index = known_here(index._load_index)
    return cast(Function, compiled)


def known_here(load: Callable[[], dict[Any, Any]]) -> Callable[[], dict[Any, Any]]:
    """Wrap ``load`` to return an empty cache index if another version of the package wrote it.

    numba unpickles the argument types before it checks that the source is unchanged, and the
    module of a type may no longer exist.
    """

    def loaded() -> dict[Any, Any]:
        try:
            return load()
        except (ImportError, AttributeError):
            return {}

    return loaded


def step(function: Function) -> Function:
    """Inline ``function`` into each compiled caller, see `njit`."""
    return njit(function, is_step=True)


def inner(function: Function) -> Function:
    """Compile ``function`` for compiled callers only, without a Python wrapper.

    The wrapper's code to unpack named tuples of arrays takes about as long to compile as a loop.
    Python code that calls the function runs it uncompiled. Integer literals in calls have the type
    int64 here; `njit` would compile ``f(0)`` separately.
    """
    compiles = numba.extending.register_jitable(_nrt=False, no_cpython_wrapper=True)
    return compiles(function)


def plain_at_first(function: Function) -> Function:
    """Compile ``function``, but only after it has run as plain Python for `PLAIN_SECONDS`.

    So the first bounds do not wait for the compiler. If there is machine code in the process or on
    disk, it is used at once. Use this only for loops with the same result in both ways: loops over
    integers, or with sums in a fixed order.
    """
    compiled, spent = njit(function, makes_arrays=True), 0.0

    @wraps(function)
    def run(*arguments: Any) -> Any:
        nonlocal spent
        if spent >= PLAIN_SECONDS or is_compiled(compiled):
            return compiled(*arguments)
        clock = Clock()
        try:
            return plain(compiled)(*arguments)
        finally:
            spent += clock.seconds()

    run.py_func = function  # type: ignore[attr-defined]
    return cast(Function, run)


@cache
def plain(loop: Any) -> Any:
    """Return the uncompiled Python function of a loop, which calls other loops uncompiled too."""
    function = getattr(loop, "py_func", None)
    if function is None:
        return loop
    known = dict(function.__globals__)
    for name in function.__code__.co_names:
        if hasattr(known.get(name), "py_func"):
            known[name] = plain(known[name])
    return FunctionType(function.__code__, known, function.__name__, function.__defaults__)


def _index(loop: Any) -> Any:
    """Return numba's cache index of a loop on disk, or None if the loop is not cached."""
    # numba has no public function for it.
    return getattr(getattr(loop, "_cache", None), "_cache_file", None)


def is_compiled(loop: Any) -> bool:
    """Return whether machine code of a loop is in this process or on disk."""
    index = _index(loop)
    return bool(getattr(loop, "signatures", True) or (index and index._load_index()))


class _Compilations(event.Listener):
    """Report each compilation, and pause the garbage collector meanwhile.

    The collector would take an eighth of the time and free almost nothing, as nearly all objects
    are in use. If a loop calls another loop, compiling both counts as one compilation. numba holds
    a lock during a compilation, so only one thread at a time calls these methods.

    Attributes
    ----------
    callbacks : list[Callable[[str, float or None], object]]
        Called with the name of the loop and None at the start of its compilation, and with its name
        and the seconds taken at the end.
    """

    def __init__(self) -> None:
        self.callbacks: list[Callable[[str, float | None], object]] = []
        self._depth, self._collects, self._clock = 0, False, Clock()

    def on_start(self, event: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            self._collects, self._clock = gc.isenabled(), Clock()
            gc.disable()
            self._report(event, None)

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            if self._collects:
                gc.enable()
            self._report(event, self._clock.seconds())

    def _report(self, event: Any, seconds: float | None) -> None:
        function = event.data["dispatcher"].py_func
        for callback in self.callbacks:
            callback(f"{function.__module__}.{function.__name__}", seconds)


_compilations = _Compilations()
event.register("numba:compile", _compilations)  # type: ignore[no-untyped-call]


@contextmanager
def reported_compilations(callback: Callable[[str, float | None], object]) -> Iterator[None]:
    """Call ``callback`` at the start and the end of each compilation in the ``with`` block.

    The callback gets the full name of the loop, and None at the start or the seconds taken at the
    end. A loop whose machine code is on disk is not compiled.
    """
    _compilations.callbacks.append(callback)
    try:
        yield
    finally:
        _compilations.callbacks.remove(callback)


def tells_of_compiling(function: Callable[..., Result]) -> Callable[..., Result]:
    """Make a function call its ``progress`` also before and after each compilation of a loop.

    Before, ``progress`` gets its latest report again with the phase "compiling loop 1 (once)".
    After, it gets its latest report unchanged.
    """

    @wraps(function)
    def reporting(*arguments: Any, progress: Any = None, **options: Any) -> Result:
        latest: deque[Any] = deque(maxlen=1)
        numbers = count(1)

        def follow(news: Any) -> Any:
            latest.append(news)
            return progress(news)

        def report(name: str, seconds: float | None) -> None:
            changes = {"phase": f"compiling loop {next(numbers)} (once)"} if seconds is None else {}
            for news in tuple(latest):
                progress(replace(news, **changes))

        with reported_compilations(report):
            return function(*arguments, progress=progress and follow, **options)

    return reporting


@step
def overwrite(target: npt.NDArray[np.generic], source: npt.NDArray[np.generic]) -> None:
    """Copy a one-dimensional array into another one of the same length.

    For ``target[:] = source`` numba would also compile its error message, which takes two seconds.
    """
    for k in range(len(source)):
        target[k] = source[k]


@step
def largest(values: npt.NDArray[Any]) -> Any:
    """Return the maximum of a one-dimensional array; numba's own takes longer to compile."""
    most = values[0]
    for k in range(1, len(values)):
        most = max(most, values[k])
    return most
