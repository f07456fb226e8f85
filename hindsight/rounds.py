"""Solve in rounds: run strategies that close the interval, with user-defined bounds.

Idle gaps are removed, list schedules and volumes give the first interval, strategies run until the
bounds meet, and the gaps are restored (`hindsight.strategies.openings`).
"""

from __future__ import annotations

from dataclasses import dataclass

from instances import FleetSchedule, Instance, Schedule, UnknownNameError
from instances.errors import InvalidTypeError, InvalidValueError
from instances.problem.preemptive_schedule import PreemptiveSchedule
from instances.validation import as_name

from .bounds.transportation import small_transportation_bound
from .exact.starts import LARGEST_RELAXATION
from .extensions.bounds import OwnBound
from .outcomes.goals import PREEMPTIVE, Goal, Optimum, Preemption
from .outcomes.interval import Interval
from .outcomes.proofs import Proof
from .outcomes.result import Result
from .runtime.search import Search
from .strategies.beams import Beams
from .strategies.configurations import Configurations
from .strategies.makespan import Makespan
from .strategies.openings import OPENINGS
from .strategies.paths import Paths
from .strategies.preemptive import Preemptive
from .strategies.program import IntegerProgram
from .strategies.strategy import Problem, Strategy

METHODS: dict[str, tuple[Strategy, ...]] = {
    "auto": (
        Paths(),
        IntegerProgram(Beams(), most_starts=LARGEST_RELAXATION),
        Beams(),
        Makespan(),
        Preemptive(),
    ),
    "paths": (Paths(),),
    "configurations": (Configurations(),),
    "mip": (IntegerProgram(), Makespan()),
    "beams": (Beams(),),
}
"""Strategies of each method, in the order in which they are tried."""


@dataclass(frozen=True, eq=False)
class Task:
    """Goal and methods of a solve in rounds.

    Attributes
    ----------
    goal : Optimum
        Goal, and whether preemption is allowed.
    strategies : tuple[Strategy, ...]
        Strategies in the order in which they are tried.
    bounds : tuple[OwnBound, ...]
        User-defined bounds.
    """

    goal: Optimum
    strategies: tuple[Strategy, ...]
    bounds: tuple[OwnBound, ...] = ()

    @property
    def about(self) -> tuple[Goal, Preemption]:
        """Return the goal and the preemption of an `Interval`."""
        if self.goal == PREEMPTIVE:
            return "latency", "keep"
        return ("makespan" if self.goal == "makespan" else "latency"), "never"

    def check(self, instance: Instance, search: Search) -> None:
        """Check that the user-defined bounds and start can be used.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            Weights where requests may be stopped; bounds of memory that is not
            counted in tokens; an invalid start.
        """
        if self.goal == PREEMPTIVE:
            instance.refuse_weights("is not 1: with preemption every request counts alike")
        if self.bounds:
            instance.require_tokens()
        kinds = (Schedule, PreemptiveSchedule) if self.goal == PREEMPTIVE else (Schedule,)
        is_fleet = instance.replicas > 1
        search.check_start(
            (FleetSchedule,) if is_fleet else kinds,
            lambda start: start.problem.digest == instance.digest,
            "another instance",
        )
        for part in search.start.parts if is_fleet and search.start is not None else ():
            if part is not None and not isinstance(part, kinds):
                names = " or ".join(kind.__name__ for kind in kinds)
                raise InvalidTypeError(None, "start", part, f"is a part that is not a {names}")


