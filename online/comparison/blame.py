"""Whose fault the waiting of a fleet is: the router's, or the schedulers' on the replicas.

Let T be today's total latency, A the requests that the router sent to each replica, OPT(A) the
least total latency of all schedulers that leave every request where A has it, and OPT the least of
all routers and schedulers. A fleet with assignment A is one machine for each replica, and no
replica sees another, so OPT(A) is the sum of the optima of its parts A_k, each on one machine.
Then, with an interval [LB(X), UB(X)] around each optimum,

    lost by the router     OPT(A) - OPT  >=  sum_k LB(A_k) - UB,
    lost on the replicas   T - OPT(A)    >=  T - sum_k UB(A_k),
    both together          T - OPT       in  [T - UB, T - LB].

*Proof.* OPT(A) lies in [sum_k LB(A_k), sum_k UB(A_k)], and OPT in [LB, UB]. [] Schedules with
assignment A are schedules of the fleet, so OPT <= OPT(A): UB is at most sum_k UB(A_k), OPT(A) is at
least LB, and neither loss is below 0.

What the words mean. *Lost by the router*: while requests stay where it sent them, no scheduler wins
this back. It does not say that another router alone wins it: with poor schedulers another may be
no better. *Lost on the replicas*: with this routing, better schedulers win it back. It does not say
that no router could: another routing may suit poor schedulers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from instances import Instance, Workload
from instances.arrays import IntArray
from instances.problem.fleet_schedule import as_assignment, by_replica
from online.trials.intervals import Interval, Latency

ROUNDING = Fraction(1, 10**9)
"""Share by which a latency may be below the least possible and count as equal."""


@dataclass(frozen=True)
class Blame:
    """Total latency of a fleet, and how much of it the router and the schedulers lose.

    All figures are totals over the requests, in rounds or seconds; `mean` is per request.

    Attributes
    ----------
    latency : Fraction
        Today's.
    assigned : Interval
        Around the least latency of all schedulers that leave each request on its replica.
    best : Interval
        Around the least latency of all routers and schedulers.
    requests : int
        How many there are.
    """

    latency: Fraction
    assigned: Interval
    best: Interval
    requests: int

    @classmethod
    def of(
        cls, latency: Latency | float, parts: Sequence[Interval], best: Interval, requests: int
    ) -> Blame:
        """Put it together from intervals around the optimum of each replica and of the fleet."""
        assigned = Interval.sum_of(parts)
        # What holds of every routing holds of this one; its schedules are schedules of the fleet.
        assigned = Interval.common_to([assigned, Interval(best.lower, None)])
        best = Interval.common_to([best, Interval(None, assigned.upper)])
        total, least = Fraction(latency), assigned.lower or Fraction(0)
        # A sum of floats may lie a rounding below what it stands for.
        if least * (1 - ROUNDING) <= total < least:
            total = least
        return cls(total, assigned, best, requests)

    @property
    def mean(self) -> Blame:
        """The same for one request on average."""
        part = Fraction(1, self.requests)
        return Blame(self.latency * part, self.assigned.times(part), self.best.times(part), 1)

    @property
    def contradicts(self) -> bool:
        """Tell whether today's latency is below that of every schedule with this assignment."""
        return self.latency < (self.assigned.lower or 0)

    @property
    def router_loss(self) -> Interval:
        """Lost by the router: while requests stay where it sent them, nobody wins it back."""
        return _loss(Interval.sum_of([self.assigned, self.best.below(0)]))

    @property
    def scheduler_loss(self) -> Interval:
        """Lost on the replicas: with this routing, the best schedulers win it back."""
        return _loss(self.assigned.below(self.latency))

    @property
    def saving(self) -> Interval:
        """Won back by the best router and the best schedulers together."""
        return _loss(self.best.below(self.latency))


def blame(
    problem: Instance | Workload,
    assignment: Sequence[int] | IntArray,
    total_latency: Latency | float,
    *,
    time_limit: float | None = None,
    seed: int = 0,
    threads: int | None = None,
) -> Blame:
    """Divide the latency of a fleet among its router, the schedulers and what nobody could save.

    In seconds, optima are of schedulers that process prompt and tokens again after a preemption, as
    serving engines do.

    Parameters
    ----------
    problem : Instance or Workload
        The requests, and the number of replicas.
    assignment : Sequence[int] or int64 array
        Replica of each request, 0 to K - 1, shape (n,).
    total_latency : int, Fraction or float
        Today's, of a run or measured: rounds or seconds.
    time_limit : float or None, default None
        Seconds for everything, half of it for the fleet, or None.
    seed : int, default 0
        Seed of every random choice.
    threads : int or None, default None
        See `hindsight.solve`.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        A parameter is invalid.
    """
    from hindsight import solve

    own = by_replica(as_assignment(problem, assignment), problem.replicas)
    parts = [problem.alone(positions) for positions in own if len(positions)]
    limit = None if time_limit is None else time_limit / 2
    options: dict[str, Any] = {"seed": seed, "threads": threads}
    if isinstance(problem, Workload):
        options["preemption"] = "recompute"

    def enclosed(one: Instance | Workload, share: float) -> Interval:
        found = solve(one, time_limit=None if limit is None else share * limit, **options)
        return Interval.between(found.lower_bound, found.upper_bound)

    known = [enclosed(part, 1 / len(parts)) for part in parts]
    return Blame.of(total_latency, known, enclosed(problem, 1.0), len(problem))


def _loss(interval: Interval) -> Interval:
    """Raise the lower end to 0, unless all of the interval is below it."""
    if interval.upper is not None and interval.upper < 0:
        return interval
    return Interval(max(interval.lower or Fraction(0), Fraction(0)), interval.upper)
