"""Ways to close the interval around an optimum: what they are, what they are told, their names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar, get_args, runtime_checkable

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
    """One optimisation problem, after the bounds that need no search.

    Attributes
    ----------
    instance : Instance
        Without idle gaps.
    objective : Goal
        What is minimised.
    horizon_proof : HorizonProof or None
        Bounds of total latency and the starts they leave; None for other objectives.
    threads : int or None
        Of the solvers; None is each one's own choice.
    seed : int
        Of every random choice.
    formulation : Formulation
        Of the integer programs.
    cuts : tuple[OwnCut, ...]
        Rows of the user's for strategies that have ``uses_cuts``; what they prove with them is
        conditional (`SolveState.raise_conditional`).
    prices : StatePrices or None
        Of what runs together, which are good already; None where there are none.
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
        """`horizon_proof` of a problem of total latency."""
        assert self.horizon_proof is not None
        return self.horizon_proof

    @property
    def cores(self) -> int:
        """Threads of what has no choice of its own: `threads`, or one a core."""
        return self.threads or available_cores()


@runtime_checkable
class Strategy(Protocol):
    """A way to close the interval.

    The strategies of this package are frozen dataclasses whose fields are their parameters. One
    that takes `Problem.cuts` into account says so by an attribute ``uses_cuts`` that is True.

    Attributes
    ----------
    name : str
        As `hindsight.solve` is asked for it.
    objectives : tuple[Goal, ...]
        What it can minimise.
    """

    @property
    def name(self) -> str:
        """The name that `solve` calls it by."""

    @property
    def objectives(self) -> tuple[Goal, ...]:
        """The goals that it minimises."""

    def refusal(self, problem: Problem) -> str | None:
        """Return why it cannot take a problem of its objectives; None where it can."""

    def run(self, problem: Problem, state: SolveState) -> None:
        """Shrink the interval of ``state``, which holds a schedule, until proof or a stop.

        Leaves its reason to stop in ``state``, and what it proved before any search.
        """


class Parameters:
    """Base of the strategies of this package, frozen dataclasses of their parameters.

    They minimise total latency and take every problem unless they say otherwise.
    """

    objectives: ClassVar[tuple[Goal, ...]] = ("total_latency",)

    def __post_init__(self) -> None:
        check_ranges(self)

    def refusal(self, problem: Problem) -> str | None:
        """See `Strategy`."""
        return None


def starts_left(state: SolveState, starts: StartSets, prices: MemoryPrices) -> StartSets:
    """Take what memory prices prove, and return the starts that they leave.

    ``starts`` and those that the prices leave are complete lists: every schedule that is still
    looked for is in both.
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
"""Those of this package."""

StrategyClass = TypeVar("StrategyClass", bound=Callable[[], object])


@dataclass(frozen=True)
class OwnStrategy:
    """A strategy of the user's; called, it makes a `Strategy`.

    Attributes
    ----------
    name : str
        The registered name, or that of the class.
    function : Any
        A class or function that makes it, or the strategy itself.
    """

    name: str
    function: Any

    def __call__(self) -> Strategy:
        """Make the strategy and check its ``objectives``.

        Raises
        ------
        InvalidValueError, InvalidTypeError
            It cannot be made, is no strategy, or has objectives that are no goals.
        """
        found = self.function
        if not _is_strategy(found):
            found = described(found, self.name, "method")
        if not isinstance(found, Strategy):
            reason = f"makes {found!r}, which is no Strategy"
            raise InvalidTypeError(None, "method", self.name, reason)
        owner, field, objectives = f"method {found.name!r}", "objectives", found.objectives
        # A text is none: ``in`` finds every part of it.
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
    """Class decorator: make the strategy known as ``solve(..., method=name)``.

    The class follows `hindsight.strategies.strategy.Strategy` and is made without arguments: a
    strategy with others is given to ``method`` as an object. It needs no base class.
    `hindsight.check_strategy` tries it.

    It is trusted in nothing but bounds. A schedule that it offers is checked and costed anew. A
    bound that it raises with ``certified=True`` is *its* word for having proved it in exact
    arithmetic, and one with ``certified=False`` its word for having proved it at all: whoever
    cannot vouch for that calls ``state.raise_conditional`` instead.

    A class of the same module and qualified name takes the place of the one before, with a warning.

    Raises
    ------
    ValueError
        Another class has the name, or a method of this package.
    """
    return STRATEGIES.register(name)


def strategy_names() -> list[str]:
    """The registered strategies, sorted."""
    return STRATEGIES.names()
