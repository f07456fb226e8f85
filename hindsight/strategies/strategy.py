"""Strategies that close the interval around an optimum: interface and problem data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hindsight.exact.horizon import HorizonProof
from hindsight.exact.starts import StartSets, start_sets
from hindsight.outcomes.goals import Optimum
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.proofs import MemoryPrices
from hindsight.outcomes.result import MEMORY_PRICES
from hindsight.outcomes.results import Relaxation
from hindsight.prices.state_proofs import StatePrices
from hindsight.prices.tokens import price_bound, useful_starts
from hindsight.runtime.clock import Clock
from hindsight.runtime.cores import available_cores
from hindsight.strategies.token_relaxation import TokenRelaxation
from instances import Instance


@dataclass(frozen=True, eq=False)
class Problem:
    """An optimisation problem, after the bounds that need no search.

    Attributes
    ----------
    instance : Instance
        Instance without idle gaps.
    objective : Optimum
        Objective, and whether preemption is allowed.
    horizon_proof : HorizonProof or None
        Bounds on total latency and the starts they allow; None for other objectives.
    threads : int or None
        Threads of the solvers; None leaves the choice to each solver.
    seed : int
        Seed of every random choice.
    prices : StatePrices or None
        Good state prices, from which an ascent may start; None if there are none.
    """

    instance: Instance
    objective: Optimum
    horizon_proof: HorizonProof | None = None
    threads: int | None = None
    seed: int = 0
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


class Strategy(ABC):
    """A method that closes the interval: a frozen dataclass whose fields are its parameters.

    Unless a strategy overrides this, it minimises total latency and accepts every problem.

    Attributes
    ----------
    name : str
        Name by which `hindsight.solve` selects it.
    objectives : tuple[Optimum, ...]
        Goals that it can minimise.
    """

    name: ClassVar[str]

    objectives: ClassVar[tuple[Optimum, ...]] = ("latency",)

    def refusal(self, problem: Problem) -> str | None:
        """Return why it cannot solve a problem with one of its objectives, or None if it can."""
        return None

    @abstractmethod
    def run(self, problem: Problem, state: Interval) -> None:
        """Shrink the interval of ``state``, which has a schedule, until proof or a stop.

        The method stores its stop reason in ``state``, and what it proved before any search.
        """


RELAXATION_TOLERANCE, RELAXATION_SHARE = 1e-5, 0.5
"""Relative accuracy of the relaxation, and the share of the time left that it may take."""


def relaxed(state: Interval) -> Relaxation:
    """Relax the state's instance by ascent in the memory prices."""
    left = state.clock.limit_left()
    limit = None if left is None else RELAXATION_SHARE * left
    relaxation = TokenRelaxation(
        state.problem, tolerance=RELAXATION_TOLERANCE, clock=Clock(limit, state.clock.must_stop)
    )
    relaxation.go_on()
    return relaxation.result()


def starts_left(state: Interval, starts: StartSets, prices: MemoryPrices) -> StartSets:
    """Apply the bound that memory prices prove, and return the starts that they allow.

    ``starts`` and the returned starts are complete lists: every schedule that is still sought is in
    both.
    """
    bound = price_bound(state.problem, prices)
    state.prove(bound.bound, MEMORY_PRICES, proof=bound.prices)
    useful = useful_starts(state.problem, bound, state.upper_bound, starts.horizon)
    both = [
        np.intersect1d(old, new, assume_unique=True)
        for old, new in zip(starts.starts, useful, strict=True)
    ]
    left = start_sets(state.problem, both)
    state.horizon = left.horizon
    return left
