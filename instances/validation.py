"""Turning user input into plain integers, refusing whatever is not one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .errors import InvalidTypeError, InvalidValueError

LARGEST_INTEGER = 2**53
"""Times above this would not survive a float or a JSON reader unchanged."""

LARGEST_TOKEN_COUNT = 2**31 - 1
"""Above this, sums over requests of tokens and volumes could leave 64-bit integers."""


def as_flag(value: Any, owner: str | None, field: str) -> bool:
    """``value`` if it is True or False.

    Raises
    ------
    InvalidTypeError: anything else: the text ``"False"`` would count as true.
    """
    if not isinstance(value, bool):
        raise InvalidTypeError(owner, field, value, "is neither True nor False")
    return value


def as_integer(
    value: Any, owner: str | None, field: str, *, minimum: int, maximum: int = LARGEST_INTEGER
) -> int:
    """Return ``value`` as a Python int in ``minimum .. maximum``.

    Raises
    ------
    InvalidTypeError: not an integer (a bool, a string, a float with a fractional part or not).
    InvalidValueError: NaN, infinite, or out of range.
    """
    if isinstance(value, (bool, np.bool_)):
        raise InvalidTypeError(owner, field, value, "is a boolean, not a whole number")
    if isinstance(value, (float, np.floating)):
        if not math.isfinite(value):
            raise InvalidValueError(owner, field, float(value), "is not a finite number")
        raise InvalidTypeError(owner, field, float(value), "is a float; whole numbers only")
    if not isinstance(value, (int, np.integer)):
        raise InvalidTypeError(owner, field, value, "is not a whole number")
    number = int(value)
    if number < minimum:
        raise InvalidValueError(owner, field, number, f"is below {minimum}")
    if number > maximum:
        raise InvalidValueError(owner, field, number, f"is above {maximum}")
    return number


def as_number(
    value: Any,
    owner: str | None,
    field: str,
    *,
    minimum: float = -math.inf,
    above: float = -math.inf,
    below: float = math.inf,
) -> float:
    """Return ``value`` as a finite float, >= ``minimum``, > ``above`` and < ``below``.

    Raises
    ------
    InvalidTypeError: not a number, or a bool.
    InvalidValueError: NaN, infinite, or out of range.
    """
    if isinstance(value, (bool, np.bool_)) or not isinstance(
        value, (int, float, np.integer, np.floating)
    ):
        raise InvalidTypeError(owner, field, value, "is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidValueError(owner, field, value, "is not a finite number")
    if number < minimum:
        raise InvalidValueError(owner, field, value, f"is below {minimum:g}")
    if number <= above:
        raise InvalidValueError(owner, field, value, f"is not above {above:g}")
    if number >= below:
        raise InvalidValueError(owner, field, value, f"is not below {below:g}")
    return number
