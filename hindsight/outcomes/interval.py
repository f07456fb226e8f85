"""The lower and upper bound on an optimum during a solve. They only ever improve.

Every schedule that a search finds is checked here and its cost is computed. Every lower bound is
compared with the cost of the best schedule. This holds for every goal, in rounds and in seconds.
Costs are integers in rounds, fractions in seconds, and numbers of late requests for `OnTime`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import Any

import numpy as np

from hindsight.runtime.clock import SPARE_SECONDS, Clock
from hindsight.runtime.search import Search
from instances import InvalidTypeError, InvalidValueError
from instances.arrays import IntArray
from instances.problem.schedule import TimedSchedule
from instances.validation import as_exact

from .errors import ScheduleCheckError
from .goals import exact_total_latency
from .problem import Problem
from .result import Bound, Progress, Result, StopReason, interval_text, percent, relative_gap

NEAR = 1e-6
"""Relative distance from the lower bound below which float costs are recomputed as fractions."""


class Interval:
    """Best schedule, lower bounds, clock and log of one solve.

    Parameters
    ----------
    problem : Problem
        The problem that is searched, perhaps without idle gaps.
    search : Search or None, default None
        Clock, progress callback, and gap at which to stop. If the callback fails, the clock is
        interrupted.
    offset : int, default 0
        Cost of the original problem less the cost of ``problem``. Reported costs include it.

    Attributes
    ----------
    source : Instance or Workload
        Requests and machines of the problem.
    schedule : Any
        Best schedule so far, of the class that the problem requires; None until there is one.
    bounds : dict[str, Bound]
        Largest lower bound of each name.
    phase : str
        Name of the present phase, for progress reports.
    nodes : int
        Branch-and-bound nodes, search states or moves so far.
    stop_reason : StopReason
        Why the solve ended; valid after its end.
    root_bound : int or None
        Exact lower bound before any search; None until there is one.
    proof : Any
        Prices or paths that prove `root_bound` or a larger bound, or None.
    horizon : int
        Round by which every optimal schedule completes; 0 until one is proved.
    first_token_bound : float
        Lower bound on the mean time to first token, in seconds.
    served : int64 array
        Positions of the requests of the best schedule, shape (k,).
    log : list[Progress]
        One line for each improvement.
    """

    def __init__(self, problem: Problem, search: Search | None = None, offset: int = 0) -> None:
        self._search = search or Search()
        self.problem, self.source, self.offset = problem, problem.source, offset
        self.clock = self._search.clock
        self.bounds: dict[str, Bound] = {}
        self.phase, self.nodes, self.horizon = "heuristics", 0, 0
        self.stop_reason: StopReason = "stalled"
        self.root_bound: int | None = None
        self.proof: Any = None
        self.first_token_bound = 0.0
        self.served: IntArray = np.arange(len(self.source))
        self.log: list[Progress] = []
        self.lower_bound: Any = 0
        self.schedule: Any = None
        self._cost: int | float = math.inf
        self._exact: Fraction | None = None
        self._error: BaseException | None = None
        self._counts_late = problem.limits is not None
        if self._counts_late:
            self._cost, self.served = len(self.source), np.zeros(0, dtype=np.int64)

    @property
    def upper_bound(self) -> Any:
        """Return the cost of the best schedule so far: an integer, or seconds as a fraction.

        The fraction is computed on demand, which takes seconds if there are many rounds.
        """
        if not isinstance(self._cost, float):
            return self._cost
        if self._exact is None:
            exact = exact_total_latency(self.schedule)
            self._exact = Fraction(self._cost) if exact is None else exact
        return self._exact

    @property
    def certified_lower_bound(self) -> Any:
        """Return the largest lower bound proved in exact arithmetic or with directed rounding."""
        return max((one.value for one in self.bounds.values() if one.certified), default=0)

    @property
    def is_proved(self) -> bool:
        """Return whether the lower bound equals the upper bound."""
        return self._may_meet and self.upper_bound == self.lower_bound

    @property
    def is_close(self) -> bool:
        """Return whether the gap is at most the requested gap."""
        gap = self._search.gap
        if gap == 0 or not math.isfinite(self._cost):
            return False
        whole = len(self.source) if self._counts_late else self._cost + self.offset
        return self._cost - float(self.lower_bound) <= gap * whole

    @property
    def _may_meet(self) -> bool:
        """Return whether the bounds are so close in floats that only fractions can compare them."""
        return not isinstance(self._cost, float) or self.lower_bound >= self._cost * (1 - NEAR)

    def apart(self, found: Callable[[Any], object], must_stop: Callable[[], bool]) -> Interval:
        """Return a new interval of the same problem, for a search in another thread.

        Parameters
        ----------
        found : Callable[[Schedule], object]
            Called in that thread with each better schedule.
        must_stop : Callable[[], bool]
            Polled in that thread; returning True ends its search.
        """
        search = Search(Clock(should_stop=must_stop), progress=lambda _: found(other.schedule))
        other = Interval(self.problem, search)
        return other

    def is_done(self) -> bool:
        """Return whether the solve must end; if so, record the reason."""
        if self.is_proved or self.clock.must_stop():
            self.note_stop()
            return True
        return False

    def note_stop(self) -> None:
        """Record why the solve ends now: proof, gap, interruption, time limit or no progress."""
        if self.is_proved:
            self.stop_reason = "proof"
        else:
            self.stop_reason = "gap" if self.is_close else self.clock.stop_reason(SPARE_SECONDS)

    def offer(self, schedule: TimedSchedule, served: IntArray | None = None) -> bool:
        """Keep a feasible schedule if it is better than the best one; return whether it is.

        A schedule without preemption counts as a preemptive schedule too.

        Parameters
        ----------
        schedule : Schedule, PreemptiveSchedule, SecondsSchedule or FleetSchedule
            A schedule of all requests, or of those in ``served``.
        served : int64 array or None, default None
            Positions of the scheduled requests, shape (k,), if the goal is `OnTime`; None for all.

        Raises
        ------
        ScheduleCheckError
            The schedule is infeasible, belongs to another problem, or beats a proved lower bound.
        InvalidTypeError
            It is not a schedule of the required class.
        """
        schedule = self.problem.as_own(schedule)
        if not isinstance(schedule, self.problem.kind):
            reason = f"is not a {self.problem.kind.__name__}"
            raise InvalidTypeError(None, "schedule", schedule, reason)
        source = self.source if served is None else self.source.of(served)
        if schedule.problem is not source and schedule.problem.digest != source.digest:
            raise ScheduleCheckError(f"a schedule belongs to another problem: {schedule.problem!r}")
        cost = self.problem.cost(schedule, served)
        if cost >= self._cost and self.schedule is not None:
            return False
        violations = schedule.violations()
        if violations:
            raise ScheduleCheckError(f"a schedule is infeasible: {violations[0]}")
        self.schedule, self._cost, self._exact = schedule, cost, None
        self.served = np.arange(len(self.source)) if served is None else served
        self._check("the best schedule")
        return True

    def prove(
        self, bound: int | Fraction, name: str, *, certified: bool = True, proof: Any = None
    ) -> None:
        """Record a lower bound on the cost if it is better than the last one of this name.

        Parameters
        ----------
        bound : int or Fraction
            The lower bound. Fractions of rounds or of late requests are rounded up.
        name : str
            Name of the bound.
        certified : bool, default True
            Whether it is proved in exact arithmetic or with directed rounding.
        proof : Any, default None
            Prices that prove the bound before any search. The best ones are kept as `proof`.

        Raises
        ------
        ScheduleCheckError
            The bound exceeds the cost of a feasible schedule.
        InvalidTypeError
            The bound is neither an integer nor a fraction.
        """
        exact: Any = as_exact(bound, None, "lower bound")
        if self._counts_late or not self.problem.in_seconds:
            exact = math.ceil(exact)
        if proof is not None and (self.root_bound is None or exact > self.root_bound):
            self.root_bound, self.proof = exact, proof
        known = self.bounds.get(name)
        if known is None or (exact, certified) > (known.value, known.certified):
            self.bounds[name] = Bound(exact, certified)
        if exact > self.lower_bound:
            self.lower_bound = exact
            self._check(f"the lower bound {name!r}")

    def claim(self, bound: int, name: str) -> None:
        """Record a number that the user claims to be a lower bound. It never ends the solve.

        Raises
        ------
        InvalidValueError
            The number exceeds the cost of the best schedule.
        """
        self.bounds[name] = Bound(bound - self.offset, certified=False, claimed=True)
        self.refuse_false_claims()

    def refuse_false_claims(self) -> None:
        """Raise an error if a claimed bound exceeds the cost of the best schedule.

        Raises
        ------
        InvalidValueError
            A claimed bound is false.
        """
        for name, bound in self.bounds.items():
            if bound.claimed and bound.value > self.upper_bound:
                cost, value = self.upper_bound + self.offset, bound.value + self.offset
                what = f"the {self.problem.goal_name} of a schedule, {cost}"
                reason = f"exceeds {what}: {name} does not hold"
                raise InvalidValueError(None, "lower bound", value, reason)

    @contextmanager
    def kept_when_interrupted(self) -> Iterator[None]:
        """Catch a KeyboardInterrupt in the ``with`` block if there is a schedule; keep the bounds.

        An exception of the progress callback is raised at the end of the block.
        """
        try:
            yield
        except KeyboardInterrupt:
            if self.schedule is None:
                raise
            self.keep_error(KeyboardInterrupt())
        if isinstance(self._error, KeyboardInterrupt):
            self.stop_reason = "proof" if self.is_proved else "interrupted"
        elif self._error is not None:
            raise self._error

    def keep_error(self, error: BaseException) -> None:
        """Store an exception that must not pass through a solver's callback, and stop the solve."""
        self._error = self._error or error
        self.clock.interrupt()

    @property
    def latest_completion(self) -> int:
        """Return a round by which every optimal schedule of the instance completes."""
        if self.horizon or self.problem.goal == "makespan":
            return self.horizon or int(self.upper_bound)
        # No latency of an optimal schedule exceeds the total latency of another schedule.
        return int(self.source.arrival_times.max()) + int(self.upper_bound)

    def result(self, source: Any = None, *, horizon: int = 0) -> Result:
        """Return the result of the solve.

        Parameters
        ----------
        source : Instance or Workload or None, default None
            The original problem, if a modified problem was searched; `schedule` is then one of it.
        horizon : int, default 0
            A round by which every optimal schedule of ``source`` completes; 0 if none is known.
        """
        offset, known = self.offset, self.bounds.items()
        return Result(
            problem=self.source if source is None else source,
            goal=self.problem.goal,
            preemption=self.problem.preemption,
            schedule=self.schedule,
            cost=self.upper_bound + offset,
            bounds={name: one._replace(value=one.value + offset) for name, one in known},
            stop_reason=self.stop_reason,
            runtime=self.clock.seconds(),
            nodes=self.nodes,
            horizon=horizon,
            root_bound=None if self.root_bound is None else self.root_bound + offset,
            first_token_bound=self.first_token_bound,
            log=tuple(self.log),
            proof=self.proof,
        )

    def _check(self, news: str) -> None:
        """Compare the bounds and report them to the callback; ``news`` names the new one."""
        if self.schedule is not None and self._may_meet and self.lower_bound > self.upper_bound:
            raise ScheduleCheckError(
                f"{news} contradicts another bound: no schedule costs less than "
                f"{self.lower_bound}, and one costs {self.upper_bound}"
            )
        if self.is_close:
            self.clock.interrupt()
        if self.schedule is None and not self._counts_late:
            return
        line = self._progress()
        self.log.append(line)
        # A callback that failed is not called again: its error is raised at the end of the solve.
        if self._error is None:
            try:
                self._search.report(line)
            except BaseException as error:  # noqa: BLE001 (raised at the end of the solve)
                self.keep_error(error)

    def _progress(self) -> Progress:
        """Return the progress line that is reported."""
        lower, upper = self.lower_bound + self.offset, self._cost + self.offset
        if self._counts_late:
            lower, upper = len(self.source) - upper, len(self.source) - lower
        about = self.source, self.problem.goal
        text, gap = interval_text(*about, lower, upper), relative_gap(*about, lower, upper)
        if not self._counts_late:
            text = f"{text}, gap {percent(gap)}"
            if self.problem.in_seconds:
                lower, upper = float(lower) / len(self.source), float(upper) / len(self.source)
        return Progress(self.clock.seconds(), self.phase, lower, upper, gap, self.nodes, text)
