"""Affine functions below a batch time, all that the bounds in seconds know of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Protocol, runtime_checkable

from instances import InvalidTypeError, InvalidValueError
from instances.batch_time import AffineTime, IterationTime, PiecewiseLinearTime, UnitTime
from instances.validation import as_fraction


class AffineMinorant(NamedTuple):
    """No round is shorter than d0 + d1 * (tokens processed) + d2 * (tokens of the batch).

    The batch is what advances or processes a chunk of its prompt: what is only held may cost more,
    and is not counted. The coefficients are exact.

    Attributes
    ----------
    d0 : Fraction
        Seconds a round, > 0.
    d1 : Fraction
        Seconds a processed token, >= 0.
    d2 : Fraction
        Seconds a KV token of the batch, >= 0.
    """

    d0: Fraction
    d1: Fraction
    d2: Fraction

    def __str__(self) -> str:
        return f"{float(self.d0):.6g} + {float(self.d1):.6g} tokens + {float(self.d2):.6g} resident"


def decimal(value: float) -> Fraction:
    """The number that ``value`` is written as: 0.1 is a tenth."""
    return Fraction(repr(float(value)))


@runtime_checkable
class DeclaresMinorants(Protocol):
    """A batch time that says itself which affine functions its rounds are no shorter than."""

    def minorants(self, memory_limit: int) -> Sequence[tuple[float, float, float]]:
        """Coefficients (d0, d1, d2) as those of `AffineMinorant`, one or more."""


def _lower_hull(points: list[tuple[Fraction, Fraction]]) -> list[tuple[Fraction, Fraction]]:
    hull: list[tuple[Fraction, Fraction]] = []
    for x, y in points:
        while len(hull) > 1:
            (x0, y0), (x1, y1) = hull[-2:]
            if (y1 - y0) * (x - x0) < (y - y0) * (x1 - x0):
                break
            hull.pop()
        hull.append((x, y))
    return hull


def _interpolation(time: PiecewiseLinearTime) -> Callable[[Fraction], Fraction]:
    """`PiecewiseLinearTime.at` in fractions."""
    table = [decimal(one) for one in time.tokens]
    seconds = [decimal(one) for one in time.seconds]

    def at(tokens: Fraction) -> Fraction:
        if tokens <= table[0]:
            return seconds[0]
        right = next((k for k, one in enumerate(table) if one >= tokens), len(table) - 1)
        slope = (seconds[right] - seconds[right - 1]) / (table[right] - table[right - 1])
        return seconds[right] + slope * (tokens - table[right])

    return at


def exact_seconds(batch_time: object) -> Callable[[int, int, int], Fraction] | None:
    """Seconds of a round by tokens processed, resident and only held; None where not known."""
    if type(batch_time) is IterationTime:
        d0, d2 = decimal(batch_time.d0), decimal(batch_time.d1)
        return lambda tokens, resident, held: d0 + d2 * (resident - held)
    if type(batch_time) is PiecewiseLinearTime:
        at, d2 = _interpolation(batch_time), decimal(batch_time.d2)
        return lambda tokens, resident, held: at(Fraction(tokens)) + d2 * resident
    if is_known(batch_time):
        (own,) = affine_minorants(batch_time, 1)
        return lambda tokens, resident, held: own.d0 + own.d1 * tokens + own.d2 * resident
    return None


def _piecewise_linear(time: PiecewiseLinearTime, memory_limit: int) -> list[AffineMinorant]:
    table = [decimal(one) for one in time.tokens]
    at = _interpolation(time)
    d2 = decimal(time.d2)
    low, high = Fraction(1), Fraction(memory_limit)
    places = sorted({low, high, *(one for one in table if low < one < high)})
    hull = _lower_hull([(one, at(one)) for one in places])
    found = [AffineMinorant(hull[0][1], Fraction(0), d2)]
    for (x0, y0), (x1, y1) in itertools.pairwise(hull):
        slope = (y1 - y0) / (x1 - x0)
        if slope > 0 and y0 > slope * x0:
            found.append(AffineMinorant(y0 - slope * x0, slope, d2))
    return found


_KNOWN: dict[type, Callable[[Any, int], list[AffineMinorant]]] = {
    AffineTime: lambda time, limit: [
        AffineMinorant(decimal(time.d0), decimal(time.d1), decimal(time.d2))
    ],
    IterationTime: lambda time, limit: [
        AffineMinorant(decimal(time.d0), Fraction(0), decimal(time.d1))
    ],
    PiecewiseLinearTime: _piecewise_linear,
    UnitTime: lambda time, limit: [AffineMinorant(decimal(time.seconds), Fraction(0), Fraction(0))],
}


def is_known(batch_time: object) -> bool:
    """Whether minorants follow from the definition of a batch time: a subclass's do not."""
    return type(batch_time) in _KNOWN


def has_minorants(batch_time: object) -> bool:
    """Whether `affine_minorants` has any for it, known or declared."""
    return is_known(batch_time) or isinstance(batch_time, DeclaresMinorants)


def _declared(batch_time: DeclaresMinorants, memory_limit: int) -> list[AffineMinorant]:
    found = []
    for d0, d1, d2 in batch_time.minorants(memory_limit):
        found.append(
            AffineMinorant(
                as_fraction(d0, "declared minorant", "d0", above=0),
                as_fraction(d1, "declared minorant", "d1", minimum=0),
                as_fraction(d2, "declared minorant", "d2", minimum=0),
            )
        )
    if not found:
        raise InvalidValueError("batch time", "minorants", found, "are none")
    return found


def affine_minorants(batch_time: object, memory_limit: int) -> tuple[AffineMinorant, ...]:
    """Affine functions that no round of a batch time is shorter than.

    A round that advances or processes anything processes at least one token, and at
    most M: a request processes no more tokens than it holds, and all hold M at most. So it is
    enough to lie below the batch time on ``1 .. M``.

    - `AffineTime`: itself. `UnitTime`: the constant. `IterationTime` counts what advances and not
      what is held, and so does a minorant: itself with its d1 as d2.
    - `PiecewiseLinearTime`: a function of one variable on an interval lies above the lines through
      the edges of the lower convex hull of its kinks and ends, and above its value at the lower
      end, as it does not decrease. Edges that meet the axis at 0 or below are left out (d0 > 0 is
      what the bounds divide by).
    - Another one that has the method of `DeclaresMinorants`: what it declares, on its word.

    Coefficients are taken as the decimals they are written as.

    Parameters
    ----------
    batch_time : BatchTime
        One of the above, exactly: a subclass may compute something else.
    memory_limit : int
        Capacity M, tokens.

    Raises
    ------
    InvalidTypeError
        Another batch time: nothing is known of how short its rounds may be.
    InvalidValueError
        Declared coefficients out of range.
    """
    find = _KNOWN.get(type(batch_time))
    if find is None and isinstance(batch_time, DeclaresMinorants):
        return tuple(_declared(batch_time, memory_limit))
    if find is None:
        names = ", ".join(one.__name__ for one in _KNOWN)
        raise InvalidTypeError(
            None, "batch_time", batch_time, f"has no known affine minorant; those that do: {names}"
        )
    return tuple(find(batch_time, memory_limit))
