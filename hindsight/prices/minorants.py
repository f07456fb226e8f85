"""Affine lower bounds on a batch time: all that the bounds in seconds use of it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple, Protocol, runtime_checkable

from instances import InvalidTypeError, InvalidValueError
from instances.arrays import FloatArray, IntArray
from instances.batch_time import TiledTime
from instances.batch_time.exact import coefficients, interpolation
from instances.validation import as_fraction, decimal


class AffineMinorant(NamedTuple):
    """Lower bound d0 + d1 * (tokens processed) + d2 * (KV tokens of the batch) on a round's length.

    The batch is the set of requests that advance or process a chunk of their prompt. Requests that
    are only held may cost more time, which is not counted. The coefficients are exact.

    Attributes
    ----------
    d0 : Fraction
        Seconds per round, > 0.
    d1 : Fraction
        Seconds per processed token, >= 0.
    d2 : Fraction
        Seconds per KV token of the batch, >= 0.
    """

    d0: Fraction
    d1: Fraction
    d2: Fraction

    def __str__(self) -> str:
        return f"{float(self.d0):.6g} + {float(self.d1):.6g} tokens + {float(self.d2):.6g} resident"


def own_seconds(
    prompt: IntArray | FloatArray,
    output: IntArray | FloatArray,
    overhead: float,
    token: float,
    held: float,
) -> FloatArray:
    """Return overhead + token * processed + held * KV tokens, summed over a request's rounds."""
    return (
        output * overhead
        + token * (prompt + output - 1)
        + held * (output * prompt + output * (output + 1) / 2)
    )


@runtime_checkable
class DeclaresMinorants(Protocol):
    """A batch time that declares affine lower bounds on the length of its rounds."""

    def minorants(self, memory_limit: int) -> Sequence[tuple[float, float, float]]:
        """Return one or more triples (d0, d1, d2) of coefficients as in `AffineMinorant`."""


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


def _below(points: list[tuple[Fraction, Fraction]], d2: Fraction) -> list[AffineMinorant]:
    """Return lines of slope >= 0 below all points, each through one or two of the points."""
    found = [AffineMinorant(min(y for _, y in points), Fraction(0), d2)]
    for (x0, y0), (x1, y1) in itertools.pairwise(_lower_hull(points)):
        slope = (y1 - y0) / (x1 - x0)
        if slope > 0 and y0 > slope * x0:
            found.append(AffineMinorant(y0 - slope * x0, slope, d2))
    return found


def _tiled(time: TiledTime, memory_limit: int) -> list[AffineMinorant]:
    at, tile = interpolation(time.tokens, time.seconds), time.tile
    whole = memory_limit // tile * tile
    places = {whole + tile, *(one for one in (tile, *time.tokens, whole) if one <= whole)} - {0}
    kernel = decimal(time.kernel)
    points = [
        (Fraction(min(place, memory_limit)), kernel + at(place))
        for place in sorted(places)
        if place <= whole or whole < memory_limit
    ]
    return _below(points, decimal(time.kv_token))


def is_known(batch_time: object) -> bool:
    """Return whether minorants follow from the batch time's exact class; a subclass may differ."""
    return type(batch_time) is TiledTime or coefficients(batch_time) is not None


def has_minorants(batch_time: object) -> bool:
    """Return whether `affine_minorants` supports a batch time, as known or as declared."""
    return is_known(batch_time) or isinstance(batch_time, DeclaresMinorants)


def _declared(batch_time: DeclaresMinorants, memory_limit: int) -> list[AffineMinorant]:
    owner = "declared minorant"
    found = [
        AffineMinorant(
            as_fraction(d0, owner, "d0", above=0),
            as_fraction(d1, owner, "d1", minimum=0),
            as_fraction(d2, owner, "d2", minimum=0),
        )
        for d0, d1, d2 in batch_time.minorants(memory_limit)
    ]
    if not found:
        raise InvalidValueError("batch time", "minorants", found, "is empty")
    return found


def affine_minorants(batch_time: object, memory_limit: int) -> tuple[AffineMinorant, ...]:
    """Return affine lower bounds on the length of a round by a batch time.

    A round that advances or processes any request processes at least one token, and at most M: a
    request processes no more tokens than it holds, and all hold M at most. So a minorant need only
    lie below the batch time on ``1 .. M``.

    - `AffineTime`: itself. `UnitTime`: the constant. `IterationTime` counts only requests that
      advance, not those held, and so does a minorant: itself with its d1 as d2.
    - `TiledTime`: attention takes at least one kernel, as each request of the batch decodes or
      processes a prompt, and the KV tokens of the batch; squares and products are not counted. In
      a tile the table is constant and no such line falls, so it lies below everywhere
      if it does at the tile's last number of tokens up to M. Between entries those values are
      linear in that number: the entries, the first tile, the last whole one and M are all that
      matter. A function of one variable on an interval lies above the lines through the edges of
      the lower convex hull of its kinks and ends, and above its least value. Edges that meet the
      axis at 0 or below are left out (d0 > 0 is what the bounds divide by).
    - Any other batch time with the method of `DeclaresMinorants`: the minorants it declares,
      without a check.

    Floats count as the decimals they are written as.

    Parameters
    ----------
    batch_time : BatchTime
        One of the classes above, exactly: a subclass may compute something else.
    memory_limit : int
        Capacity M, tokens.

    Raises
    ------
    InvalidTypeError
        The batch time is of another class, about whose rounds nothing is known.
    InvalidValueError
        Declared coefficients are out of range.
    """
    if (known := coefficients(batch_time)) is not None:
        return (AffineMinorant(*known),)
    if type(batch_time) is TiledTime:
        return tuple(_tiled(batch_time, memory_limit))
    if isinstance(batch_time, DeclaresMinorants):
        return tuple(_declared(batch_time, memory_limit))
    names = "AffineTime, IterationTime, TiledTime, UnitTime"
    reason = f"has no known affine minorant; those that do: {names}"
    raise InvalidTypeError(None, "batch_time", batch_time, reason)
