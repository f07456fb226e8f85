"""The interval around the optimum while a solve is running: it only ever shrinks."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from instances import Instance, Schedule

from .errors import ScheduleCheckError
from .proofs import Proof
from .results import Objective, Progress, StopReason, cost_of


class SolveState:
    """Best schedule, lower bounds, clock and log of one solve.

    Parameters
    ----------
    began : float or None, default None
        ``time.monotonic()`` from which the limit counts; None is now.

    Attributes
    ----------
    instance : Instance
        The instance being solved.
    objective : Objective
        What the bounds are bounds of.
    lower_bound, certified_lower_bound : int
        Proved, and proved in exact arithmetic.
    phase : str
        Label for progress reports.
    nodes : int
        Branch-and-bound nodes or search states so far.
    stop_reason : StopReason
        Why the solve ended, once it has.
    root_bound : int or None
        Exact bound before any search; None so far.
    proof : Proof or None
        Prices of ``instance`` that prove it.
    horizon : int
        A round by which every optimal schedule completes; 0 where none is proved so far.
    """

    def __init__(
        self,
        instance: Instance,
        time_limit: float | None,
        callback: Callable[[Progress], None] | None,
        interrupted: Callable[[], bool],
        objective: Objective = "total_latency",
        began: float | None = None,
    ) -> None:
        self.instance = instance
        self.objective: Objective = objective
        self.lower_bound = 0
        self.certified_lower_bound = 0
        self.phase = "heuristics"
        self.nodes = 0
        self.stop_reason: StopReason = "stalled"
        self.root_bound: int | None = None
        self.proof: Proof | None = None
        self.horizon = 0
        self.log: list[Progress] = []
        self._callback = callback
        self._callback_error: BaseException | None = None
        self._interrupted = interrupted
        self._began = time.monotonic() if began is None else began
        self._deadline = None if time_limit is None else self._began + time_limit
        self._schedule: Schedule | None = None

    @property
    def schedule(self) -> Schedule:
        """The best schedule so far."""
        assert self._schedule is not None
        return self._schedule

    @property
    def upper_bound(self) -> int:
        """Cost of the best schedule so far."""
        return cost_of(self.schedule, self.objective)

    @property
    def deadline(self) -> float | None:
        """``time.monotonic()`` at which time is up, or None."""
        return self._deadline

    @property
    def is_proved(self) -> bool:
        """Whether the bounds meet."""
        return self._schedule is not None and self.upper_bound == self.lower_bound

    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._began

    def seconds_left(self) -> float:
        """Until the deadline; infinite without one."""
        return math.inf if self._deadline is None else self._deadline - time.monotonic()

    def must_stop(self) -> bool:
        """Out of time, interrupted, or a callback failed: polled inside solvers."""
        return self._interrupted() or self._callback_error is not None or self.seconds_left() <= 0

    def is_done(self) -> bool:
        """Whether to go on; notes the reason where not."""
        if self.is_proved:
            self.stop_reason = "proof"
            return True
        if self.must_stop():
            self.note_stop()
            return True
        return False

    def note_stop(self) -> None:
        """Record why a phase ended without a proof."""
        if self.is_proved:
            self.stop_reason = "proof"
        elif self._interrupted():
            self.stop_reason = "interrupted"
        elif self.seconds_left() <= 0.05:
            self.stop_reason = "time-limit"
        else:
            self.stop_reason = "stalled"

    def offer(self, schedule: Schedule) -> bool:
        """Take a schedule if it is better; it must be feasible.

        Raises
        ------
        ScheduleCheckError
            It is not, or it beats a proved lower bound.
        """
        violations = schedule.violations()
        if violations:
            raise ScheduleCheckError(f"a solver's schedule is infeasible: {violations[0]}")
        cost = cost_of(schedule, self.objective)
        if self._schedule is not None and cost >= self.upper_bound:
            return False
        if cost < self.lower_bound:
            raise ScheduleCheckError(
                f"a schedule of {cost} contradicts a lower bound of {self.lower_bound}"
            )
        self._schedule = schedule
        self._report()
        return True

    def raise_lower(self, bound: int, *, certified: bool) -> None:
        """Take a lower bound on the optimum if it is better.

        Raises
        ------
        ScheduleCheckError
            It exceeds the cost of a feasible schedule.
        """
        if bound > self.upper_bound:
            raise ScheduleCheckError(
                f"a lower bound of {bound} contradicts a schedule of {self.upper_bound}"
            )
        if certified:
            self.certified_lower_bound = max(self.certified_lower_bound, bound)
        if bound > self.lower_bound:
            self.lower_bound = bound
            self._report()

    @contextmanager
    def kept_when_interrupted(self) -> Iterator[None]:
        """Have a KeyboardInterrupt end the search, not lose the interval, once there is one."""
        try:
            yield
        except KeyboardInterrupt:
            if self._schedule is None:
                raise
            self._callback_error = self._callback_error or KeyboardInterrupt()

    def keep_error(self, error: BaseException) -> None:
        """Remember an exception that must not travel through a solver's callback."""
        self._callback_error = self._callback_error or error

    def raise_kept_error(self) -> None:
        """Raise what `keep_error` remembered; Ctrl-C is the reason for having stopped."""
        if isinstance(self._callback_error, KeyboardInterrupt):
            # It may have come between the two.
            self.lower_bound = max(self.lower_bound, self.certified_lower_bound)
            self.stop_reason = "proof" if self.is_proved else "interrupted"
        elif self._callback_error is not None:
            raise self._callback_error

    def _report(self) -> None:
        progress = Progress(
            self.seconds(), self.phase, self.upper_bound, self.lower_bound, self.nodes
        )
        self.log.append(progress)
        # A callback that failed once is not called again: its error is on its way out.
        if self._callback is not None and self._callback_error is None:
            try:
                self._callback(progress)
            except BaseException as error:  # noqa: BLE001 (re-raised by solve)
                self._callback_error = error
