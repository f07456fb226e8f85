"""What is known of a question: simulations, bounds, and what follows from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from online.trials.intervals import NOTHING, Interval

from .question import Question
from .tasks import Bounds, Enclose, Failure, Serve, Served, Task

NEGLIGIBLE = Fraction(1, 100)
"""Share of a mean latency: if no known schedule saves it, shares of the saving say nothing."""


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
    def failures(self) -> dict[Task, Failure]:
        """Computations without a result."""
        return {one: it for one, it in self.results.items() if isinstance(it, Failure)}

    @cached_property
    def best(self) -> tuple[Bounds, str] | None:
        """Bounds on the least mean latency, and the name of the best schedule known.

        Every simulation is a schedule too. None if no bound is known.
        """
        count = self.question.replicas
        bounds = self.results.get(Enclose(count))
        if not isinstance(bounds, Bounds):
            return None
        here = {one.name: it for one, it in self.simulations.items() if one.replicas == count}
        known = {"search": bounds.interval.upper, **{k: it.mean_latency for k, it in here.items()}}
        least = min((one, name) for name, one in known.items() if one is not None)
        return replace(bounds, interval=Interval(bounds.interval.lower, least[0])), least[1]

    @property
    def saving(self) -> Interval | None:
        """Bounds on the seconds per request that the best scheduler saves of today's mean latency.

        None if today's latency or the best possible is not known, or if the log contradicts it.
        """
        if self.best is None or self.today is None or self.contradicts:
            return None
        return self.best[0].interval.below(self.today.mean_latency)

    @property
    def divisible(self) -> bool:
        """Whether a policy's share of the saving says something, see `NEGLIGIBLE`."""
        saving, today = self.saving, self.today
        known = 0 if saving is None or saving.lower is None else saving.lower
        return today is not None and known >= NEGLIGIBLE * today.mean_latency

    def share(self, served: Served) -> Interval:
        """Bound the share of the saving that a policy has; unknown where it says nothing."""
        saving, today = self.saving, self.today
        if today is None or saving is None or not self.divisible:
            return NOTHING
        return Interval.of_share(today.mean_latency - served.mean_latency, saving)

    @property
    def rival(self) -> str | None:
        """Label of the proposal with the least mean latency, told the exact output lengths."""
        known = {one: self.served(one) for one in self.question.proposed}
        means = {one: it.mean_latency for one, it in known.items() if it is not None}
        return min(means, key=means.__getitem__, default=None)

    @property
    def difference(self) -> Fraction | None:
        """Share by which today's policy, simulated, is slower than the log."""
        log, today = self.question.measured, self.today
        return None if log is None or today is None else today.mean_latency / log.mean_latency - 1

    @property
    def contradicts(self) -> bool:
        """Whether the log is faster than the batch time allows any scheduler."""
        log, best = self.question.measured, self.best
        if log is None or best is None or self.question.made_up:
            return False
        return log.mean_latency < (best[0].interval.lower or 0)

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
        known: list[tuple[int, Fraction | None, Fraction | None]] = [
            (one.replicas, it.on_time, None) for one, it in self.simulations.items()
        ]
        known += [
            (one.replicas, it.interval.lower, it.interval.upper)
            for one, it in self.results.items()
            if isinstance(it, Bounds) and one == Enclose(one.replicas, on_time=True)
        ]
        lowers = [low for count, low, _ in known if count <= replicas and low is not None]
        uppers = [high for count, _, high in known if count >= replicas and high is not None]
        return Interval(max(lowers, default=Fraction(0)), min(uppers, default=Fraction(1)))
