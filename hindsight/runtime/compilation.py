"""Compiled loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def njit(function: Function) -> Function:
    """Compile ``function`` on its first call and keep the machine code on disk.

    Compiled code runs without the interpreter's lock, so that threads may share its work. Where no
    directory for the machine code can be written to (a read-only installation without a home),
    every process compiles for itself.
    """
    try:
        compiled: Any = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # "cannot cache function ...: no locator available"
        compiled = numba.njit(nogil=True)(function)
    return cast(Function, compiled)
