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
from .extensions.bounds import OwnBound
from .integer_program.models import Formulation
from .outcomes.proofs import Proof
from .outcomes.results import PREEMPTIVE, Goal, SolveResult
from .outcomes.solve_state import SolveState
from .relaxation.methods import LARGEST_RELAXATION
from .runtime.search import Search
from .strategies.beams import Beams
from .strategies.configurations import Configurations
from .strategies.counts import Counts
from .strategies.makespan import Makespan
from .strategies.mip import IntegerProgram
from .strategies.openings import OPENINGS
from .strategies.paths import Paths
from .strategies.preemptive import Preemptive
from .strategies.strategy import Problem, Strategy

METHODS: dict[str, tuple[Strategy, ...]] = {
    "auto": (
        Paths(),
        Counts(),
        IntegerProgram(most_starts=LARGEST_RELAXATION),
        Beams(),
        Makespan(),
        Preemptive(),
    ),
    "paths": (Paths(),),
    "configurations": (Configurations(),),
    "counts": (Counts(),),
    "mip": (IntegerProgram(), Makespan()),
    "beams": (Beams(),),
}
"""Strategies of each method, in the order in which they are tried."""


@dataclass(frozen=True, eq=False)
class Task:
    """Goal and methods of a solve in rounds.

    Attributes
    ----------
    goal : Goal
        Objective, and whether preemption is allowed.
    strategies : tuple[Strategy, ...]
        Strategies in the order in which they are tried.
    formulation : Formulation
        Formulation of the integer programs.
    bounds : tuple[OwnBound, ...]
        User-defined bounds.
    """

    goal: Goal
    strategies: tuple[Strategy, ...]
    formulation: Formulation = "dense"
    bounds: tuple[OwnBound, ...] = ()

    def check(self, instance: Instance, search: Search) -> None:
        """Check that the user-defined bounds and start can be used.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            Weights where requests may be stopped; a bound of another goal; memory that is not
            counted in tokens; an invalid start.
        """
        if self.goal == PREEMPTIVE:
            instance.refuse_weights("is not 1: preemptive=True counts every request alike")
        if self.bounds:
            instance.require_tokens()
        for bound in self.bounds:
            if not bound.holds_of(self.goal):
                reason = f"is of the {bound.goal.replace('_', ' ')}"
                raise InvalidValueError(None, "bound", bound.name, reason)
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


def solve_rounds(instance: Instance, task: Task, search: Search) -> SolveResult:
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
        state = SolveState(
            opening.instance, search.clock, search.progress, task.goal, search.gap, opening.offset
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
                task.formulation,
                prices=None if proved is None else opening.prices_of(proved[1]),
            )
            _run(task.strategies, problem, state)
            is_open = not state.is_proved and state.stop_reason != "interrupted"
            if is_open and state.objective == "total_latency":
                flow_bound = small_transportation_bound(opening.instance)
                state.raise_lower(flow_bound or 0, certified=True)
        state.raise_kept_error()
        state.refuse_false_claims()
        state.proof = opening.restored_proof(state.proof)
        if proved is not None and proved[0] == state.certified_lower_bound + state.offset:
            # The search proved no more than these prices do.
            state.root_bound, state.proof = state.certified_lower_bound, proved[1]
        return state.result(instance, opening.restore(state.best), horizon=opening.horizon(state))


def _take_bounds(
    bounds: tuple[OwnBound, ...], instance: Instance, state: SolveState
) -> tuple[int, Proof] | None:
    """Apply the user-defined bounds by kind, claims or prices; return the best prices."""
    best: tuple[int, Proof] | None = None
    for bound in bounds:
        value = bound.of(instance)
        if isinstance(value, int):
            state.own_bounds[bound.label] = value, False
            state.refuse_false_claims()
            continue
        proved = proved_value(bound, value, instance, state.objective)
        state.own_bounds[bound.label] = proved, True
        state.raise_lower(proved - state.offset, certified=True)
        if (state.objective == PREEMPTIVE) in value.optima and (best is None or proved > best[0]):
            best = proved, value
    return best


def proved_value(bound: OwnBound, prices: Proof, instance: Instance, goal: Goal) -> int:
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


def strategies_for(method: str | Strategy, objective: Goal) -> tuple[Strategy, ...]:
    """Return the requested strategies in the order in which they are tried.

    Raises
    ------
    UnknownNameError
        There is no such method; the message lists the known ones.
    InvalidValueError
        None of the strategies minimises the objective.
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
    able = tuple(strategy for strategy in asked if objective in strategy.objectives)
    if not able:
        reason = f"does not minimise the {objective.replace('_', ' ')}"
        name = method if isinstance(method, str) else method.name
        raise InvalidValueError(None, "method", name, reason)
    return able


def _run(strategies: tuple[Strategy, ...], problem: Problem, state: SolveState) -> None:
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
