"""Models that predict output lengths, for policies that do not know the true lengths in advance.

A model draws a `Prediction` of the output length for each request at its arrival. Policies see the
prediction and not the true length o. [C25] has three kinds of intervals: the same for all requests
(Section 2), disjoint buckets (Section 4.2), and [(1-x) o, (1+x) o] (Section 6). [J25] Section 6 has
point predictions with a known bound on the error.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import cache
from typing import Protocol

import numpy as np

from instances import InvalidValueError
from instances.validation import (
    LARGEST_INTEGER,
    as_fraction,
    as_integer,
    check_ranges,
    ranged,
    set_fields,
)

ENDS = ("lower", "point", "upper")


@dataclass(frozen=True, slots=True)
class Prediction:
    """An interval for an output length, and a point in it, in tokens: lower <= point <= upper.

    The point is the best guess. With some prediction models the true length may lie outside the
    interval. The docstring of each model says whether it can.
    """

    lower: int
    point: int
    upper: int

    def __post_init__(self) -> None:
        # Plain ints are not checked, to save time: a simulation makes one prediction per request.
        for name in () if type(self.lower) is type(self.point) is type(self.upper) is int else ENDS:
            length = as_integer(getattr(self, name), "prediction", name, minimum=-LARGEST_INTEGER)
            set_fields(self, **{name: length})
        if not 1 <= self.lower <= self.point <= self.upper <= LARGEST_INTEGER:
            lengths, reason = (self.lower, self.point, self.upper), "are not increasing lengths"
            raise InvalidValueError("prediction", f"({', '.join(ENDS)})", lengths, reason)

    @property
    def is_exact(self) -> bool:
        """Return whether the interval contains a single length."""
        return self.lower == self.upper


class PredictionModel(Protocol):
    """A model that draws the prediction of each request's output length."""

    def predict(self, prompt: int, output: int, rng: np.random.Generator) -> Prediction:
        """Return the prediction for a request, drawn at its arrival."""


class _Model:
    """Base of prediction models: checks the ranges of their parameters."""

    def __post_init__(self) -> None:
        check_ranges(self, "predictions")


@dataclass(frozen=True)
class ExactPredictions(_Model):
    """Every prediction is the true output length ([J25] Section 2, [W25])."""

    def predict(self, prompt: int, output: int, rng: np.random.Generator) -> Prediction:
        """Return the true length as a single-point interval."""
        return Prediction(output, output, output)


