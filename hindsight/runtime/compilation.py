"""Compiled loops."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar, cast

import numba
from numba.extending import register_jitable

Function = TypeVar("Function", bound=Callable[..., object])


def njit(function: Function, fastmath: Collection[str] = ()) -> Function:
    """Compile ``function`` on its first call and keep the machine code on disk.

    Compiled code runs without the interpreter's lock, so that threads may share its work. Where no
    directory for the machine code can be written to (a read-only installation without a home),
    every process compiles for itself.

    Parameters
    ----------
    function : Function
        In the subset of Python that numba compiles.
    fastmath : collection of str, optional
        Liberties that LLVM may take with floats; none unless named.
    """
    options = set(fastmath) if fastmath else False
    try:
        compiled: Any = numba.njit(cache=True, nogil=True, fastmath=options)(function)
    except RuntimeError:  # "cannot cache function ...: no locator available"
        compiled = numba.njit(nogil=True, fastmath=options)(function)
    return cast(Function, compiled)


def inner(function: Function) -> Function:
    """Mark a step of compiled loops: a short function that they call, and are compiled with.

    A step is put into the machine code of its callers, so that it may be as short as it reads best.
    It counts no references to the arrays it is given, which would take longer than a short loop: so
    it must neither return an array nor make one (which numba refuses). Called from Python it is
    plain Python.

    Parameters
    ----------
    function : Function
        As for `njit`; returns numbers, or nothing.
    """
    options = {"forceinline": True, "no_cfunc_wrapper": True, "_nrt": False}
    marked: Function = register_jitable(**options)(function)
    return marked
