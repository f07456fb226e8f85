"""Compute the seconds of a round exactly, as fractions. Floats count as decimals (0.1 is 1/10)."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from fractions import Fraction

from instances.problem.batches import BatchStretch
from instances.validation import decimal

from .models import AffineTime, IterationTime
from .tiled_time import TiledTime


def interpolation(
    tokens: Sequence[float], seconds: Sequence[float]
) -> Callable[[Fraction | int], Fraction]:
    """Return the piecewise linear function through a table of (tokens, seconds), in fractions.

    Below the first entry it is constant, and beyond the last it continues with the last slope.
    """
    table = [decimal(one) for one in tokens]
    values = [decimal(one) for one in seconds]

    def at(place: Fraction | int) -> Fraction:
        if place <= table[0]:
            return values[0]
        right = min(bisect_left(table, place), len(table) - 1)
        slope = (values[right] - values[right - 1]) / (table[right] - table[right - 1])
        return values[right] + slope * (place - table[right])

    return at


def coefficients(batch_time: object) -> tuple[Fraction, Fraction, Fraction] | None:
    """Return (d0, d1, d2) of an affine batch time: seconds per round, processed token and KV token.

    Return None for any other batch time. A subclass counts as another one, since it may change the
    formula.
    """
    if type(batch_time) is AffineTime:
        return decimal(batch_time.d0), decimal(batch_time.d1), decimal(batch_time.d2)
    if type(batch_time) is IterationTime:
        return decimal(batch_time.d0), Fraction(0), decimal(batch_time.d1)
    return None


def exact_seconds(batch_time: object) -> Callable[[BatchStretch], Fraction] | None:
    """Return a function from a batch of one round to its exact seconds, as a fraction.

    Return None if the batch time is not of a class whose formula is known here.
    """
    if type(batch_time) is TiledTime:
        return _exact_tiled(batch_time)
    if (known := coefficients(batch_time)) is None:
        return None
    unit = math.lcm(*(one.denominator for one in known))
    d0, d1, d2 = (int(one * unit) for one in known)
    idle = d2 * (type(batch_time) is IterationTime)
    return lambda b: Fraction(d0 + d1 * b.first_tokens + d2 * b.memory - idle * b.held_memory, unit)


def _exact_tiled(time: TiledTime) -> Callable[[BatchStretch], Fraction]:
    at, tile = interpolation(time.tokens, time.seconds), time.tile
    kernel, kv_token, square, past = (
        decimal(one) for one in (time.kernel, time.kv_token, time.prompt_square, time.prompt_past)
    )

    def seconds(one: BatchStretch) -> Fraction:
        kernels = (one.requests > one.new_requests) + (one.new_requests + one.chunk_tokens > 0)
        return (
            at(-(-one.first_tokens // tile) * tile)
            + kernel * kernels
            + kv_token * (one.memory - one.held_memory)
            + square * (one.new_squares + one.chunk_squares)
            + past * (one.new_past + one.chunk_past)
        )

    return seconds
