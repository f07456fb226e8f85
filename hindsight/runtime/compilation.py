"""Compiled loops."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar, cast

import numba

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
