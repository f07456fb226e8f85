"""Compiled loops."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def njit(function: Function, fastmath: Collection[str] = (), *, is_step: bool = False) -> Function:
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
    is_step : bool, default False
        Write the machine code into that of every compiled caller. Such a function takes named
        tuples at no cost; it makes and returns no array, and assigns no slice.
    """
    options: dict[str, Any] = {"nogil": True, "fastmath": set(fastmath) if fastmath else False}
    if is_step:
        options |= {"forceinline": True, "_nrt": False}
    try:
        compiled: Any = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # "cannot cache function ...: no locator available"
        compiled = numba.njit(**options)(function)
    return cast(Function, compiled)
