"""``njit`` where numba is installed, plain Python otherwise: the same results, only slower."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, TypeVar

Function = TypeVar("Function", bound=Callable[..., object])

_numba: Any
try:
    import numba as _numba
except ImportError:
    _numba = None

HAVE_NUMBA = _numba is not None
"""Whether `njit` compiles."""


def njit(function: Function, fastmath: Collection[str] = ()) -> Function:
    """Compile ``function`` on its first call and keep the machine code on disk.

    ``fastmath`` names the liberties LLVM may take with floats; none by default.

    Compiled code runs without the interpreter's lock, so that threads may share its work.

    Where no directory for the machine code can be written to (a read-only installation without a
    home), every process compiles for itself. Without numba the function is returned as it is.
    """
    if not HAVE_NUMBA:
        return function
    options = set(fastmath) if fastmath else False
    try:
        compiled: Function = _numba.njit(cache=True, nogil=True, fastmath=options)(function)
    except RuntimeError:  # "cannot cache function ...: no locator available"
        compiled = _numba.njit(nogil=True, fastmath=options)(function)
    return compiled
