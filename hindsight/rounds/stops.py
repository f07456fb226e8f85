"""Bounds on the preemptive optimum of total latency.

*Upper bounds* come from list schedules without preemption, then from annealed sort keys
(`hindsight.schedules.preemptive`) and from beams of the state search. *Lower bounds* come from
output lengths and mean busy times (`hindsight.rounds.openings`), then from a price per token in
each round, from a table of prices by the tokens held if it is small enough, and from the state
search within growing budgets. All are computed in exact integers, for the single-machine
relaxation. Every schedule of the problem is feasible there. With two threads, sort keys are
annealed in the second thread.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from hindsight.exact.stops import PreemptiveSearch
from hindsight.outcomes.flow import Background, Part, run_turns
from hindsight.outcomes.interval import Interval
from hindsight.prices import stops as stop_prices
from hindsight.prices.ascent import Stage, ascend
from hindsight.prices.volume import fill_by_volume, filling_prices
from hindsight.runtime.search import Search
from hindsight.schedules.preemptive import PreemptiveKeys

LONGEST_OUTPUT = 30_000
"""Largest output for the exact search, which stores numbers of produced tokens in 16 bits."""

LARGEST_WORK = 10_000_000
"""The solver runs only if each of three numbers is at most this: the rounds, the output tokens of
all requests, and the prompt tokens that may be in memory in one round."""

LARGEST_PRICE_WORK = 400_000_000
"""Largest product (rounds) x (output tokens of all requests) for which the lower bound from prices
per token and round is computed. This takes about a second at most, and cannot be interrupted."""

LARGEST_TABLE_WORK = 100_000_000
"""Largest (rounds) x (memory limit) x (all output tokens) for price tables and exact search."""

ASCENT, HEAT = 200, 0.03
"""`ASCENT`: steps of the price ascent in the first phase, doubled by each later phase. `HEAT`: its
first temperature and first step size, in rounds, halved by each later phase."""

BEAM, STATES, MOST_STATES = 300, 20_000, 2_000_000
"""Most states per round, in the first phase, of a beam search (`BEAM`) and an exact search
(`STATES`). Each further phase doubles `BEAM` and quadruples `STATES`, up to `MOST_STATES`."""

CYCLES, SHARE = 8, 0.3
"""`CYCLES`: number of annealings after which a solve without a time limit ends, if no method can
improve its lower bound. `SHARE`: share of the time for annealing if there is one thread."""


def close_preemptive(interval: Interval, search: Search) -> None:
    """Improve both bounds on preemptive total latency, until they meet or nothing improves them.

    The function runs in phases. Each phase first improves a table of prices, which proves a lower
    bound. The table has the price that a request pays in each round for each number of tokens held.
    Then the phase searches exactly over states. A state is the number of tokens that each request
    has produced. Between the phases, or in a second thread, the search `PreemptiveKeys` finds
    schedules: it anneals sort keys of the requests.

    Parameters
    ----------
    interval : Interval
        The bounds of the solve. It already has a schedule.
    search : Search
        Options of the solve.
    """
    below, last = interval.problem.below, interval.schedule.makespan
    tokens, longest = int(below.output_lengths.sum()), int(below.output_lengths.max())
    prompts = min(below.memory_limit, int(below.prompt_lengths.sum()))
    if max(last, tokens, prompts) > LARGEST_WORK:
        return
    keys = PreemptiveKeys(interval.source, search.seed)

    def improve(own: Interval) -> None:
        own.phase = "heuristics"
        for schedule in keys.improve(own.is_done):
            own.offer(schedule)

    schedules = Background(interval, search.cores, improve, share=SHARE)
    schedules.advance()
    bounds = _Bounds(interval, schedules.must_stop)
    fits = last * tokens * below.memory_limit <= LARGEST_TABLE_WORK and longest <= LONGEST_OUTPUT

    def is_open() -> bool:
        return not bounds.are_final

    def has_time() -> bool:
        return keys.search.cycle < CYCLES or interval.clock.limit_left() is not None

    anneal = Part(schedules.advance, "heuristics")
    if fits:
        with schedules.running():
            run_turns(interval, [Part(bounds.improve, "relaxation"), anneal], is_open)
    if interval.stop_reason != "size":
        run_turns(interval, [anneal], has_time)


class _Bounds:
    """Lower bounds on preemptive total latency: from prices, and from a search pruned by prices.

    Requests pay prices for the memory that they hold. The first prices are per token in each round.
    Later, the price that a request pays in a round is any function of the number of tokens that it
    holds.

    Attributes
    ----------
    are_final : bool
        Whether no method can improve the lower bound any more.
    """

    def __init__(self, interval: Interval, must_stop: Callable[[], bool]) -> None:
        self._interval, self._below = interval, interval.problem.below
        self._must_stop, self._step, self.are_final, self._phase = must_stop, 1, False, 0
        self._search: PreemptiveSearch | None = None
        interval.phase = "relaxation"
        prices, last = filling_prices(fill_by_volume(self._below)), interval.schedule.makespan
        # The first prices are per token: entry (r, 0) is the price of a token of memory in round r,
        # and the shape is (rounds + 1, 1). After the first call of `_improve_prices`, entry (r, m)
        # is the price that a request pays for holding m tokens in round r, and the shape is (rounds
        # + 1, M + 1) with the memory limit M.
        self._prices = np.zeros((max(len(prices), last) + 1, 1))
        self._prices[1 : len(prices) + 1, 0] = prices
        work = len(self._prices) * int(self._below.output_lengths.sum())
        if work <= LARGEST_PRICE_WORK and not interval.is_done():
            self._proved()

    def _proved(self) -> stop_prices.PreemptivePrices:
        """Return the present memory prices, rounded to integers.

        A memory price is what a request pays in a round: per token at first, and later by the
        number of tokens that it holds. The lower bound that the rounded prices prove is recorded in
        the solve.
        """
        prices = stop_prices.round_preemptive_prices(self._prices)
        bound = stop_prices.preemptive_price_bound(self._below, prices)
        self._interval.prove(bound, "preemptive prices", proof=prices)
        return prices

    def improve(self) -> None:
        """Run a phase: improve the prices, then search over states.

        A state is the number of tokens that each request has produced.
        """
        self._improve_prices()
        if not self._interval.is_done():
            self._search_states()
        self._phase += 1

    def _improve_prices(self) -> None:
        """Improve the prices, by one ascent, and record the lower bound that they prove.

        The price that a request pays in a round depends on the number of tokens that it holds. Each
        phase doubles the number of steps, and halves the first temperature and step size.
        """
        interval, below = self._interval, self._below
        if self._search is None:
            self._prices = self._prices * np.arange(below.memory_limit + 1)
        heat = HEAT / 2**self._phase
        stage = Stage(ASCENT << self._phase, (heat, 0.2 * heat), (heat, 0.05 * heat))
        dual = partial(stop_prices.smooth_bound, below.columns)
        options: Any = {"must_stop": self._must_stop, "settings": stop_prices.SETTINGS}
        self._prices = ascend(dual, self._prices, (stage,), **options)
        before = interval.lower_bound
        prices = self._proved()
        if self._search is None or interval.lower_bound > before:
            self._search = PreemptiveSearch(below, prices)

    def _search_states(self) -> None:
        """Run a beam search, then exact searches for growing budgets of total latency.

        States are the numbers of tokens that each request has produced. The beam search looks for a
        better schedule. A budget is an upper limit on total latency. If an exact search finds no
        schedule within its budget, it proves that the optimum exceeds the budget. If `MOST_STATES`
        states per round do not suffice for an exact search, the solve ends.
        """
        interval, source, stop = self._interval, self._interval.source, self._must_stop
        search, most = self._search, min(STATES << 2 * self._phase, MOST_STATES)
        assert search is not None
        interval.phase = "search"
        if interval.problem.is_plain:
            width = min(BEAM << self._phase, MOST_STATES)
            found = search.run(interval.upper_bound - 1, MOST_STATES, stop, width=width)
            if found.found is not None:
                interval.offer(found.found)
        while not (self.are_final or interval.is_done()):
            budget = min(interval.lower_bound + self._step - 1, interval.upper_bound - 1)
            outcome = search.run(budget, most, stop)
            if outcome.status != "exhausted":
                self._step = max(1, self._step // 4)
                if most == MOST_STATES and outcome.status != "stopped":
                    interval.stop_reason, self.are_final = "size", True
                break
            self._step *= 2
            if outcome.found is None:
                interval.prove(budget + 1, "state search")
                continue
            # The search has found an optimal schedule of the single-machine relaxation. Offer it to
            # the solve if it is feasible for the problem itself.
            if source.replicas == 1:
                here = outcome.found.moved(source, np.zeros(len(source), dtype=np.int64))
                if here.is_feasible:
                    interval.offer(here)
            interval.prove(outcome.found.total_latency, "state search")
            self.are_final = True
