"""Prediction models: what a policy is told of output lengths before they are known.

Every model draws a `Prediction` for each request at its arrival; policies see nothing else. The
intervals are those of [C25]: one for all (Section 2), disjoint buckets (Section 4.2), and
[(1-x) o, (1+x) o] (Section 6); point predictions with a known error bound are [J25]'s (Section 6).
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
    """An interval for an output length, in tokens: lower <= point <= upper.

    Nothing forces the truth into the interval; a prediction model says whether it does.
    """

    lower: int
    point: int
    upper: int

    def __post_init__(self) -> None:
        # One for each request of a simulation: whole numbers are left as they are.
        for name in () if type(self.lower) is type(self.point) is type(self.upper) is int else ENDS:
            length = as_integer(getattr(self, name), "prediction", name, minimum=-LARGEST_INTEGER)
            set_fields(self, **{name: length})
        if not 1 <= self.lower <= self.point <= self.upper <= LARGEST_INTEGER:
            lengths, reason = (self.lower, self.point, self.upper), "are not increasing lengths"
            raise InvalidValueError("prediction", f"({', '.join(ENDS)})", lengths, reason)

    @property
    def is_exact(self) -> bool:
        """Return whether the interval is a single length."""
        return self.lower == self.upper


class PredictionModel(Protocol):
    """Draw what policies are told about each request."""

    def predict(self, prompt: int, output: int, rng: np.random.Generator) -> Prediction:
        """Return the prediction for a request, drawn at its arrival."""


class _Model:
    """A prediction model with checked parameters."""

    def __post_init__(self) -> None:
        check_ranges(self, "predictions")


@dataclass(frozen=True)
class ExactPredictions(_Model):
    """The policies know every output length at arrival ([J25] Section 2, [W25])."""

    def predict(self, prompt: int, output: int, rng: np.random.Generator) -> Prediction:
        """Return the true length."""
        return Prediction(output, output, output)


@dataclass(frozen=True)
class IntervalPredictions(_Model):
    """The same interval for every request ([C25] Section 2; Section 6 takes [1, 1000]).

    The point is the midpoint, rounded down.

    Parameters
    ----------
    lower, upper : int
        Ends of the interval, tokens, 1 <= lower <= upper.

    Raises
    ------
    InvalidValueError
        Ends out of order; when predicting, an output length outside.
    """

    lower: int = ranged(minimum=1)
    upper: int = ranged(minimum=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        as_integer(self.upper, "predictions", "upper", minimum=self.lower)

    def predict(self, prompt: int, output: int, rng: np.random.Generator) -> Prediction:
        """Return the interval."""
        if not self.lower <= output <= self.upper:
            reason = f"lies outside the interval [{self.lower}, {self.upper}]"
            raise InvalidValueError("predictions", "output_length", output, reason)
        return Prediction(self.lower, (self.lower + self.upper) // 2, self.upper)


@dataclass(frozen=True)
class BucketPredictions(_Model):
    """Disjoint intervals; a request is told the one its output length is in ([C25] Section 4.2).

    Bucket j runs from one more than the upper end of bucket j - 1 (from 1 for the first) to
    ``upper_ends[j]``. [C25] Section 6 takes the ten ends 100, 200, .., 1000.

    Parameters
    ----------
    upper_ends : tuple[int, ...], optional
        Increasing, tokens.

    Raises
    ------
    InvalidValueError
        No ends, or ends out of order; when predicting, a length above the last.
    """

    upper_ends: tuple[int, ...] = ranged(tuple(range(100, 1001, 100)), minimum=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if [*self.upper_ends] != sorted({*self.upper_ends}):
            raise InvalidValueError("predictions", "upper_ends", self.upper_ends, "do not grow")

    def predict(self, prompt: int, output: int, rng: np.random.Generator) -> Prediction:
        """Return the bucket of the output length; the point is its midpoint, rounded down."""
        position = bisect_left(self.upper_ends, output)
        if position == len(self.upper_ends):
            reason = f"lies above the last bucket, which ends at {self.upper_ends[-1]}"
            raise InvalidValueError("predictions", "output_length", output, reason)
        lower = self.upper_ends[position - 1] + 1 if position else 1
        upper = self.upper_ends[position]
        return Prediction(lower, (lower + upper) // 2, upper)


@dataclass(frozen=True)
class ProportionalPredictions:
    """[(1-x) o, (1+x) o] around the truth ([C25] Section 6, Experiment 3).

    The ends are rounded outwards, and the lower one is at least 1; the point is the midpoint of
    the rounded interval, rounded down, so that it does not give the truth away for free. [C25]
    says once that a larger x is more precise; its figures and its formula say the opposite.

    Parameters
    ----------
    spread : float
        x, at least 0 and below 1. 0 tells the truth.
    """

    spread: float

    def __post_init__(self) -> None:
        as_fraction(self.spread, "predictions", "spread", minimum=0, below=1)

    def predict(self, prompt: int, output: int, rng: np.random.Generator) -> Prediction:
        """Return the interval around the output length."""
        # In floats 1.1 * 10 rounds up to 12.
        spread = as_fraction(self.spread, "predictions", "spread")
        lower = max(1, math.floor((1 - spread) * output))
        upper = math.ceil((1 + spread) * output)
        return Prediction(lower, (lower + upper) // 2, upper)


@dataclass(frozen=True)
class NoisyPredictions(_Model):
    """A point within delta of the truth, and the bound delta ([J25] Section 6).

    The point is uniform on the integers o - delta .. o + delta, those below 1 excluded; the
    interval told is [point - delta, point + delta], which holds the truth. With ``wrong`` > 0
    that share of the requests gets a point uniform on 1 .. 2 (o + delta) instead, under the same
    promise of delta, which may then be broken: the "high probability" of [J25].

    Parameters
    ----------
    delta : int
        The error bound, tokens, >= 0.
    wrong : float, default 0.0
        Share of requests whose error is not bounded, in [0, 1].
    """

    delta: int = ranged(minimum=0)
    wrong: float = ranged(0.0, minimum=0, maximum=1)

    def predict(self, prompt: int, output: int, rng: np.random.Generator) -> Prediction:
        """Return a point near the output length, give or take delta."""
        if self.wrong and rng.random() < self.wrong:
            point = int(rng.integers(1, 2 * (output + self.delta), endpoint=True))
        else:
            lowest = max(1, output - self.delta)
            point = int(rng.integers(lowest, output + self.delta, endpoint=True))
        return Prediction(max(1, point - self.delta), point, point + self.delta)


@dataclass(frozen=True)
class RelativePredictions(_Model):
    """A point that is off by a stated share of the truth, and taken at its word.

    The point is the truth times a lognormal factor of median 1, rounded, at least 1. Nothing but
    the point is told: the interval is the point, which does not hold the truth.

    Parameters
    ----------
    error : float
        Mean of |point - truth| / truth but for the rounding, in [0, 10]. 0 tells the truth.
    """

    error: float = ranged(minimum=0, maximum=10)

    def predict(self, prompt: int, output: int, rng: np.random.Generator) -> Prediction:
        """Return a point somewhere around the output length."""
        factor = math.exp(_lognormal_spread(self.error) * rng.standard_normal())
        point = max(1, min(round(output * factor), LARGEST_INTEGER))
        return Prediction(point, point, point)


@cache
def _lognormal_spread(error: float) -> float:
    """Return the sigma for which exp(sigma Z), Z standard normal, differs from 1 by ``error``.

    This is the mean E |exp(sigma Z) - 1| = exp(sigma^2 / 2) (2 Phi(sigma) - 1), which grows with
    sigma.
    """
    low, high = 0.0, 4.0 if error else 0.0
    for _ in range(60):
        middle = (low + high) / 2
        mean = math.exp(middle * middle / 2) * math.erf(middle / math.sqrt(2))
        low, high = (middle, high) if mean < error else (low, middle)
    return high
