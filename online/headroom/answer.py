"""What is known of a question: simulations, bounds, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from online.trials.intervals import Interval

from .question import Question
from .tasks import Bounds, Enclose, Failure, Serve, Served, Task

LARGE_DIFFERENCE = Fraction(1, 10)
"""Share of the latency in the log by which a simulation is off and doubted."""


@dataclass(frozen=True, eq=False)
class Headroom:
    """Result of `measure_headroom`.

    Attributes
    ----------
    question : Question
        What was asked; its requests are those that there was time for.
    results : Mapping[Task, Any]
        Results of the computations done.
    unfinished : tuple[str, ...]
        Computations that there was no time for.
    seconds : float
        Time that it took.
    interrupted : bool
        Whether Ctrl-C ended it.
    left_out : int
        Later requests of the log that there was no time for.
    """

    question: Question
    results: Mapping[Task, Any]
    unfinished: tuple[str, ...] = ()
    seconds: float = 0.0
    interrupted: bool = False
    left_out: int = 0

    def served(self, policy: str, error: float = 0.0, replicas: int | None = None) -> Served | None:
        """Return the simulation of a policy, if it completed."""
        return self.simulations.get(Serve(policy, replicas or self.question.replicas, error))

    @property
    def today(self) -> Served | None:
        """The simulation of today's policy."""
        return self.served(self.question.baseline)

    @cached_property
    def simulations(self) -> dict[Serve, Served]:
        """Simulations that completed, exact output lengths first."""
        known = self.results.items()
        found = {one: it for one, it in known if isinstance(one, Serve) and isinstance(it, Served)}
        return {one: found[one] for one in sorted(found, key=lambda one: one.error)}

    @cached_property
    def here(self) -> dict[Serve, Served]:
        """Simulations with today's number of replicas."""
        count = self.question.replicas
        return {one: it for one, it in self.simulations.items() if one.replicas == count}

    @property
    def failures(self) -> dict[Task, Failure]:
        """Computations without a result."""
        return {one: it for one, it in self.results.items() if isinstance(it, Failure)}

    @cached_property
    def best(self) -> tuple[Bounds, str] | None:
        """Bounds on the least mean latency, and the name of the best schedule known.

        Every simulation is a schedule too. None if no bound is known.
        """
        bounds = self.results.get(Enclose(self.question.replicas))
        if not isinstance(bounds, Bounds):
            return None
        known = {one.name: it.mean_latency for one, it in self.here.items()}
        if bounds.interval.upper is not None:
            known["search"] = bounds.interval.upper
        _, name = min((mean, name) for name, mean in known.items())
        return replace(bounds, interval=Interval(bounds.interval.lower, known[name])), name

    @property
    def saving(self) -> Interval | None:
        """Bounds on the seconds per request that the best scheduler saves of today's mean latency.

        None if today's latency or the best possible is not known, or if the log contradicts it.
        """
        if self.best is None or self.today is None or self.contradicts:
            return None
        return self.best[0].interval.below(self.today.mean_latency)

    def share(self, served: Served) -> Fraction | None:
        """Return the share of today's mean latency that a simulation saves, below 0 if it costs."""
        today = self.today
        return None if today is None else 1 - served.mean_latency / today.mean_latency

    @property
    def rival(self) -> str | None:
        """Label of the proposal with the least mean latency, given the exact output lengths."""
        exact = {one.policy: it.mean_latency for one, it in self.here.items() if not one.error}
        known = [(exact[one], one) for one in self.question.proposed if one in exact]
        return min(known)[1] if known else None

    @property
    def difference(self) -> Fraction | None:
        """Share by which today's policy, simulated, is slower than the log on these requests."""
        logged, today = self.question.measured_mean, self.today
        return None if logged is None or today is None else today.mean_latency / logged - 1

    @property
    def is_doubtful(self) -> bool:
        """Whether simulation and log differ by more than `LARGE_DIFFERENCE`."""
        return abs(self.difference or Fraction(0)) > LARGE_DIFFERENCE

    @property
    def contradicts(self) -> bool:
        """Whether the log is faster than the batch time allows any scheduler."""
        logged, best = self.question.measured_mean, self.best
        limit = Fraction(0) if best is None else best[0].interval.lower or Fraction(0)
        return logged is not None and logged < limit

    @property
    def by_replicas(self) -> dict[int, Served]:
        """Simulations of today's policy by number of replicas, ascending."""
        counts = sorted({one.replicas for one in self.simulations})
        runs = {one: self.served(self.question.baseline, replicas=one) for one in counts}
        return {one: it for one, it in runs.items() if it is not None}

    def attainable(self, replicas: int) -> Interval:
        """Bound the largest share of requests on time with so many replicas.

        A further replica may stay empty, so shares do not fall with the number of replicas.
        """
        lowers, uppers = [Fraction(0)], [Fraction(1)]
        for one, it in self.results.items():
            if isinstance(it, Served) and one.replicas <= replicas:
                lowers.append(it.on_time or Fraction(0))
            elif isinstance(it, Bounds) and one == Enclose(one.replicas, on_time=True):
                if one.replicas <= replicas:
                    lowers.append(it.interval.lower or Fraction(0))
                if one.replicas >= replicas:
                    uppers.append(Fraction(1) if it.interval.upper is None else it.interval.upper)
        return Interval(max(lowers), min(uppers))
