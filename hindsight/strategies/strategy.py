"""What a way to close the interval around an optimum is, and what it is told of the problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

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
from instances import Instance
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
        """What `solve` calls it."""

    @property
    def objectives(self) -> tuple[Goal, ...]:
        """What it minimises."""

    def refusal(self, problem: Problem) -> str | None:
        """Why it cannot take a problem of one of its objectives; None where it can."""

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
