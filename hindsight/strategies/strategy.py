"""Strategies that close the interval around an optimum: interface, problem data and registry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Protocol, TypeVar, cast, get_args, runtime_checkable

import numpy as np

from hindsight.bounds.memory_prices import price_bound, useful_starts
from hindsight.configurations.proofs import StatePrices
from hindsight.extensions.cuts import OwnCut
from hindsight.integer_program.horizon import HorizonProof
from hindsight.integer_program.models import Formulation
from hindsight.integer_program.starts import StartSets, start_sets
from hindsight.outcomes.proofs import MemoryPrices
from hindsight.outcomes.results import Goal
from hindsight.outcomes.solve_state import SolveState
from hindsight.runtime.cores import available_cores
from instances import Instance, InvalidTypeError, InvalidValueError
from instances.registry import Registry
from instances.user_modules import described
from instances.validation import check_ranges


@dataclass(frozen=True, eq=False)
class Problem:
    """An optimisation problem, after the bounds that need no search.

    Attributes
    ----------
    instance : Instance
        Instance without idle gaps.
    objective : Goal
        Objective, and whether preemption is allowed.
    horizon_proof : HorizonProof or None
        Bounds on total latency and the starts they allow; None for other objectives.
    threads : int or None
        Threads of the solvers; None leaves the choice to each solver.
    seed : int
        Seed of every random choice.
    formulation : Formulation
        Formulation of the integer programs.
    cuts : tuple[OwnCut, ...]
        The user's rows, for strategies with ``uses_cuts``; bounds that use them are conditional
        (`SolveState.raise_conditional`).
    prices : StatePrices or None
        Good state prices, from which an ascent may start; None if there are none.
    """

    instance: Instance
    objective: Goal
    horizon_proof: HorizonProof | None = None
    threads: int | None = None
    seed: int = 0
    formulation: Formulation = "dense"
    cuts: tuple[OwnCut, ...] = ()
    prices: StatePrices | None = None

    @property
    def first_bounds(self) -> HorizonProof:
        """Return `horizon_proof` of a problem of total latency."""
        assert self.horizon_proof is not None
        return self.horizon_proof

    @property
    def cores(self) -> int:
        """Return the threads for work without a default of its own: `threads`, or one per core."""
        return self.threads or available_cores()


@runtime_checkable
class Strategy(Protocol):
    """A strategy that closes the interval.

    The strategies of this package are frozen dataclasses whose fields are their parameters. A
    strategy that uses `Problem.cuts` has an attribute ``uses_cuts`` that is True.

    Attributes
    ----------
    name : str
        Name by which `hindsight.solve` selects it.
    objectives : tuple[Goal, ...]
        Goals that it can minimise.
    """

    @property
    def name(self) -> str:
        """Return the name by which `solve` selects it."""

    @property
    def objectives(self) -> tuple[Goal, ...]:
        """Return the goals that it can minimise."""

    def refusal(self, problem: Problem) -> str | None:
        """Return why it cannot solve a problem with one of its objectives, or None if it can."""

    def run(self, problem: Problem, state: SolveState) -> None:
        """Shrink the interval of ``state``, which has a schedule, until proof or a stop.

        The method stores its stop reason in ``state``, and what it proved before any search.
        """


class Parameters:
    """Base of the strategies of this package, frozen dataclasses of their parameters.

    Unless they override this, they minimise total latency and accept every problem.
    """

    objectives: ClassVar[tuple[Goal, ...]] = ("total_latency",)

    def __post_init__(self) -> None:
        check_ranges(self)
        for one in fields(cast(Any, self)):
            # Parameters of another class are made by that class.
            kind, given = one.default_factory, getattr(self, one.name)
            if isinstance(kind, type) and not isinstance(given, kind):
                owner = type(self).__name__
                raise InvalidTypeError(owner, one.name, given, f"is not {kind.__name__}")

    def refusal(self, problem: Problem) -> str | None:
        """See `Strategy`."""
        return None


def starts_left(state: SolveState, starts: StartSets, prices: MemoryPrices) -> StartSets:
    """Apply the bound that memory prices prove, and return the starts that they allow.

    ``starts`` and the returned starts are complete lists: every schedule that is still sought is in
    both.
    """
    bound = price_bound(state.instance, prices)
    state.prove_root(bound.bound, bound.prices)
    useful = useful_starts(state.instance, bound, state.upper_bound, starts.horizon)
    both = [
        np.intersect1d(old, new, assume_unique=True)
        for old, new in zip(starts.starts, useful, strict=True)
    ]
    left = start_sets(state.instance, both)
    state.horizon = left.horizon
    return left


METHOD_NAMES = ("auto", "paths", "configurations", "counts", "mip", "beams")
"""Strategies of this package."""

StrategyClass = TypeVar("StrategyClass", bound=Callable[[], object])


@dataclass(frozen=True)
class OwnStrategy:
    """A user-defined strategy; calling it creates a `Strategy`.

    Attributes
    ----------
    name : str
        Registered name, or name of the class.
    function : Any
        Class or function that creates it, or the strategy itself.
    """

    name: str
    function: Any

    def __call__(self) -> Strategy:
        """Create the strategy and check its ``objectives``.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            It cannot be created, is not a strategy, or has objectives that are not goals.
        """
        found = self.function
        if not _is_strategy(found):
            found = described(found, self.name, "method")
        if not isinstance(found, Strategy):
            reason = f"makes {found!r}, which is no Strategy"
            raise InvalidTypeError(None, "method", self.name, reason)
        owner, field, objectives = f"method {found.name!r}", "objectives", found.objectives
        # A string is not a tuple: ``in`` would match every part of it.
        if not isinstance(objectives, (tuple, list, set, frozenset)):
            raise InvalidTypeError(owner, field, objectives, "is no tuple")
        goals = get_args(Goal)
        if not objectives or not all(one in goals for one in objectives):
            reason = f"is not of one or more of {', '.join(goals)}"
            raise InvalidValueError(owner, field, objectives, reason)
        return found


def _is_strategy(given: object) -> bool:
    return isinstance(given, Strategy) and not isinstance(given, type)


STRATEGIES: Registry[OwnStrategy] = Registry(
    "method",
    OwnStrategy,
    reserved=METHOD_NAMES,
    fits=lambda given: callable(given) or _is_strategy(given),
)


def register_strategy(name: str) -> Callable[[StrategyClass], StrategyClass]:
    """Class decorator: register the strategy for ``solve(..., method=name)``.

    The class follows `hindsight.strategies.strategy.Strategy` and is created without arguments.
    Pass a strategy with arguments to ``method`` as an object. It needs no base class.
    `hindsight.check_strategy` tests it.

    Only its bounds are trusted. A schedule that it offers is checked and its cost recomputed. A
    bound raised with ``certified=True`` is *its* claim of a proof in exact arithmetic, and one with
    ``certified=False`` its claim of any proof: a strategy that cannot claim that calls
    ``state.raise_conditional`` instead.

    A class with the same module and qualified name replaces the earlier one, with a warning.

    Raises
    ------
    ValueError
        Another class, or a method of this package, has this name.
    """
    return STRATEGIES.register(name)


def strategy_names() -> list[str]:
    """Return the names of the registered strategies, sorted."""
    return STRATEGIES.names()
