"""Progress and results of a solve in seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from hindsight.outcomes.results import Interval, SolveStatus, percent
from instances import FleetSchedule, SecondsSchedule, Workload
from instances.arrays import FloatArray
from instances.batch_time.exact import exact_seconds
from instances.html import figure_of

from .machine_bounds import SecondsBound
from .minorants import AffineMinorant

if TYPE_CHECKING:
    # It compiles loops, which a result needs none of.
    from .round_length_prices import RoundLengthPrices

Preemption = Literal["keep", "recompute"]
"""What a request that leaves the cache has when it comes back: its tokens, or only their number."""

SecondsStop = Literal["proof", "gap", "time-limit", "interrupted", "stalled"]


@dataclass(frozen=True, slots=True)
class SecondsProgress(Interval[float]):
    """Progress of a solve in seconds; the interval is around the least mean latency.

    Attributes
    ----------
    phase : str
        ``"schedules"``, ``"bounds"``, ``"prices"`` or ``"evaluation"``.
    """

    def __str__(self) -> str:
        mean = _outward(self.lower_bound, self.upper_bound)
        return f"{self.phase}: mean latency {mean} s, gap {percent(self.gap)}"


@dataclass(frozen=True, eq=False)
class SecondsProof:
    """What `hindsight.seconds.round_length_prices.priced_bound` needs to prove a bound.

    Attributes
    ----------
    prices : RoundLengthPrices
        The best prices of an ascent.
    minorant : AffineMinorant
        The minorant of the batch time for which they were found.
    allowance : float64 array
        Seconds after arrival that are examined closely, shape (n,).
    """

    prices: RoundLengthPrices
    minorant: AffineMinorant
    allowance: FloatArray


@dataclass(frozen=True, eq=False)
class SecondsResult:
    """An interval around the least total latency in seconds of every scheduler.

    "Every scheduler" includes those that know the future, pause, split prompts into chunks, evict,
    preempt (see ``preemption``), or idle.

    Attributes
    ----------
    workload : Workload
        The requests, with their batch time.
    schedule : SecondsSchedule or FleetSchedule
        The best schedule found, checked; a `FleetSchedule` if there are several replicas.
    upper_bound : Fraction
        Total latency of ``schedule`` in seconds, with arrival times and batch time as the decimals
        they are written as; if the batch time is not known exactly, from the schedule's floats.
    lower_bounds : Mapping[str, SecondsBound]
        All lower bounds on the total latency by name; each says whether it is certified.
    best_bound : str
        Name of the largest lower bound.
    mean_first_token_bound : float
        Lower bound on every scheduler's mean time to first token, seconds.
    stop_reason : SecondsStop
        ``"proof"`` (the bounds meet), ``"gap"`` (the gap asked for is reached), ``"time-limit"``,
        ``"interrupted"`` or ``"stalled"`` (no method here continues).
    runtime : float
        Seconds.
    log : tuple[SecondsProgress, ...]
        One line for each improvement.
    preemption : Preemption, default "keep"
        Which schedulers the interval is about: with ``"keep"`` a request that leaves the cache may
        come back with its tokens, with ``"recompute"`` it processes prompt and tokens again.
    proof : SecondsProof or None, default None
        The prices evaluated, for a certificate; None where there was no time for any.
    """

    workload: Workload
    schedule: SecondsSchedule | FleetSchedule
    upper_bound: Fraction
    lower_bounds: Mapping[str, SecondsBound]
    best_bound: str
    mean_first_token_bound: float
    stop_reason: SecondsStop
    runtime: float
    log: tuple[SecondsProgress, ...]
    preemption: Preemption = "keep"
    proof: SecondsProof | None = None

    def __repr__(self) -> str:
        mean = f"mean latency {_outward(*self.mean_latency_interval)} s"
        return f"SecondsResult({self.workload!r}, {self.status}, {mean})"

    def _repr_html_(self) -> str:
        facts = {
            "requests": len(self.workload),
            **({"replicas": self.workload.replicas} if self.workload.replicas > 1 else {}),
            "status": f"{self.status} ({self.stop_reason})",
            "least mean latency": f"{_outward(*self.mean_latency_interval)} s",
            "preempted requests": f"{self.preemption} their tokens",
            "lower bound": self.best_bound + (", certified" if self.certified else ""),
            "gap": percent(self.gap),
            "mean time to first token": f"at least {self.mean_first_token_bound:.6g} s",
            "runtime": f"{self.runtime:.3g} s",
        }
        name = f"of {self.workload.name}: best schedule" if self.workload.name else "best schedule"
        return figure_of("SecondsResult", name, facts, self.schedule.picture())

    @property
    def problem(self) -> Workload:
        """Return the workload solved."""
        return self.workload

    @property
    def lower_bound(self) -> Fraction:
        """Return the largest lower bound on the total latency, seconds."""
        return self.lower_bounds[self.best_bound].total

    @property
    def certified_lower_bound(self) -> Fraction:
        """Return the largest certified lower bound, seconds."""
        return max(one.total for one in self.lower_bounds.values() if one.certified)

    @property
    def total_latency_interval(self) -> tuple[float, float]:
        """Return bounds (lower, upper) on the least total latency, seconds, rounded outward."""
        return rounded_down(self.lower_bound), -rounded_down(-self.upper_bound)

    @property
    def mean_latency_interval(self) -> tuple[float, float]:
        """Return bounds (lower, upper) on the least mean latency, seconds, rounded outward."""
        count = len(self.workload)
        return rounded_down(self.lower_bound / count), -rounded_down(-self.upper_bound / count)

    @property
    def certified(self) -> bool:
        """Tell whether the lower bound is certified: see `SecondsBound`."""
        return self.lower_bounds[self.best_bound].certified

    @property
    def status(self) -> SolveStatus:
        """Return the status, ``"optimal"`` only if the bounds meet exactly."""
        return "optimal" if self.stop_reason == "proof" else "feasible"

    @property
    def gap(self) -> float:
        """Return (upper - lower) / upper; 0 if proved optimal."""
        lower, upper = self.total_latency_interval
        return 0.0 if self.status == "optimal" else (upper - lower) / upper


def _outward(lower: float, upper: float) -> str:
    """Format an interval in microseconds, rounded outward."""
    return f"[{math.floor(lower * 1e6) / 1e6:.6f}, {math.ceil(upper * 1e6) / 1e6:.6f}]"


def rounded_down(value: Fraction) -> float:
    """Return the largest float that is not above ``value``."""
    nearest = float(value)
    return math.nextafter(nearest, -math.inf) if Fraction(nearest) > value else nearest


def exact_total_latency(schedule: SecondsSchedule | FleetSchedule) -> Fraction | None:
    """Return total latency as a fraction, or None if the batch time is not known exactly.

    Arrival times are the decimals they are written as, and so is the start of a round where the
    schedule has the machine wait for it.
    """
    if exact_seconds(schedule.problem.batch_time) is None:
        return None
    return sum((sum(one.exact_times[0]) for one in schedule.machines), Fraction(0))
