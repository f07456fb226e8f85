"""Check user input, and convert it to plain Python values.

All numbers and names from users are checked by this module. So NumPy scalars, fractions, huge
integers, NaN, infinities and booleans are treated in the same way everywhere.
"""

from __future__ import annotations

import dataclasses
import math
import operator
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import partial
from numbers import Integral, Rational, Real
from typing import Any

import numpy as np

from .errors import CONTROLS, InvalidTypeError, InvalidValueError

LARGEST_INTEGER = 2**53
"""Limit of times and costs: the largest integer that floats and JSON readers represent exactly."""

LARGEST_TOKEN_COUNT = 2**31 - 1
"""Largest token count. With larger ones, sums over requests could overflow 64-bit integers."""

NO_NUMBERS = (bool, np.bool_, np.timedelta64)
"""Types that count as numbers in Python or NumPy, and are refused as numbers by this module."""


def as_integer(
    value: Any, owner: str | None, field: str, *, minimum: int, maximum: int = LARGEST_INTEGER
) -> int:
    """Return ``value`` as a Python int in ``minimum .. maximum``.

    Raises
    ------
    InvalidTypeError
        The value is not an integer: a bool, a string, or a float, even one such as 2.0.
    InvalidValueError
        The value is out of range.
    """
    # Test for the type int first, the usual case. A test for `Integral` takes ten times as long.
    if type(value) is not int and not _is(Integral, value):
        raise InvalidTypeError(owner, field, value, "is not a whole number")
    number = int(value)
    if number < minimum:
        raise InvalidValueError(owner, field, number, f"is below {minimum}")
    if number > maximum:
        raise InvalidValueError(owner, field, number, f"is above {maximum}")
    return number


def _is(kind: type, value: Any) -> bool:
    return isinstance(value, kind) and not isinstance(value, NO_NUMBERS)


BOUNDS = {
    "minimum": (operator.ge, "below"),
    "above": (operator.gt, "not above"),
    "maximum": (operator.le, "above"),
    "below": (operator.lt, "not below"),
}
"""Bounds of `as_number` by name: comparison with the bound, and words for the error message."""


def as_number(value: Any, owner: str | None, field: str, **bounds: float) -> float:
    """Return ``value`` as a finite float, checked against bounds such as ``minimum=0``.

    The keywords of bounds are the keys of `BOUNDS`.

    Raises
    ------
    InvalidTypeError
        The value is not a real number, or is a bool.
    InvalidValueError
        The value is NaN, infinite, too large for a float, or out of bounds.
    """
    if not _is(Real, value):
        raise InvalidTypeError(owner, field, value, "is not a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InvalidValueError(owner, field, value, "is not a finite number")
    for name, bound in bounds.items():
        keeps, otherwise = BOUNDS[name]
        if not keeps(number, bound):
            raise InvalidValueError(owner, field, value, f"is {otherwise} {bound:g}")
    return number


def as_fraction(value: Any, owner: str | None, field: str, **bounds: float) -> Fraction:
    """Return ``value`` as an exact fraction; the float 0.1 becomes 1/10.

    Bounds and errors are those of `as_number`.
    """
    number = as_number(value, owner, field, **bounds)
    return Fraction(value) if isinstance(value, Rational) else Fraction(str(number))


def decimal(value: float) -> Fraction:
    """Return the shortest decimal that rounds to a float, as a fraction: 0.1 becomes 1/10."""
    return Fraction(repr(float(value)))


def as_exact(value: Any, owner: str | None, field: str) -> Fraction:
    """Return a whole number or a fraction as `Fraction`. Floats are refused, as they are rounded.

    Raises
    ------
    InvalidTypeError
        The value is neither a whole number nor a fraction, or is a bool.
    """
    if not _is(Rational, value):
        raise InvalidTypeError(owner, field, value, "is neither a whole number nor a fraction")
    return Fraction(int(value.numerator), int(value.denominator))


def as_time_limit(value: Any, owner: str | None = None, field: str = "time_limit") -> float | None:
    """Return a time limit in seconds >= 0 as a float; None means no limit.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        The value is neither a number >= 0 nor None.
    """
    return None if value is None else as_number(value, owner, field, minimum=0)


def set_fields(record: object, **values: Any) -> None:
    """Set fields of a frozen dataclass, to their checked values, during its construction."""
    for field, value in values.items():
        object.__setattr__(record, field, value)


def as_choice(value: Any, owner: str | None, field: str, known: Sequence[str]) -> None:
    """Raise an error unless ``value`` is one of the words in ``known``.

    Raises
    ------
    InvalidValueError
        The value is not one of them.
    """
    if value not in known:
        raise InvalidValueError(owner, field, value, f"is not one of {', '.join(known)}")


def ranged(default: Any = dataclasses.MISSING, **bounds: float) -> Any:
    """Declare a numeric field of a dataclass, with bounds that `check_ranges` checks.

    Parameters
    ----------
    default : Any, optional
        Default value of the field; without it the field is required.
    **bounds : float
        Bounds of the number, or of every item of a tuple: ``minimum``, ``above``, ``maximum`` or
        ``below``.
    """
    return dataclasses.field(default=default, metadata={"bounds": bounds})


def chosen(*known: str) -> Any:
    """Declare a dataclass field that must be one of the words ``known``; the first is the default.

    `check_ranges` checks the field.
    """
    return dataclasses.field(default=known[0], metadata={"known": known})


def check_ranges(record: Any, owner: str | None = "") -> None:
    """Check the fields of a dataclass object that `ranged` and `chosen` declare, and its bools.

    Numbers are converted to int or float by the annotation of the field. If the annotation is a
    tuple, any iterable is converted to one.

    Parameters
    ----------
    record : Any
        The object; its fields are set to the converted values.
    owner : str or None, default ""
        Name of the object in error messages; empty means the name of its class.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A field has the wrong type or is out of range, or a tuple is empty.
    """
    owner = type(record).__name__ if owner == "" else owner
    for one in dataclasses.fields(record):
        value, kind = getattr(record, one.name), str(one.type)
        if "known" in one.metadata:
            as_choice(value, owner, one.name, one.metadata["known"])
        if kind == "bool":
            if not isinstance(value, (bool, np.bool_)):
                raise InvalidTypeError(owner, one.name, value, "is neither True nor False")
            set_fields(record, **{one.name: bool(value)})
        if "bounds" not in one.metadata or (value is None and "None" in kind):
            continue
        number: Any = as_number if "float" in kind else as_integer
        check = partial(number, owner=owner, field=one.name, **one.metadata["bounds"])
        if kind.startswith("tuple"):
            if not isinstance(value, Iterable) or not (value := tuple(value)):
                raise InvalidTypeError(owner, one.name, value, "is not a list of numbers")
            set_fields(record, **{one.name: tuple(map(check, value))})
        else:
            set_fields(record, **{one.name: check(value)})


def as_name(value: Any, owner: str | None, field: str) -> str:
    """Return ``value`` if it is a string that fits in one line and can be stored as UTF-8.

    Raises
    ------
    InvalidTypeError
        The value is not a string.
    InvalidValueError
        The value has a line break, a control character (which could rewrite the terminal that shows
        it), or a lone surrogate (which UTF-8 cannot encode).
    """
    if not isinstance(value, str):
        raise InvalidTypeError(owner, field, value, "is not a string")
    if found := CONTROLS.search(value):
        shown = f"U+{ord(found[0]):04X}"
        raise InvalidValueError(owner, field, value, f"holds the control character {shown}")
    return str(value)