@dataclass(frozen=True)
class IntervalPredictions(_Model):
    """The same interval for every request ([C25] Section 2).

    [C25] Section 6 uses the interval [1, 1000]. The point is the midpoint, rounded down.

    Parameters
    ----------
    lower, upper : int
        Ends of the interval, tokens, 1 <= lower <= upper.

    Raises
    ------
    InvalidValueError
        ``lower`` exceeds ``upper``. In `predict`: the output length is outside the interval.
    """

    lower: int = ranged(minimum=1)
    upper: int = ranged(minimum=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        as_integer(self.upper, "predictions", "upper", minimum=self.lower)

    def predict(self, prompt: int, output: int, rng: np.random.Generator) -> Prediction:
        """Return the interval, the same for every request."""
        if not self.lower <= output <= self.upper:
            reason = f"lies outside the interval [{self.lower}, {self.upper}]"
            raise InvalidValueError("predictions", "output_length", output, reason)
        return Prediction(self.lower, (self.lower + self.upper) // 2, self.upper)


@dataclass(frozen=True)
class BucketPredictions(_Model):
    """The interval, out of several disjoint ones, that has the output length ([C25] Section 4.2).

    Interval j goes from ``upper_ends[j - 1] + 1``, or from 1 for the first, to ``upper_ends[j]``.
    [C25] Section 6 uses the ten upper ends 100, 200, .., 1000.

    Parameters
    ----------
    upper_ends : tuple[int, ...], optional
        Upper ends of the intervals, tokens, increasing.

    Raises
    ------
    InvalidValueError
        No ends, or ends that do not increase. In `predict`: an output length above the last end.
    """

    upper_ends: tuple[int, ...] = ranged(tuple(range(100, 1001, 100)), minimum=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if [*self.upper_ends] != sorted({*self.upper_ends}):
            raise InvalidValueError("predictions", "upper_ends", self.upper_ends, "do not grow")

    def predict(self, prompt: int, output: int, rng: np.random.Generator) -> Prediction:
        """Return the interval of the output length; the point is its midpoint, rounded down."""
        position = bisect_left(self.upper_ends, output)
        if position == len(self.upper_ends):
            reason = f"lies above the last bucket, which ends at {self.upper_ends[-1]}"
            raise InvalidValueError("predictions", "output_length", output, reason)
        lower = self.upper_ends[position - 1] + 1 if position else 1
        upper = self.upper_ends[position]
        return Prediction(lower, (lower + upper) // 2, upper)


@dataclass(frozen=True)
class ProportionalPredictions:
    """The interval [(1-x) o, (1+x) o] around the true length o ([C25] Section 6, Experiment 3).

    The ends are rounded outwards, and the lower end is at least 1. The point is the midpoint of the
    rounded interval, rounded down, so that it need not equal o. In one place [C25] says that a
    larger x is more precise. Its figures and its formula say the opposite.

    Parameters
    ----------
    spread : float
        x, at least 0 and below 1. With 0 the prediction is o.
    """

    spread: float

    def __post_init__(self) -> None:
        as_fraction(self.spread, "predictions", "spread", minimum=0, below=1)

    def predict(self, prompt: int, output: int, rng: np.random.Generator) -> Prediction:
        """Return the interval around the output length."""
        # The spread is an exact fraction. With floats the upper end for o = 10 and a spread of 0.1
        # would be 12: the ceiling of 1.1 * 10 = 11.000000000000002.
        spread = as_fraction(self.spread, "predictions", "spread")
        lower = max(1, math.floor((1 - spread) * output))
        upper = math.ceil((1 + spread) * output)
        return Prediction(lower, (lower + upper) // 2, upper)


@dataclass(frozen=True)
class NoisyPredictions(_Model):
    """A point at most delta tokens from the true length o, and the bound delta ([J25] Section 6).

    The point is drawn uniformly from the integers o - delta .. o + delta that are at least 1. The
    interval is [point - delta, point + delta], which contains o. If ``wrong`` is above 0, this
    share of the requests gets a point drawn uniformly from 1 .. 2 (o + delta) instead. The interval
    is again [point - delta, point + delta], but it may miss o. [J25] assumes the error bound only
    "with high probability", which ``wrong`` models.

    Parameters
    ----------
    delta : int
        The error bound, tokens, >= 0.
    wrong : float, default 0.0
        Share of requests whose error is not bounded by delta, in [0, 1].
    """

    delta: int = ranged(minimum=0)
    wrong: float = ranged(0.0, minimum=0, maximum=1)

    def predict(self, prompt: int, output: int, rng: np.random.Generator) -> Prediction:
        """Return a random point and the interval point - delta .. point + delta."""
        if self.wrong and rng.random() < self.wrong:
            point = int(rng.integers(1, 2 * (output + self.delta), endpoint=True))
        else:
            lowest = max(1, output - self.delta)
            point = int(rng.integers(lowest, output + self.delta, endpoint=True))
        return Prediction(max(1, point - self.delta), point, point + self.delta)


@dataclass(frozen=True)
class RelativePredictions(_Model):
    """A point with a random relative error, and an interval of only this point.

    The point is the true length times a lognormal factor of median 1, rounded, at least 1. Policies
    see this point as an exact length, although it differs from the true one.

    Parameters
    ----------
    error : float
        Mean of |point - truth| / truth before rounding, in [0, 10]. 0 gives the true length.
    """

    error: float = ranged(minimum=0, maximum=10)

    def predict(self, prompt: int, output: int, rng: np.random.Generator) -> Prediction:
        """Return a random point around the output length as a single-point interval."""
        factor = math.exp(_lognormal_spread(self.error) * rng.standard_normal())
        point = max(1, min(round(output * factor), LARGEST_INTEGER))
        return Prediction(point, point, point)


@cache
def _lognormal_spread(error: float) -> float:
    """Return the number sigma with E |exp(sigma Z) - 1| = ``error`` for a standard normal Z.

    This mean is exp(sigma^2 / 2) (2 Phi(sigma) - 1), which increases with sigma.
    """
    low, high = 0.0, 4.0 if error else 0.0
    for _ in range(60):
        middle = (low + high) / 2
        mean = math.exp(middle * middle / 2) * math.erf(middle / math.sqrt(2))
        low, high = (middle, high) if mean < error else (low, middle)
    return high
