"""Turning user input into plain Python values, refusing whatever is not one.

Everything that takes a number from outside checks it here, so that NumPy's scalars, fractions, huge
integers, NaN, infinities and booleans are treated alike everywhere. So does what takes a name.
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
"""Times above this would not survive a float or a JSON reader unchanged."""

LARGEST_TOKEN_COUNT = 2**31 - 1
"""Above this, sums over requests of tokens and volumes could leave 64-bit integers."""

NO_NUMBERS = (bool, np.bool_, np.timedelta64)
"""Registered as numbers by Python or NumPy, and none here."""


def as_flag(value: Any, owner: str | None, field: str) -> bool:
    """``value`` if it is True or False.

    Raises
    ------
    InvalidTypeError
        Anything else: the text ``"False"`` would count as true.
    """
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidTypeError(owner, field, value, "is neither True nor False")
    return bool(value)


def as_integer(
    value: Any, owner: str | None, field: str, *, minimum: int, maximum: int = LARGEST_INTEGER
) -> int:
    """Return ``value`` as a Python int in ``minimum .. maximum``.

    Raises
    ------
    InvalidTypeError
        Not an integer (a bool, a string, a float with a fractional part or not).
    InvalidValueError
        Out of range.
    """
    # Nearly every value there is is an int; asking an abstract class takes ten times as long.
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
"""Bounds of `as_number` by name: what a number does that keeps one, and is otherwise."""


def as_number(value: Any, owner: str | None, field: str, **bounds: float) -> float:
    """Return ``value`` as a finite float within bounds, which have the names of `BOUNDS`.

    Raises
    ------
    InvalidTypeError
        Not a real number, or a bool.
    InvalidValueError
        NaN, infinite or too large for a float, or out of range.
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
    """``value`` exactly, by the rules and errors of `as_number`; 0.1 is a tenth."""
    number = as_number(value, owner, field, **bounds)
    return Fraction(value) if isinstance(value, Rational) else Fraction(str(number))


def decimal(value: float) -> Fraction:
    """Return the decimal number that ``value`` is written as: 0.1 is a tenth."""
    return Fraction(repr(float(value)))


def as_exact(value: Any, owner: str | None, field: str) -> Fraction:
    """``value``, a whole number or a fraction, in Python's own integers; no float has that claim.

    Raises
    ------
    InvalidTypeError
        Neither, or a bool.
    """
    if not _is(Rational, value):
        raise InvalidTypeError(owner, field, value, "is neither a whole number nor a fraction")
    return Fraction(int(value.numerator), int(value.denominator))


def as_time_limit(value: Any, owner: str | None = None, field: str = "time_limit") -> float | None:
    """Seconds >= 0 as a float, or None for no limit.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        Neither.
    """
    return None if value is None else as_number(value, owner, field, minimum=0)


def set_fields(record: object, **values: Any) -> None:
    """Give a frozen dataclass its fields as they came out of their checks."""
    for field, value in values.items():
        object.__setattr__(record, field, value)


def as_choice(value: Any, owner: str | None, field: str, known: Sequence[str]) -> None:
    """Refuse what is not one of the words ``known``.

    Raises
    ------
    InvalidValueError
        It is another value.
    """
    if value not in known:
        raise InvalidValueError(owner, field, value, f"is not one of {', '.join(known)}")


def ranged(default: Any = dataclasses.MISSING, **bounds: float) -> Any:
    """A number of a dataclass of parameters: its default, and the bounds that `check_ranges` asks.

    Parameters
    ----------
    default : Any, optional
        Its value; none unless given.
    **bounds : float
        Of `as_integer` or `as_number`; of every item of a tuple.
    """
    return dataclasses.field(default=default, metadata={"bounds": bounds})


def chosen(*known: str) -> Any:
    """A word of a dataclass of parameters, for `check_ranges`; the first is the default."""
    return dataclasses.field(default=known[0], metadata={"known": known})


def check_ranges(record: Any, owner: str | None = "") -> None:
    """Check the fields of a dataclass made by `ranged` and `chosen`, and its flags.

    A number is whole or a float as its annotation says; any iterable becomes a tuple where the
    annotation is one.

    Parameters
    ----------
    record : Any
        An instance of the dataclass.
    owner : str or None, default ""
        What errors call it; empty takes the name of its class.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A parameter that is not in its range, or an empty tuple.
    """
    owner = type(record).__name__ if owner == "" else owner
    for one in dataclasses.fields(record):
        value, kind = getattr(record, one.name), str(one.type)
        if "known" in one.metadata:
            as_choice(value, owner, one.name, one.metadata["known"])
        if kind == "bool":
            set_fields(record, **{one.name: as_flag(value, owner, one.name)})
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
    """``value`` if it is a string that can be shown in a line and stored as UTF-8.

    Raises
    ------
    InvalidTypeError
        Not a string.
    InvalidValueError
        It holds a control character, with which a file could rewrite the terminal that shows it, a
        line break, or half of a surrogate pair, which no file can hold.
    """
    if not isinstance(value, str):
        raise InvalidTypeError(owner, field, value, "is not a string")
    if found := CONTROLS.search(value):
        shown = f"U+{ord(found[0]):04X}"
        raise InvalidValueError(owner, field, value, f"holds the control character {shown}")
    return str(value)
