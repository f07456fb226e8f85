"""Searches for schedules by beam search and local search, guided by the linear relaxation.

The relaxation (`hindsight.rounds.token_relaxation`) is that of the problem as one machine with
memory in tokens. Its mean starts give orders of the requests, and its memory prices guide moves.
"""

from __future__ import annotations

import numpy as np

from hindsight.outcomes.interval import Interval
from hindsight.outcomes.problem import Problem
from hindsight.outcomes.result import MEMORY_PRICES, Relaxation
from hindsight.runtime.clock import Clock
from hindsight.runtime.search import Search
from hindsight.schedules.improving import Improvement
from hindsight.schedules.lists import best_list_schedule

from .token_relaxation import TokenRelaxation

BELOW_SHARE = 0.15
"""Share of the remaining time that beam search on the single-machine relaxation gets, for memory in
blocks or replicas. The requests are then placed in the order of the starts that it finds."""

FIRST_CYCLES, FIRST_SHARE = 16, 0.1
"""For memory in blocks or replicas: number of local-search runs before the linear relaxation, and
largest share of the remaining time for them."""


class Heuristics:
    """Searches for schedules of one problem: beam searches, then local search.

    Parameters
    ----------
    interval : Interval
        The bounds of the solve. It already has a schedule.
    seed : int
        Seed of every random choice.
    threads : int, default 1
        Number of threads of searches in the main thread.
    guides : bool, default False
        Whether the linear relaxation only guides the search, so that a coarse solution suffices.

    Attributes
    ----------
    relaxed : Relaxation or None
        The latest result of the linear relaxation, which guides the searches.
    is_solved : bool
        Whether this result is accurate enough, or cannot be improved.
    """

    def __init__(
        self, interval: Interval, seed: int, threads: int = 1, *, guides: bool = False
    ) -> None:
        self._interval, self._seed, self._threads = interval, seed, threads
        self._guides, self.is_solved = guides, False
        self.relaxed: Relaxation | None = None
        self._relaxation: TokenRelaxation | None = None
        # The searches, and the results that guide them, by the interval that gets the schedules.
        self._searches: dict[Interval, Improvement] = {}
        self._followed: dict[Interval, Relaxation] = {}

    def relax(self) -> None:
        """Continue to solve the linear relaxation, and record the bound that its prices prove."""
        interval, guides = self._interval, self._guides
        self._relaxation = self._relaxation or TokenRelaxation.within(interval, guides=guides)
        relaxed = self.relaxed = self._relaxation.run()
        interval.prove(relaxed.certified_bound, MEMORY_PRICES, proof=relaxed.prices)
        self.is_solved = guides or relaxed.stop_reason != "time-limit"

    def step(self, interval: Interval, runs: int | None = 1) -> None:
        """Search for a while, and offer better schedules to ``interval``.

        The first call for an ``interval`` builds first schedules: by beam search, or by local
        search for memory in blocks or replicas. The first call with a new result of the linear
        relaxation follows it. Every other call makes ``runs`` runs of local search. If ``runs`` is
        None, the runs end when nothing is gained, or at the time limit if the relaxation is solved.
        """
        limited = interval.clock.limit_left() is not None
        if interval not in self._searches:
            threads = self._threads if interval is self._interval else 1
            search = self._searches[interval] = Improvement(interval, self._seed, threads)
            if interval.problem.is_plain:
                search.run_beams()
            else:
                with interval.clock.within(FIRST_SHARE * interval.clock.seconds_left()):
                    search.run(FIRST_CYCLES, patient=True)
        elif self._followed.get(interval) is not self.relaxed:
            self._follow(interval)
        else:
            patient = runs is not None or (self.is_solved and limited)
            self._searches[interval].run(runs, patient=patient)
            interval.note_stop()

    def _follow(self, interval: Interval) -> None:
        """Guide the search by the linear relaxation, and run beam searches.

        The search then uses the mean starts and the memory prices of the relaxation. The beam
        searches place the requests in order of their mean starts. If memory is in blocks or there
        are replicas, they build schedules of one machine with memory in tokens (the single-machine
        relaxation of the problem). The requests of the problem itself are then placed in the order
        of their starts in the best of these schedules.
        """
        assert self.relaxed is not None
        search, self._followed[interval] = self._searches[interval], self.relaxed
        search.follow(self.relaxed.expected_start_times, self.relaxed.prices)
        if interval.problem.is_plain:
            search.run_beams()
            return
        below, left = interval.problem.below, interval.clock.limit_left()
        limit = Clock(None if left is None else BELOW_SHARE * left, interval.clock.must_stop)
        machine = Interval(Problem(below), Search(limit))
        machine.offer(best_list_schedule(below, limit.must_stop))
        beams = Heuristics(machine, 0)
        beams.step(machine)
        beams.relaxed = self.relaxed
        beams.step(machine)
        if search.moves.place(np.argsort(machine.schedule.start_times, kind="stable")):
            interval.offer(search.moves.schedule)
