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

    The batch is the set of requests that advance, or process a chunk of their prompt, in the round.
    Other requests, whose tokens are only held, may make the round longer. The lower bound leaves
    them out. The coefficients are exact.

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
    """Return the total length, in seconds, of the o rounds of each request if it runs alone.

    A round lasts ``overhead`` + ``token`` * (tokens processed) + ``held`` * (KV tokens held). In
    round k the request holds s + k tokens. It processes the s tokens of its prompt in round 1, and
    one token in every other round.
    """
    return (
        output * overhead
        + token * (prompt + output - 1)
        + held * (output * prompt + output * (output + 1) / 2)
    )


@runtime_checkable
class DeclaresMinorants(Protocol):
    """A batch time with a method that declares affine lower bounds on the length of a round."""

    def minorants(self, memory_limit: int) -> Sequence[tuple[float, float, float]]:
        """Return one or more triples (d0, d1, d2) with d0 > 0, d1 >= 0 and d2 >= 0.

        With memory limit M in tokens, every round must last at least d0 + d1 * (tokens processed) +
        d2 * (KV tokens of the batch) seconds, as in `AffineMinorant`.
        """


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
    """Return affine minorants with the given d2 whose lines d0 + d1 x lie below all points (x, y).

    x is the number of tokens that a round processes. y is the length of this round in seconds,
    except for the d2 seconds per KV token. Each line has slope d1 >= 0 and passes through one or
    two of the points.
    """
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
    """Return whether affine lower bounds on a round's length are proved from a batch time's class.

    The class must be one of the known classes exactly, because a subclass may compute another time.
    """
    return type(batch_time) is TiledTime or coefficients(batch_time) is not None


def has_minorants(batch_time: object) -> bool:
    """Return whether a batch time has affine lower bounds on the length of a round.

    They are proved from its class, or declared by its method ``minorants``.
    """
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
        raise InvalidValueError("batch time", "minorants", found, "must not be empty")
    return found


def affine_minorants(batch_time: object, memory_limit: int) -> tuple[AffineMinorant, ...]:
    """Return the known affine lower bounds on the length of every round, from its batch time.

    A round that advances or processes any request processes at least one token, and at most M: a
    request processes no more tokens than it holds, and all requests hold M at most. So a minorant
    need only lie below the batch time on ``1 .. M``.

    - `AffineTime`: the batch time itself. `UnitTime`: the constant. `IterationTime`: the batch time
      itself, with its d1 as d2. It counts only requests that advance, not those held, and so does a
      minorant.
    - `TiledTime`: attention takes at least one kernel, as each request of the batch decodes or
      processes a prompt, and the KV tokens of the batch. Squares and products are left out. The
      table of the other operations is constant in a tile, and a minorant never falls. So a minorant
      lies below everywhere if it does at the last number of tokens up to M of each tile. Between
      entries of the table, the values there are linear in that number: the entries, the first tile,
      the last whole tile and M are all that matter. A function of one variable on an interval lies
      above the lines through the edges of the lower convex hull of its kinks and ends, and above
      its least value. Edges that meet the axis at 0 or below are left out, because the bounds
      divide by d0 > 0.
    - Any other batch time with the method of `DeclaresMinorants`: the minorants that the method
      returns, without a check that they lie below.

    Floats count as the decimals they are written as.

    Parameters
    ----------
    batch_time : BatchTime
        Of one of these classes exactly (a subclass may compute another time), or with the method
        of `DeclaresMinorants`.
    memory_limit : int
        Capacity M, tokens.

    Raises
    ------
    InvalidTypeError
        The batch time is of another class, and declares no minorants.
    InvalidValueError
        The batch time declares no triple, or coefficients that are out of range.
    """
    if (known := coefficients(batch_time)) is not None:
        return (AffineMinorant(*known),)
    if type(batch_time) is TiledTime:
        return tuple(_tiled(batch_time, memory_limit))
    if isinstance(batch_time, DeclaresMinorants):
        return tuple(_declared(batch_time, memory_limit))
    names = "AffineTime, IterationTime, TiledTime, UnitTime"
    reason = f"has no known affine minorant; these classes have one: {names}"
    raise InvalidTypeError(None, "batch_time", batch_time, reason)
