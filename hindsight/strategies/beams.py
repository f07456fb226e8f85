"""Upper bounds on instances of any size by all searches, with the relaxation at scale for a bound.

`hindsight.schedules.improving` has the searches. Under a time limit the clock may break the
relaxations off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hindsight.outcomes.interval import Interval
from hindsight.outcomes.result import MEMORY_PRICES
from hindsight.runtime.clock import Clock
from hindsight.schedules.improving import FIRST_MOVES, MOST_MOVES, PATIENCE, Improvement
from hindsight.strategies.token_relaxation import TokenRelaxation

from .strategy import Problem, Strategy


@dataclass(frozen=True)
class Beams(Strategy):
    """Beams, cycles of moves and annealed orders, with the relaxation at scale for a bound.

    Attributes
    ----------
    first_moves, most_moves : int
        Moves per request of the first cycle of each kind, and of the longest; each cycle has twice
        as many as the one before.
    patience : int, default 6
        Cycles of the longest kind without a better schedule after which the search ends, unless it
        is run as patient.
    relaxation_share : float, default 0.25
        Share of the time left that the relaxation may use before the beams continue.
    relaxation_tolerance : float, default 1e-3
        Relative gap at which the relaxation ends.
    """

    first_moves: int = FIRST_MOVES
    most_moves: int = MOST_MOVES
    patience: int = PATIENCE
    relaxation_share: float = 0.25
    relaxation_tolerance: float = 1e-3

    name: ClassVar[str] = "beams"

    def run(self, problem: Problem, state: Interval) -> None:
        """Run beams, with the relaxation for a bound and a further order after the first beams.

        They alternate as long as the relaxation is interrupted; then beams use the rest of the time
        limit. Without a limit the relaxation ends by itself, and so do the beams.
        """
        if state.root_bound is None:
            prices = problem.first_bounds.price_bound
            state.root_bound, state.proof = prices.bound, prices.prices
        if state.is_done():
            return
        search = self.search(state, problem.seed, problem.cores)
        search.run_first()
        relaxation: TokenRelaxation | None = None
        while not state.is_done():
            relaxation = relaxation or TokenRelaxation(
                state.problem,
                tolerance=self.relaxation_tolerance,
                progress=lambda line: state.prove(line.lower_bound, MEMORY_PRICES),
                clock=Clock(should_stop=state.clock.must_stop),
            )
            state.phase = "relaxation"
            left = state.clock.limit_left()
            relaxation.clock.allow(None if left is None else self.relaxation_share * left)
            relaxation.go_on()
            relaxed = relaxation.result()
            state.prove(relaxed.certified_bound, MEMORY_PRICES, proof=relaxed.memory_prices)
            search.follow(relaxed.expected_start_times, relaxed.memory_prices)
            search.run_whole()
            is_last = relaxed.stop_reason != "time-limit"
            search.run(patient=is_last and left is not None)
            if is_last:
                break
        state.note_stop()

    def search(self, state: Interval, seed: int, threads: int = 1) -> Improvement:
        """Return the search that improves a state's schedule with these parameters."""
        efforts = self.first_moves, self.most_moves, self.patience
        return Improvement(state, seed, threads, *efforts)
