"""Competitive ratios of single runs, as intervals."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from instances import Instance

from .run import Run


class HindsightBounds(Protocol):
    """What `hindsight.solve` returns, as far as a ratio needs it."""

    @property
    def instance(self) -> Instance:
        """The instance solved."""

    @property
    def upper_bound(self) -> int | None:
        """Total latency of a feasible schedule."""

    @property
    def lower_bound(self) -> int | None:
        """A proved lower bound on the optimum."""


class MismatchError(ValueError):
    """A run and an optimum belong to different instances."""


@dataclass(frozen=True, slots=True)
class Ratio:
    """The ratio of a policy's total latency to the optimum, as an interval.

    Attributes
    ----------
    total_latency : the policy's, in rounds.
    optimum_upper, optimum_lower : bounds of the optimum; None where nothing is known.
    """

    total_latency: int
    optimum_upper: int | None
    optimum_lower: int | None

    @property
    def lower(self) -> float | None:
        """Total latency / upper bound: the policy is at least this far from the optimum."""
        return None if self.optimum_upper is None else self.total_latency / self.optimum_upper

    @property
    def upper(self) -> float | None:
        """Total latency / lower bound: the policy is at most this far from the optimum."""
        if self.optimum_lower is None or self.optimum_lower <= 0:
            return None
        return self.total_latency / self.optimum_lower

    @property
    def is_exact(self) -> bool:
        """Whether the optimum is proved, so that the interval is a point."""
        return self.optimum_upper is not None and self.optimum_upper == self.optimum_lower

    @property
    def exact(self) -> Fraction | None:
        """The ratio as a fraction, where the optimum is proved."""
        if not self.is_exact or self.optimum_upper is None:
            return None
        return Fraction(self.total_latency, self.optimum_upper)

    def __str__(self) -> str:
        if self.is_exact:
            return f"{self.lower:.4f}"
        low = "?" if self.lower is None else f"{self.lower:.4f}"
        high = "?" if self.upper is None else f"{self.upper:.4f}"
        return f"[{low}, {high}]"


def ratio(run: Run, result: HindsightBounds) -> Ratio:
    """Competitive ratio of a run of the round model against hindsight bounds.

    Raises
    ------
    MismatchError: the run and the bounds belong to different instances, or the bounds are of
        the makespan.
    IncompleteRunError: the run left requests unserved.
    NoScheduleError: no schedule of the round model describes the run.
    """
    if run.instance is not None and run.instance.digest != result.instance.digest:
        raise MismatchError("the run and the hindsight bounds belong to different instances")
    if getattr(result, "objective", "total_latency") != "total_latency":
        raise MismatchError("the hindsight bounds are not of total latency")
    return Ratio(run.schedule.total_latency, result.upper_bound, result.lower_bound)
