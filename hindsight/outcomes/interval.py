"""The lower and upper bound on an optimum during a solve. They only ever improve.

The upper bound is the cost of the best schedule found so far. Every schedule that a search finds is
checked here, and its cost is computed here. Every new lower bound is compared with the upper bound.
Costs are an integer number of rounds for an instance, and seconds as a fraction for a workload. For
the goal `OnTime` they are numbers of late requests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from hindsight.runtime.clock import SPARE_SECONDS
from hindsight.runtime.compilation import reported_compilations
from hindsight.runtime.search import Search
from instances import InvalidValueError
from instances.arrays import IntArray
from instances.problem.schedule import TimedSchedule
from instances.validation import as_exact

from .errors import ScheduleCheckError
from .goals import exact_total_latency
from .problem import Problem
from .result import Bound, Progress, Result, StopReason, interval_text, percent, relative_gap

NEAR = 1e-6
"""Costs in float seconds are computed exactly if the bounds have at most this relative gap."""


class Interval:
    """Best schedule so far, lower bounds, clock and log of one solve.

    Parameters
    ----------
    problem : Problem
        The problem to solve. It may be the user's problem after its idle gaps were removed (rounds
        in which no optimal schedule runs a request).
    search : Search or None, default None
        Clock, progress callback, and relative gap at which to stop. If the progress callback raises
        an exception, the solve is interrupted.

    Attributes
    ----------
    source : Instance or Workload
        Requests and machines of ``problem``.
    schedule : Any
        Best schedule so far. None before the first schedule.
    bounds : dict[str, Bound]
        Lower bounds on the cost. Keys are the names of bounding methods. Each value is the largest
        bound of its method.
    phase : str
        Name of the present phase of the solve, for progress reports.
    moves : int
        Number of local-search moves so far, plus the number of partial schedules that beam searches
        have extended.
    stop_reason : StopReason
        Why the solve ended. It is valid only after the end.
    proof : Any
        Proof of the largest lower bound that was recorded with a proof. It consists of prices, or
        of a path graph, whose nodes are sets of running requests. None if there is no proof.
    proof_bound : int or float
        The bound that `proof` proves. Minus infinity if there is no proof.
    horizon : int
        Round by which every optimal schedule has completed; 0 until such a round is proved.
    first_token_bound : float
        Lower bound on the mean time to first token of every schedule, in seconds.
    served : int64 array
        Indices in ``source`` of the requests that `schedule` serves, shape (k,).
    log : list[Progress]
        One report for each improvement of a bound.
    """

    def __init__(self, problem: Problem, search: Search | None = None) -> None:
        self._search = search or Search()
        self.problem, self.source = problem, problem.source
        self.clock = self._search.clock
        self.bounds: dict[str, Bound] = {}
        self.phase, self.moves, self.horizon = "heuristics", 0, 0
        self.stop_reason: StopReason = "stalled"
        self.proof: Any = None
        self.proof_bound: Any = -math.inf
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

        The exact fraction is computed only when this property is read. That takes seconds of
        running time if the schedule has many rounds.
        """
        if not isinstance(self._cost, float):
            return self._cost
        if self._exact is None:
            exact = exact_total_latency(self.schedule)
            self._exact = Fraction(self._cost) if exact is None else exact
        return self._exact

    @property
    def is_proved(self) -> bool:
        """Return whether the lower bound equals the upper bound, so that `schedule` is optimal."""
        return self._may_meet and self.upper_bound == self.lower_bound

    @property
    def is_close(self) -> bool:
        """Return whether the relative gap of the bounds is so small that the solve may stop.

        The user gives the largest gap at which it may stop. Without one, return False. The relative
        gap is (upper - lower) / upper bound on the cost. For the goal `OnTime` it is
        (upper - lower) / number of requests.
        """
        gap = self._search.gap
        if gap == 0 or not math.isfinite(self._cost):
            return False
        whole = len(self.source) if self._counts_late else self._cost
        return self._cost - float(self.lower_bound) <= gap * whole

    @property
    def _may_meet(self) -> bool:
        """Return whether the bounds must be compared exactly, because they may be equal.

        For integer costs it is always True: comparing them exactly is cheap. For costs in float
        seconds it is True if the relative gap is at most `NEAR`. Rounding errors are smaller than
        that, so with a larger gap the lower bound is below the upper bound.
        """
        return not isinstance(self._cost, float) or self.lower_bound >= self._cost * (1 - NEAR)

    def is_done(self) -> bool:
        """Return whether the solve must end; if so, record the reason in `stop_reason`."""
        if self.is_proved or self.clock.must_stop():
            self.note_stop()
            return True
        return False

    def note_stop(self) -> None:
        """Set `stop_reason` to the reason why the solve ends now.

        The reason is a proof of optimality, the requested gap, an interruption, the time limit, or
        that no method makes progress.
        """
        if self.is_proved:
            self.stop_reason = "proof"
        else:
            self.stop_reason = "gap" if self.is_close else self.clock.stop_reason(SPARE_SECONDS)

    def offer(self, schedule: TimedSchedule, served: IntArray | None = None) -> None:
        """Make a schedule the best one if it costs less.

        If the problem allows preemption, a schedule without preemption is converted and allowed.

        Parameters
        ----------
        schedule : Schedule, PreemptiveSchedule, SecondsSchedule or FleetSchedule
            A schedule of all requests of the problem, or of the requests in ``served``.
        served : int64 array or None, default None
            Indices of the scheduled requests, shape (k,), for the goal `OnTime`. None means that
            the schedule has all requests.

        Raises
        ------
        ScheduleCheckError
            The schedule is infeasible, belongs to another problem, or costs less than a proved
            lower bound.
        """
        schedule = self.problem.as_own(schedule)
        source = self.source if served is None else self.source.of(served)
        if schedule.problem is not source and schedule.problem.digest != source.digest:
            raise ScheduleCheckError(f"a schedule belongs to another problem: {schedule.problem!r}")
        cost = self.problem.cost(schedule, served)
        if cost >= self._cost and self.schedule is not None:
            return
        for violation in schedule.violations():
            raise ScheduleCheckError(f"a schedule is infeasible: {violation}")
        self.schedule, self._cost, self._exact = schedule, cost, None
        self.served = np.arange(len(self.source)) if served is None else served
        self._check("the best schedule")

    def prove(
        self, bound: int | Fraction, name: str, *, certified: bool = True, proof: Any = None
    ) -> None:
        """Record a proved lower bound on the cost if it exceeds the last bound of this name.

        Parameters
        ----------
        bound : int or Fraction
            The lower bound. Fractions of rounds or of late requests are rounded up. Seconds are not
            rounded.
        name : str
            Name of the method that proves the bound.
        certified : bool, default True
            Whether the bound is proved in exact arithmetic or with directed rounding, and not only
            by a floating-point solver.
        proof : Any, default None
            Prices or path graphs that prove the bound. They are stored in the attribute `proof` if
            the bound exceeds those of all earlier proofs.

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
        if proof is not None and exact > self.proof_bound:
            self.proof_bound, self.proof = exact, proof
        known = self.bounds.get(name)
        if known is None or (exact, certified) > (known.value, known.certified):
            self.bounds[name] = Bound(exact, certified)
        if exact > self.lower_bound:
            self.lower_bound = exact
            self._check(f"the lower bound {name!r}")

    def claim(self, bound: int | Fraction, name: str) -> None:
        """Record a number that the user claims to be a lower bound on the cost, without a proof.

        A claimed bound is reported in the result. It is not used to prove a schedule optimal, so it
        never ends the solve.

        Parameters
        ----------
        bound : int or Fraction
            The claimed bound on the cost of the user's problem. It is rounded up, because costs are
            integers.
        name : str
            Name of the claim in the result and in error messages.

        Raises
        ------
        InvalidValueError
            The number exceeds the cost of the best schedule, so the claim is false.
        """
        self.bounds[name] = Bound(math.ceil(bound), certified=False, claimed=True)
        self.refuse_false_claims()

    def refuse_false_claims(self) -> None:
        """Raise an error if a bound that the user claims exceeds the cost of the best schedule.

        Raises
        ------
        InvalidValueError
            A claimed bound exceeds that cost, so the claim is false.
        """
        for name, bound in self.bounds.items():
            if bound.claimed and bound.value > self.upper_bound:
                what = f"the {self.problem.goal_name} of a schedule, {self.upper_bound}"
                reason = f"exceeds {what}: {name} does not hold"
                raise InvalidValueError(None, "lower bound", bound.value, reason)

    @contextmanager
    def kept_when_interrupted(self) -> Iterator[None]:
        """Let the solve in the ``with`` block return its bounds when Ctrl-C ends it.

        Ctrl-C raises KeyboardInterrupt in the block. This exception is caught if a feasible
        schedule has been found, else the caller gets it. If the progress callback raised another
        exception during the block, that one is raised again at the end of the block.
        """
        try:
            with reported_compilations(self._report_compilation):
                yield
        except KeyboardInterrupt:
            if self.schedule is None:
                raise
            self._keep(KeyboardInterrupt())
        if isinstance(self._error, KeyboardInterrupt):
            self.stop_reason = "proof" if self.is_proved else "interrupted"
        elif self._error is not None:
            raise self._error

    def guarded(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a callback that stores an exception of ``function``, and then stops the solve.

        Only the first exception is stored. It is raised after the solve: exceptions in callbacks
        that HiGHS calls must not pass through HiGHS. The callback then returns True.
        """

        def run(*given: Any) -> Any:
            try:
                return function(*given)
            except BaseException as error:  # noqa: BLE001 (raised at the end of the solve)
                self._keep(error)
                return True

        return run

    def _keep(self, error: BaseException) -> None:
        self._error = self._error or error
        self.clock.interrupt()

    def result(self, source: Any = None) -> Result:
        """Return the result of the solve.

        Parameters
        ----------
        source : Instance or Workload or None, default None
            The user's problem, if idle gaps (rounds in which no optimal schedule runs a request)
            were removed from it before the solve. `schedule` must then be a schedule of the user's
            problem already.
        """
        return Result(
            problem=self.source if source is None else source,
            goal=self.problem.goal,
            preemption=self.problem.preemption,
            schedule=self.schedule,
            cost=self.upper_bound,
            bounds=dict(self.bounds),
            stop_reason=self.stop_reason,
            runtime=self.clock.seconds(),
            first_token_bound=self.first_token_bound,
            log=tuple(self.log),
            proof=self.proof,
        )

    def _check(self, news: str) -> None:
        """Compare the lower bound with the upper bound; log both and call the progress callback.

        If the gap between them is small enough for the user, end the solve.

        Parameters
        ----------
        news : str
            Name of the bound or schedule that has just improved. The error message begins with it.

        Raises
        ------
        ScheduleCheckError
            The lower bound exceeds the upper bound.
        """
        if self.schedule is not None and self._may_meet and self.lower_bound > self.upper_bound:
            lower, upper = self.lower_bound, self.upper_bound
            reason = f"no schedule costs less than {lower}, but a feasible one costs {upper}"
            raise ScheduleCheckError(f"{news} contradicts another bound: {reason}")
        if self.is_close:
            self.clock.interrupt()
        if self._has_interval:
            self.log.append(self._progress())
            self._report(self.log[-1])

    def _report_compilation(self, _: str, is_ready: bool) -> None:
        """Report the present bounds when Numba begins or ends the compilation of a function.

        ``is_ready`` is True at the end of the compilation.
        """
        if self._has_interval:
            news = self._progress()
            self._report(news if is_ready else replace(news, phase="compiling a loop (once)"))

    def _report(self, news: Progress) -> None:
        # If the progress callback has raised an exception in an earlier call, do not call it again.
        # The exception is raised at the end of the solve.
        if self._error is None:
            self.guarded(self._search.report)(news)

    @property
    def _has_interval(self) -> bool:
        return self.schedule is not None or self._counts_late

    def _progress(self) -> Progress:
        """Return the present bounds as a progress report."""
        lower, upper = self.lower_bound, self._cost
        if self._counts_late:
            lower, upper = len(self.source) - upper, len(self.source) - lower
        about = self.source, self.problem.goal
        text, gap = interval_text(*about, lower, upper), relative_gap(*about, lower, upper)
        if not self._counts_late:
            text = f"{text}, gap {percent(gap)}"
            if self.problem.in_seconds:
                lower, upper = float(lower) / len(self.source), float(upper) / len(self.source)
        return Progress(self.clock.seconds(), self.phase, lower, upper, gap, text)
