"""Compiled loops."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def njit(function: Function, fastmath: Collection[str] = (), *, is_step: bool = False) -> Function:
    """Compile ``function`` on its first call and keep the machine code on disk.

    Compiled code releases the interpreter's lock, so threads can share its work. If no directory
    for the machine code is writable (a read-only installation without a home directory), every
    process compiles for itself.

    Parameters
    ----------
    function : Function
        A function in the subset of Python that numba compiles.
    fastmath : collection of str, optional
        Floating-point liberties for LLVM; none by default.
    is_step : bool, default False
        Whether to compile the function into each compiled caller. Such a function takes named
        tuples at no cost; it must not create or return arrays, or assign slices.
    """
    options: dict[str, Any] = {"nogil": True, "fastmath": set(fastmath) if fastmath else False}
    if is_step:
        options |= {"forceinline": True, "_nrt": False}
    try:
        compiled: Any = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # "cannot cache function ...: no locator available"
        compiled = numba.njit(**options)(function)
    return cast(Function, compiled)
