"""The answer to a question about a log: simulations, bounds, and numbers computed from both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

from online.trials.intervals import Interval

from .question import LOGGED, Question
from .tasks import Bounds, Enclose, Failure, Serve, Served, Task

LARGE_DIFFERENCE = Fraction(1, 10)
"""If simulated and logged mean latency differ by more than this share, a remark says so."""


@dataclass(frozen=True, eq=False)
class Headroom:
    """Answer of `measure_headroom`: simulations of policies and bounds on every scheduler.

    Attributes
    ----------
    question : Question
        The question that is answered. If the time limit was too short for all requests, it has only
        the first requests of the log.
    results : Mapping[Task, Any]
        Result of each finished task: `Served` for a simulation, `Bounds` for a bound, `Failure` for
        a task that failed.
    unfinished : tuple[str, ...]
        Names of the tasks that had not finished when the time limit or Ctrl-C ended the
        computation.
    seconds : float
        Seconds that the whole computation took.
    interrupted : bool
        Whether Ctrl-C ended the computation.
    left_out : int
        Number of requests at the end of the log that ``question`` lacks, as time was too short.
    """

    question: Question
    results: Mapping[Task, Any]
    unfinished: tuple[str, ...] = ()
    seconds: float = 0.0
    interrupted: bool = False
    left_out: int = 0

    def served(self, policy: str, error: float = 0.0, replicas: int | None = None) -> Served | None:
        """Return the latencies in one simulation, or None if it did not complete.

        ``policy`` is the label of the policy, ``error`` the error of the output lengths that it was
        given (0: exact lengths), ``replicas`` the number of replicas (None: as many as today).
        """
        return self.simulations.get(Serve(policy, replicas or self.question.replicas, error))

    @property
    def today(self) -> Served | None:
        """Latencies of today's policy in its simulation, or None if that did not complete."""
        return self.served(self.question.baseline)

    @cached_property
    def simulations(self) -> dict[Serve, Served]:
        """Completed simulations with the latencies of their policies.

        Policies with exact output lengths come before those with predicted ones.
        """
        known = self.results.items()
        found = {one: it for one, it in known if isinstance(one, Serve) and isinstance(it, Served)}
        return {one: found[one] for one in sorted(found, key=lambda one: one.error)}

    @cached_property
    def here(self) -> dict[Serve, Served]:
        """Completed simulations on today's number of replicas, with the latencies of each."""
        count = self.question.replicas
        return {one: it for one, it in self.simulations.items() if one.replicas == count}

    @property
    def failures(self) -> dict[Task, Failure]:
        """Tasks (simulations, bounds) that failed, each with the reason."""
        return {one: it for one, it in self.results.items() if isinstance(it, Failure)}

    @cached_property
    def best(self) -> tuple[Bounds, str] | None:
        """Bounds on the least mean latency of any scheduler, and the name of the best schedule.

        The upper bound is the mean latency of the best schedule that was found: one of the search
        (named ``"search"``), or that of a simulation. None if no bound is known.
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
    def rival(self) -> str | None:
        """Label of the proposed policy with the least mean latency if it gets exact output lengths.

        None if no simulation of a proposed policy completed.
        """
        exact = {one.policy: it.mean_latency for one, it in self.here.items() if not one.error}
        known = [(exact[one], one) for one in self.question.proposed if one in exact]
        return min(known)[1] if known else None

    @property
    def difference(self) -> Fraction | None:
        """(Simulated mean latency of today's policy) / (mean latency in the log) - 1.

        None if the log has no latencies or today's policy was not simulated.
        """
        logged, today = self.question.measured_mean, self.today
        return None if logged is None or today is None else today.mean_latency / logged - 1

    @property
    def is_doubtful(self) -> bool:
        """Whether the mean latencies of simulation and log differ by over `LARGE_DIFFERENCE`.

        False if there are several replicas and the log does not name them, because the log may be
        from another number of replicas.
        """
        router = self.question.router_of(self.question.replicas)
        is_logged = router is None or router.name == LOGGED
        return is_logged and abs(self.difference or Fraction(0)) > LARGE_DIFFERENCE

    @property
    def contradicts(self) -> bool:
        """Whether the mean latency in the log is below the lower bound on every scheduler.

        If so, the assumed batch time, M or reuse of prompts is not that of the server.
        """
        logged, best = self.question.measured_mean, self.best
        limit = Fraction(0) if best is None else best[0].interval.lower or Fraction(0)
        return logged is not None and logged < limit

    @property
    def by_replicas(self) -> dict[int, Served]:
        """Latencies of today's policy for each simulated number of replicas, ascending."""
        today = (self.question.baseline, 0.0)
        runs = self.simulations.items()
        known = {one.replicas: it for one, it in runs if (one.policy, one.error) == today}
        return dict(sorted(known.items()))

    @property
    def fewest(self) -> tuple[int, int]:
        """Bounds on the fewest replicas on which any scheduler has enough requests on time.

        The upper bound is one above the largest number simulated if no number is known to suffice.
        """
        wanted, top = self.question.wanted, max(self.by_replicas, default=0)
        shares = {count: self.attainable(count) for count in range(1, top + 1)}
        few = [count for count, it in shares.items() if (it.upper or 0) < wanted]
        enough = [count for count, it in shares.items() if (it.lower or 0) >= wanted]
        return max(few, default=0) + 1, min(enough, default=top + 1)

    def attainable(self, replicas: int) -> Interval:
        """Return bounds on the largest share of requests on time with this number of replicas.

        A scheduler may leave a replica empty, so the largest share does not fall with the number of
        replicas. So lower bounds for fewer replicas and upper bounds for more replicas hold too.
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
