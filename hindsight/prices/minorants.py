"""Affine lower bounds on a batch time. Bounds in seconds use nothing else of the batch time."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from instances import InvalidTypeError
from instances.arrays import FloatArray, IntArray
from instances.batch_time import TiledTime
from instances.batch_time.exact import coefficients, interpolation
from instances.validation import decimal


class AffineMinorant(NamedTuple):
    """Lower bound max(d0 + d1 * (tokens processed), least) + d2 * (KV tokens) on a round's length.

    In a round that processes tokens x + 1 to y of a prompt, ``square`` * (y^2 - x^2) is added to d1
    * (tokens processed), for each such request.

    The batch is the set of requests that emit a token or process a chunk of their prompt in the
    round. Requests that only hold tokens in memory are not counted, although they may make the
    round longer. The coefficients are exact fractions.

    Attributes
    ----------
    d0 : Fraction
        Seconds per round, > 0.
    d1 : Fraction
        Seconds per processed token, >= 0.
    d2 : Fraction
        Seconds per KV token of the batch, >= 0.
    least : Fraction, default 0
        Least seconds of a round without those of its KV tokens, >= 0.
    square : Fraction, default 0
        Seconds of attention for the square of a prompt length, >= 0.
    """

    d0: Fraction
    d1: Fraction
    d2: Fraction
    least: Fraction = Fraction(0)
    square: Fraction = Fraction(0)

    def __str__(self) -> str:
        return f"{float(self.d0):.6g} + {float(self.d1):.6g} tokens + {float(self.d2):.6g} resident"


def own_seconds(
    prompt: IntArray | FloatArray,
    output: IntArray | FloatArray,
    overhead: float,
    token: float,
    held: float,
    least: float = 0.0,
    square: float = 0.0,
) -> FloatArray:
    """Return the seconds that each request takes from its first to its last round if it runs alone.

    A round lasts ``overhead`` + ``token`` * (tokens processed) + ``held`` * (KV tokens held)
    seconds, with ``least`` and ``square`` as in `AffineMinorant`. A request of prompt length s and
    output length o runs for o rounds. In round k it holds s + k tokens. It processes the s tokens
    of its prompt in round 1, and one token in every other round. ``prompt`` and ``output`` have s
    and o of each request, shape (n,).
    """
    volume = output * prompt + output * (output + 1) / 2
    rounds = np.maximum(overhead + token * prompt + square * prompt**2, least)
    return rounds + (output - 1) * max(overhead + token, least) + held * volume


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
    """Return affine lower bounds d0 + d1 x + d2 z on the length of a round, for the given d2.

    The round processes x tokens and holds z KV tokens. A point (x, y) says that all rounds that
    process x tokens last at least y + d2 z seconds. The lines d0 + d1 x are nowhere above a point.
    The first line is the horizontal one through the lowest point. The others are the lines with
    d0 > 0 and d1 > 0 along edges of the lower convex hull of the points.
    """
    least = min(y for _, y in points)
    found = [AffineMinorant(least, Fraction(0), d2)]
    for (x0, y0), (x1, y1) in itertools.pairwise(_lower_hull(points)):
        slope = (y1 - y0) / (x1 - x0)
        if slope > 0 and y0 > slope * x0:
            found.append(AffineMinorant(y0 - slope * x0, slope, d2, least))
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
    square = min(decimal(time.prompt_square), decimal(time.prompt_past) / 2)
    return [one._replace(square=square) for one in _below(points, decimal(time.kv_token))]


def is_known(batch_time: object) -> bool:
    """Return whether `affine_minorants` has lower bounds on round lengths for a batch time's class.

    It has them for `TiledTime`, `AffineTime` and `IterationTime`, but not for subclasses of these,
    because a subclass may compute another time.
    """
    return type(batch_time) is TiledTime or coefficients(batch_time) is not None


def affine_minorants(batch_time: object, memory_limit: int) -> tuple[AffineMinorant, ...]:
    """Return affine minorants of a batch time: lower bounds on the length of every round.

    A minorant is d0 + d1 * (tokens processed) + d2 * (KV tokens of the batch), where the batch is
    the set of requests that emit a token or process a part of their prompt in the round. A round
    with a batch processes at least one token, and at most M: a request processes no more tokens
    than it holds, and all requests together hold at most M. So a minorant need only lie below the
    batch time for 1 .. M processed tokens.

    - `AffineTime`: the batch time itself.
    - `IterationTime`: the batch time itself. Its own d1 becomes d2, because it is a time per KV
      token of the batch.
    - `TiledTime`: a table of seconds by processed tokens x, rounded up to whole tiles, plus
      attention. Attention takes at least the sum of two times. One is ``kernel`` seconds, which are
      added if some request decodes, and again if some request processes its prompt. The other is a
      time per KV token of the batch, which becomes d2. A request that processes q tokens of its
      prompt after y others also takes ``prompt_square`` q^2 + ``prompt_past`` q y seconds. With c,
      the smaller one of ``prompt_square`` and ``prompt_past`` / 2, this is c ((y + q)^2 - y^2) or
      more: c becomes ``square``. So d0 + d1 x must lie below kernel + table, a function of x, and
      ``least`` is the least value of it. This function is constant in each tile, and d0 + d1 x does
      not fall as x grows. So it suffices that d0 + d1 x lies below at the largest x <= M of each
      tile. At these x the table is linear between its entries. So it suffices to look at the
      entries, at the ends of the first and of the last whole tile, and at M. The lines returned are
      the edges of the lower convex hull of these points, and the constant of the lowest point.
      Edges with d0 <= 0 are left out, because the bounds divide by d0.

    Floats count as the decimals they are written as.

    Parameters
    ----------
    batch_time : BatchTime
        A batch time of exactly one of these classes. A subclass may compute another time.
    memory_limit : int
        Memory limit M, in tokens.

    Raises
    ------
    InvalidTypeError
        The batch time is of another class.
    """
    if (known := coefficients(batch_time)) is not None:
        return (AffineMinorant(*known),)
    if type(batch_time) is TiledTime:
        return tuple(_tiled(batch_time, memory_limit))
    names = "AffineTime, IterationTime, TiledTime"
    reason = f"has no known affine minorant; these classes have one: {names}"
    raise InvalidTypeError(None, "batch_time", batch_time, reason)
