"""Requests on time: the most that any scheduler can have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction

import numpy as np

from instances import ServiceLevel, Workload
from instances.arrays import FloatArray
from instances.service_level import BoolArray, limits_of
from online.trials.intervals import Interval

MEASURED = "measured"
"""Name that tables give to what the log says itself."""

ROUNDING = Fraction(1, 2**48)
"""Of the last arrival, by which bounds are moved outwards between points of other arrivals."""

LEVEL_FACTORS = (1.0, 0.5, 2.0, 0.25, 4.0, 0.75, 1.5)
"""By which limits are multiplied, in order of computation."""


def scaled_level(level: ServiceLevel, factor: float) -> ServiceLevel:
    """Multiply every limit that is set."""
    limits = asdict(level).items()
    return ServiceLevel(**{name: one * factor for name, one in limits if one is not None})


@dataclass(frozen=True, eq=False)
class OnTimePoint:
    """Bounds on the most requests on time at one level and one load.

    Attributes
    ----------
    workload : Workload
        The requests.
    level : ServiceLevel
        The limits, ``scale`` times those asked for.
    scale, faster : float
        See there; arrivals come so many times as fast as in the log.
    upper, bound, certified : int, str, bool
        No scheduler has more requests on time, for this reason; computed exactly or not.
    kept : dict[tuple[str, float], bool array]
        Who is on time, shape (n,), by policy and the error of the lengths it was told. `MEASURED`
        is no schedule of the model, and bounds nothing.
    """

    workload: Workload = field(repr=False)
    level: ServiceLevel
    scale: float
    faster: float
    upper: int
    bound: str = "every request may be on time"
    certified: bool = True
    kept: Mapping[tuple[str, float], BoolArray] = field(default_factory=dict, repr=False)

    @property
    def replicas(self) -> int:
        """Number of replicas."""
        return self.workload.replicas

    @property
    def best(self) -> tuple[str, BoolArray]:
        """Name of the schedule with most requests on time, and which these are."""
        known = [(name, one) for (name, _), one in self.kept.items() if name != MEASURED]
        nobody = ("none", np.zeros(len(self.workload), dtype=np.bool_))
        return max([nobody, *known], key=lambda one: int(one[1].sum()))

    @property
    def attainable(self) -> Interval:
        """Bounds on the largest share of requests on time."""
        return Interval(share(self.best[1]), Fraction(self.upper, len(self.workload)))

    @property
    def contradicts(self) -> bool:
        """Tell whether the log has more on time than the batch time allows any scheduler."""
        return (MEASURED, 0.0) in self.kept and self.kept[MEASURED, 0.0].sum() > self.upper

    def part(self, kept: BoolArray) -> Interval | None:
        """Bound the share of the attainable; None where it says nothing."""
        if self.contradicts or not self.best[1].any():
            return None
        return Interval.of_share(share(kept), self.attainable)

    def ran(
        self, name: str, error: float, latencies: FloatArray | None, first: FloatArray | None
    ) -> OnTimePoint:
        """Add who is on time in a run, if all that the level limits is known of it."""
        if first is None and self.level.first_token is self.level.time_per_token is None:
            first = latencies
        if latencies is None or first is None:
            return self
        limits = limits_of(self.level, len(latencies))
        kept = limits.on_time(latencies, first, self.workload.output_lengths)
        return replace(self, kept={**self.kept, (name, error): kept})

    def allows(self, other: OnTimePoint) -> bool:
        """Tell whether as many can be on time here as there, see `carried_on_time`."""
        here, there = Fraction(self.faster), Fraction(other.faster)
        last = Fraction(float(self.workload.arrival_times[-1])) * here
        more = ROUNDING * last if here < there else 0
        limits = zip(asdict(self.level).values(), asdict(other.level).values(), strict=True)
        return (
            here <= there
            and self.replicas >= other.replicas
            and all(
                Fraction(mine) * here >= Fraction(its) * there + more
                for mine, its in limits
                if mine
            )
        )


def share(kept: BoolArray) -> Fraction:
    """Return the share of requests that are on time."""
    return Fraction(int(kept.sum()), len(kept))


def carried_on_time(points: Sequence[OnTimePoint]) -> list[OnTimePoint]:
    """Add to what is known at each point what follows from the others.

    **Longer limits.** Who is on time stays on time where limits are longer. So schedules carry to
    longer limits, and upper bounds to shorter ones.

    **More replicas.** One more may stay empty. So schedules carry to more replicas, and upper
    bounds to fewer.

    **Slower arrivals.** Multiply all arrivals by c >= 1, and let the round that ended at t end at
    c t. A round of length D then begins at c t - D >= c (t - D), so rounds stay disjoint and serve
    nobody before the arrival, and latencies, times to the first token and times between tokens
    are c times as long. So schedules carry to arrivals c times as slow with limits c times as
    long, and upper bounds back. At the same limits, nothing follows for another load.

    **Rounding.** Where arrivals differ, limits must be longer by `ROUNDING` of the last arrival,
    for the reason told in `online.headroom.answer.carried_over`.
    """
    found = []
    for one in points:
        to = one
        for known in points:
            (name, kept), where = known.best, ""
            if (known.scale, known.faster) != (to.scale, to.faster):
                where = f" with limits x{known.scale:g}, arrivals x{known.faster:g}"
            if known.replicas != to.replicas:
                where += f" with {known.replicas} replicas"
            if to.allows(known) and kept.sum() > one.best[1].sum():
                one = replace(one, kept={**one.kept, (name + where, 0.0): kept})
            if known.allows(to) and known.upper < one.upper:
                bound, certified = known.bound + where, known.certified
                one = replace(one, upper=known.upper, bound=bound, certified=certified)
        found.append(one)
    return found
