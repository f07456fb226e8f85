"""Arrival times in continuous time: Poisson processes of constant and of varying rate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from instances.arrays import FloatArray
from instances.errors import InvalidValueError
from instances.validation import as_integer, check_ranges, ranged, set_fields


class ArrivalProcess(Protocol):
    """A Poisson process whose rate may change over time."""

    def draw(self, rng: np.random.Generator, count: int) -> FloatArray:
        """The first ``count`` arrival times, seconds, increasing, shape (count,)."""


@dataclass(frozen=True)
class PoissonArrivals:
    """Constant rate: independent exponential gaps.

    Parameters
    ----------
    arrival_rate : float
        Arrivals a second, > 0.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        Not a finite number above 0.
    """

    arrival_rate: float = ranged(above=0)

    def __post_init__(self) -> None:
        check_ranges(self, "arrivals")

    def draw(self, rng: np.random.Generator, count: int) -> FloatArray:
        """The first ``count`` arrival times."""
        return _unit_arrivals(rng, count) / self.arrival_rate


@dataclass(frozen=True)
class PiecewiseConstantArrivals:
    """A rate that jumps: ``rates[k]`` for the k-th duration, and over again when all are through.

    Drawn by exact inversion: a unit-rate process through the inverse of the integrated rate,
    which is piecewise linear.

    Parameters
    ----------
    durations : Sequence[float]
        Seconds each rate holds, > 0, at least one; ``[3600.0] * 24`` is a daily profile.
    rates : Sequence[float]
        Arrivals a second, as many, >= 0, not all 0.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        An entry out of range, or different lengths.
    """

    durations: tuple[float, ...] = ranged(above=0)
    rates: tuple[float, ...] = ranged(minimum=0)

    def __init__(self, durations: Sequence[float], rates: Sequence[float]) -> None:
        sizes = (len(durations), len(rates))
        if sizes[0] != sizes[1] or not sizes[0]:
            reason = "are not two equal lengths of at least 1"
            raise InvalidValueError("arrivals", "(len(durations), len(rates))", sizes, reason)
        set_fields(self, durations=tuple(durations), rates=tuple(rates))
        check_ranges(self, "arrivals")
        if not any(self.rates):
            raise InvalidValueError("arrivals", "rates", self.rates, "are all 0")

    def draw(self, rng: np.random.Generator, count: int) -> FloatArray:
        """The first ``count`` arrival times."""
        edges = np.concatenate([[0.0], np.cumsum(self.durations)])
        steps = np.multiply(self.durations, self.rates)
        integrals = np.concatenate([[0.0], np.cumsum(steps)])
        cycles, rest = np.divmod(_unit_arrivals(rng, count), integrals[-1])
        piece = np.searchsorted(integrals, rest, side="right") - 1
        inside = (rest - integrals[piece]) / np.array([*self.rates, 1.0])[piece]
        times: FloatArray = cycles * edges[-1] + edges[piece] + inside
        return times


def _unit_arrivals(rng: np.random.Generator, count: int) -> FloatArray:
    return np.cumsum(rng.exponential(1.0, as_integer(count, "arrivals", "count", minimum=1)))
