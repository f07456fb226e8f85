"""The interval around the optimum during a solve, which only ever shrinks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from hindsight.runtime.clock import SPARE_SECONDS, Clock
from instances import (
    FleetSchedule,
    Instance,
    InvalidTypeError,
    InvalidValueError,
    PreemptiveSchedule,
    Schedule,
)
from instances.problem.preemptive_schedule import AnySchedule
from instances.validation import as_exact

from .errors import ScheduleCheckError
from .proofs import Proof
from .results import (
    PREEMPTIVE,
    Goal,
    PreemptiveResult,
    Progress,
    SolveResult,
    StopReason,
    cost_of,
)


@dataclass(eq=False, repr=False)
class SolveState:
    """Best schedule, lower bounds, clock and log of one solve.

    Attributes
    ----------
    instance : Instance
        The instance being solved.
    clock : Clock
        Clock of the solve; it is interrupted if the callback fails.
    callback : Callable[[Progress], None] or None
        Called with every improvement.
    objective : Goal
        Objective of the bounds.
    gap : float
        Relative gap at which to stop.
    offset : int
        Difference between costs of the original instance, which are reported, and of ``instance``.
    lower_bound, certified_lower_bound : int
        Bounds proved, and proved in exact arithmetic.
    phase : str
        Label for progress reports.
    nodes : int
        Branch-and-bound nodes or search states so far.
    stop_reason : StopReason
        Why the solve ended, once it has.
    root_bound : int or None
        Exact bound before any search; None until there is one.
    proof : Proof or None
        Prices of ``instance`` that prove this bound or a larger one.
    horizon : int
        Round by which every optimal schedule completes; 0 until one is proved.
    log : list[Progress]
        One line for each improvement.
    own_bounds : dict[str, tuple[int, bool]]
        See `SolveResult`.
    """

    instance: Instance
    clock: Clock = field(default_factory=Clock)
    callback: Callable[[Progress], None] | None = None
    objective: Goal = "total_latency"
    gap: float = 0.0
    offset: int = 0
    lower_bound: int = 0
    certified_lower_bound: int = 0
    phase: str = "heuristics"
    nodes: int = 0
    stop_reason: StopReason = "stalled"
    root_bound: int | None = None
    proof: Proof | None = None
    horizon: int = 0
    log: list[Progress] = field(default_factory=list)
    own_bounds: dict[str, tuple[int, bool]] = field(default_factory=dict)
    _callback_error: BaseException | None = None
    _schedule: AnySchedule | None = None

    @property
    def best(self) -> AnySchedule:
        """Return the best schedule so far, of the kind that the objective requires."""
        assert self._schedule is not None
        return self._schedule

    @property
    def schedule(self) -> Schedule:
        """Return `best` as a schedule without preemption, of one machine or of a fleet."""
        assert isinstance(self._schedule, (Schedule, FleetSchedule))
        return self._schedule

    @property
    def upper_bound(self) -> int:
        """Return the cost of the best schedule so far."""
        return cost_of(self.best, self.objective)

    @property
    def is_proved(self) -> bool:
        """Tell whether the bounds meet."""
        return self._schedule is not None and self.upper_bound == self.lower_bound

    @property
    def is_close(self) -> bool:
        """Tell whether the bounds are within the requested gap."""
        if self.gap == 0 or self._schedule is None:
            return False
        return self.upper_bound - self.lower_bound <= self.gap * self.upper_bound

    def apart(
        self, found: Callable[[Schedule], object], must_stop: Callable[[], bool]
    ) -> SolveState:
        """Return a state for a thread beside this one's, which hands over better schedules.

        Parameters
        ----------
        found : Callable[[Schedule], object]
            Takes each better schedule.
        must_stop : Callable[[], bool]
            Ends the search of that thread.
        """

        def hand_over(_: Progress) -> None:
            found(state.schedule)

        state = SolveState(self.instance, Clock(should_stop=must_stop), hand_over)
        return state

    def is_done(self) -> bool:
        """Tell whether to stop, and note the reason."""
        if self.is_proved or self.clock.must_stop():
            self.note_stop()
            return True
        return False

    def note_stop(self) -> None:
        """Record why a phase ended without a proof."""
        if self.is_proved:
            self.stop_reason = "proof"
        else:
            self.stop_reason = "gap" if self.is_close else self.clock.stop_reason(SPARE_SECONDS)

    def offer(self, schedule: AnySchedule | FleetSchedule) -> bool:
        """Take a feasible schedule if it is better.

        A schedule without preemption counts as a preemptive schedule too.

        Raises
        ------
        ScheduleCheckError
            The schedule is infeasible, belongs to another instance, or beats a proved lower bound.
        InvalidTypeError
            It is not a schedule of the required kind.
        """
        if self.objective == PREEMPTIVE and isinstance(schedule, Schedule):
            schedule = PreemptiveSchedule.from_schedule(schedule)
        kind: type = PreemptiveSchedule if self.objective == PREEMPTIVE else Schedule
        if self.instance.replicas > 1:
            kind = FleetSchedule
        if not isinstance(schedule, kind):
            raise InvalidTypeError(None, "schedule", schedule, f"is not a {kind.__name__}")
        of = schedule.instance
        if of is not self.instance and of.digest != self.instance.digest:
            raise ScheduleCheckError(f"a solver's schedule is of another instance: {of!r}")
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
        self._schedule = cast(Any, schedule)
        self._report()
        return True

    def raise_lower(self, bound: int, *, certified: bool) -> None:
        """Take a lower bound on the optimum if it is better.

        Raises
        ------
        ScheduleCheckError
            It exceeds the cost of a feasible schedule.
        InvalidTypeError
            It is neither an integer nor a fraction; fractions are rounded up.
        """
        bound = math.ceil(as_exact(bound, None, "lower bound"))
        if bound > self.upper_bound:
            raise ScheduleCheckError(
                f"a lower bound of {bound} contradicts a schedule of {self.upper_bound}"
            )
        if certified:
            self.certified_lower_bound = max(self.certified_lower_bound, bound)
        if bound > self.lower_bound:
            self.lower_bound = bound
            self._report()

    def prove_root(self, bound: int, proof: Proof) -> None:
        """Take prices that prove a bound before any search; the best ones become the proof."""
        if self.root_bound is None or bound > self.root_bound:
            self.root_bound, self.proof = bound, proof
        self.raise_lower(bound, certified=True)

    def refuse_false_claims(self) -> None:
        """Refuse a number of a user-defined bound that exceeds the cost of the best schedule.

        Raises
        ------
        InvalidValueError
            There is one.
        """
        cost, what = self.upper_bound + self.offset, self.objective.replace("_", " ")
        for label, (bound, is_proved) in self.own_bounds.items():
            if not is_proved and bound > cost:
                reason = f"exceeds the {what} of a schedule, {cost}: {label} does not hold"
                raise InvalidValueError(None, "lower bound", bound, reason)

    @contextmanager
    def kept_when_interrupted(self) -> Iterator[None]:
        """Let a KeyboardInterrupt end the search and keep the interval, once there is one."""
        try:
            yield
        except KeyboardInterrupt:
            if self._schedule is None:
                raise
            self.keep_error(KeyboardInterrupt())

    def keep_error(self, error: BaseException) -> None:
        """Remember an exception that must not travel through a solver's callback."""
        self._callback_error = self._callback_error or error
        self.clock.interrupt()

    def raise_kept_error(self) -> None:
        """Raise the exception that `keep_error` stored; a Ctrl-C becomes the stop reason."""
        if isinstance(self._callback_error, KeyboardInterrupt):
            # Ctrl-C may arrive between the two.
            self.lower_bound = max(self.lower_bound, self.certified_lower_bound)
            self.stop_reason = "proof" if self.is_proved else "interrupted"
        elif self._callback_error is not None:
            raise self._callback_error

    def result(self, instance: Instance, schedule: AnySchedule, *, horizon: int) -> SolveResult:
        """Return the result for the original instance.

        Parameters
        ----------
        instance, schedule : Instance, Schedule or PreemptiveSchedule
            The original instance, and its best schedule.
        horizon : int
            A round by which every optimal schedule completes.
        """
        offset = self.offset
        return (PreemptiveResult if self.objective == PREEMPTIVE else SolveResult)(
            instance=instance,
            schedule=cast(Any, schedule),
            lower_bound=self.lower_bound + offset,
            certified_lower_bound=self.certified_lower_bound + offset,
            stop_reason=self.stop_reason,
            runtime=self.clock.seconds(),
            nodes=self.nodes,
            horizon=horizon,
            root_bound=None if self.root_bound is None else self.root_bound + offset,
            log=tuple(self.log),
            proof=self.proof,
            objective="makespan" if self.objective == "makespan" else "total_latency",
            own_bounds=self.own_bounds,
        )

    def _report(self) -> None:
        if self.is_close:
            self.clock.interrupt()
        progress = Progress(
            self.clock.seconds(),
            self.phase,
            self.upper_bound + self.offset,
            self.lower_bound + self.offset,
            self.nodes,
        )
        self.log.append(progress)
        # A callback that failed is not called again: its error is about to be raised.
        if self.callback is not None and self._callback_error is None:
            try:
                self.callback(progress)
            except BaseException as error:  # noqa: BLE001 (re-raised by solve)
                self.keep_error(error)