def solve_rounds(instance: Instance, task: Task, search: Search) -> Result:
    """Solve an instance whose memory is counted in tokens.

    Parameters
    ----------
    instance : Instance
        The problem.
    task : Task
        The task, checked.
    search : Search
        The search options, checked.

    Raises
    ------
    InvalidValueError
        A method cannot be used here.
    SolverError
        HiGHS failed.
    """
    opening = OPENINGS[task.goal](instance)
    proved: tuple[int, Proof] | None = None
    with search.clock.listening():
        state = Interval(
            opening.instance,
            *task.about,
            search.clock,
            search.progress,
            search.gap,
            opening.offset,
        )
        with state.kept_when_interrupted():
            first_bounds = opening.begin(state, search.start)
            proved = _take_bounds(task.bounds, instance, state)
            problem = Problem(
                opening.instance,
                task.goal,
                first_bounds,
                search.threads,
                search.seed,
                prices=None if proved is None else opening.prices_of(proved[1]),
            )
            _run(task.strategies, problem, state)
            is_open = not state.is_proved and state.stop_reason != "interrupted"
            if is_open and state.optimum == "latency":
                flow_bound = small_transportation_bound(opening.instance)
                state.prove(flow_bound or 0, "transportation")
        state.refuse_false_claims()
        state.proof = opening.restored_proof(state.proof)
        if proved is not None and proved[0] == state.certified_lower_bound + state.offset:
            # The search proved no more than these prices do.
            state.root_bound, state.proof = state.certified_lower_bound, proved[1]
        schedule = opening.restore(state.schedule)
        return state.result(instance, schedule, horizon=opening.horizon(state))


def _take_bounds(
    bounds: tuple[OwnBound, ...], instance: Instance, state: Interval
) -> tuple[int, Proof] | None:
    """Apply the user-defined bounds by kind, claims or prices; return the best prices."""
    best: tuple[int, Proof] | None = None
    for bound in bounds:
        value = bound.of(instance)
        if isinstance(value, int):
            state.claim(value, bound.label)
            continue
        proved = proved_value(bound, value, instance, state.optimum)
        state.prove(proved - state.offset, bound.label)
        if (state.optimum == PREEMPTIVE) in value.optima and (best is None or proved > best[0]):
            best = proved, value
    return best


def proved_value(bound: OwnBound, prices: Proof, instance: Instance, goal: Optimum) -> int:
    """Return the bound on ``goal`` that the prices of a user-defined bound prove.

    Raises
    ------
    InvalidValueError
        The prices belong to another instance or goal.
    """
    from .certificates.writing import bound_of_prices

    if goal == "makespan":
        raise InvalidValueError(bound.label, "value", prices, "are prices of total latency")
    preemptive = goal == PREEMPTIVE or False not in prices.optima
    return bound_of_prices(instance, prices, preemptive=preemptive)


def strategies_for(method: str | Strategy, goal: Optimum) -> tuple[Strategy, ...]:
    """Return the requested strategies in the order in which they are tried.

    Raises
    ------
    UnknownNameError
        There is no such method; the message lists the known ones.
    InvalidValueError
        None of the strategies minimises the goal.
    InvalidTypeError
        ``method`` is neither a name nor a strategy of this package.
    """
    if isinstance(method, Strategy):
        asked: tuple[Strategy, ...] = (method,)
    else:
        name = as_name(method, None, "method")
        if name not in METHODS:
            raise UnknownNameError("method", name, list(METHODS))
        asked = METHODS[name]
    able = tuple(strategy for strategy in asked if goal in strategy.objectives)
    if not able:
        reason = f"does not minimise the goal {goal!r}"
        name = method if isinstance(method, str) else method.name
        raise InvalidValueError(None, "method", name, reason)
    return able


def _run(strategies: tuple[Strategy, ...], problem: Problem, state: Interval) -> None:
    """Run the first strategy that does not refuse, and the next ones if it gives up.

    Raises
    ------
    InvalidValueError
        All strategies refuse.
    """
    refusals = []
    has_run = False
    for strategy in strategies:
        if has_run and state.is_done():
            return
        refusal = strategy.refusal(problem)
        if refusal is None:
            strategy.run(problem, state)
            has_run = True
        else:
            refusals.append((strategy.name, refusal))
    if not has_run:
        name, refusal = refusals[0]
        raise InvalidValueError(None, "method", name, refusal)
