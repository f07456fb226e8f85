"""The integer program in HiGHS, over the starts that reduced costs allow.

`hindsight.exact.program` counts how many requests of a class start when. Prices of its relaxation
(`hindsight.strategies.token_relaxation`) give a bound in integers, and leave out every start that
no schedule as good as the best one known can use. The bounds of HiGHS's search are those of
floating-point arithmetic, so they are not certified.

With beams, schedules are those of `hindsight.strategies.beams`, which follow the prices. They are
improved in the polls of HiGHS, or in a second thread.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

from hindsight.exact.highs import BOUND_TOLERANCE, LinearResult, solve_linear
from hindsight.exact.program import Program
from hindsight.exact.starts import LARGEST_RELAXATION, StartSets
from hindsight.outcomes.errors import SolverError
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.proofs import MemoryPrices, Proof
from hindsight.outcomes.result import PROGRAM
from hindsight.prices.tokens import price_bound, round_prices, useful_starts
from hindsight.prices.volume import fill_by_volume, filling_prices
from hindsight.runtime.beside import Beside
from instances import Instance, Schedule
from instances.arrays import FloatArray, IntArray

from .beams import Beams
from .strategy import Problem, Strategy, relaxed, starts_left

ENTRIES_PER_SECOND, MOST_ENTRIES = 125_000, 20_000_000
"""Most memory entries of a program for each second left, and of any: HiGHS gains nothing from
larger ones."""

LARGEST_WITH_BEAMS = 500_000
"""Most memory entries of a program beside which schedules are searched for."""

SEARCH_SHARE, UNDISTURBED, LONGEST_SEARCH = 0.7, 10.0, 900.0
"""Share of the time that HiGHS has where it shares a thread with the search for schedules; the
seconds that it has to itself first, as what it closes it mostly closes soon; and most seconds until
it ends, as its tree has no limit on memory."""

RUIN_CYCLES = 7
"""Cycles of ruin and recreate in a phase."""


@dataclass(frozen=True)
class IntegerProgram(Strategy):
    """The bound of memory prices, and HiGHS's search.

    Attributes
    ----------
    beams : Beams or None, default None
        Parameters of the search for schedules before and beside HiGHS's; None leaves schedules to
        HiGHS.
    most_starts : int or None, default None
        Most starts of all requests; larger instances are refused. None refuses nothing, and ends
        with reason ``"size"`` if the starts are too many to list.
    """

    beams: Beams | None = None
    most_starts: int | None = None

    name: ClassVar[str] = "mip"

    def refusal(self, problem: Problem) -> str | None:
        """Refuse more starts than `most_starts`."""
        starts = problem.first_bounds.starts
        if self.most_starts is None or (starts is not None and starts.count <= self.most_starts):
            return None
        return f"has more than {self.most_starts:,} starts to choose from"

    def run(self, problem: Problem, state: Interval) -> None:
        """Run until proof, time limit, interruption, or the end of HiGHS's longest search.

        Raises
        ------
        SolverError
            HiGHS failed, or contradicts the incumbent.
        """
        starts = problem.first_bounds.starts
        if starts is None:
            state.stop_reason = "size"
            return
        if self.beams is not None and starts.memory_entries <= LARGEST_WITH_BEAMS:
            self.beams.search(state, problem.seed, problem.cores).run_first()
        if state.is_done():
            return
        state.phase = "relaxation"
        found = relaxed(state)
        left = starts_left(state, starts, found.memory_prices)
        if state.is_done():
            return
        if self.beams is None:
            search_program(problem, state, left)
        elif left.memory_entries > LARGEST_WITH_BEAMS:
            state.stop_reason = "size"
        else:
            guide = found.expected_start_times, found.memory_prices
            self._search_beside(
                problem, state, left, partial(_improver, self.beams, problem.seed, guide)
            )

    def _search_beside(
        self,
        problem: Problem,
        state: Interval,
        starts: StartSets,
        improver: Callable[[Interval], Callable[[], object]],
    ) -> None:
        """Search the program, and improve schedules in its polls or in a second thread."""
        if problem.cores == 1:
            improve = improver(state)
            search_program(problem, state, starts, _taking_turns(state, improve))
            while state.clock.limit_left() is not None and not state.is_done():
                improve()
        else:
            beside = Beside(partial(_improve, improver, state), state.offer)
            with beside.running():
                search_program(problem, state, starts, partial(beside.take_then, state.is_done))
                state.note_stop()
            state.is_done()


def starts_by_relaxation(
    state: Interval, below: Instance, proof: Proof | None
) -> list[IntArray] | None:
    """List the starts on one machine that schedules as good as the state's can use.

    Parameters
    ----------
    state : Interval
        The solve of an instance in blocks or on replicas.
    below : Instance
        An instance of one machine, in tokens, of which every schedule of the state's instance is a
        schedule: a start that is too dear there belongs to worse schedules.
    proof : Proof or None
        What proves the bound of ``below``; its prices are used if they are prices of memory.

    Returns
    -------
    list[int64 array] or None
        The starts of each request; None where requests and rounds are too many.
    """
    latest = int(below.arrival_times.max() + below.output_lengths.sum())
    latest = max(latest, state.schedule.makespan)
    if len(below) * latest > LARGEST_RELAXATION:
        return None
    if not isinstance(proof, MemoryPrices):
        proof = round_prices(filling_prices(fill_by_volume(below)), below)
    return useful_starts(below, price_bound(below, proof), state.upper_bound, latest)


def search_program(
    problem: Problem,
    state: Interval,
    starts: StartSets,
    must_stop: Callable[[], bool] | None = None,
) -> None:
    """Solve the program over ``starts`` from the state's schedule, and report results to ``state``.

    ``starts`` must hold every schedule at least as good as the state's, so that the bound of the
    program, capped by the upper bound, is a bound on the optimum. A program that is too large for
    the time left is not built.

    Parameters
    ----------
    problem, state : Problem, Interval
        The solve.
    starts : StartSets
        The starts.
    must_stop : Callable[[], bool] or None, default None
        Polled in place of the state's clock; HiGHS then has one thread and `LONGEST_SEARCH`.

    Raises
    ------
    SolverError
        HiGHS failed, or contradicts the incumbent.
    """
    state.phase = "search"
    clock = state.clock
    if starts.memory_entries > min(MOST_ENTRIES, ENTRIES_PER_SECOND * clock.seconds_left()):
        state.stop_reason = "size"
        return
    if state.is_done():
        return
    program = Program(starts)

    def hear(found: LinearResult) -> None:
        state.nodes = max(state.nodes, found.nodes)
        if found.values is not None:
            state.offer(program.schedule(found.values))
        if found.bound is not None:
            bound = math.ceil(found.bound - BOUND_TOLERANCE)
            state.prove(min(bound, state.upper_bound), PROGRAM, certified=False)

    def kept(part: Callable[..., Any]) -> Callable[..., Any]:
        # An exception must not travel through HiGHS: it is kept, and the search stops.
        def run(*given: Any) -> Any:
            try:
                return part(*given)
            except BaseException as error:  # noqa: BLE001 (re-raised by solve)
                state.keep_error(error)
                return True

        return run

    with clock.within(math.inf if must_stop is None else LONGEST_SEARCH):
        result = solve_linear(
            program.linear,
            time_limit=clock.limit_left(),
            threads=problem.threads if must_stop is None else 1,
            seed=problem.seed,
            start=program.point(state.schedule),
            callback=kept(hear),
            should_stop=kept(must_stop or clock.must_stop),
        )
    if result.termination == "infeasible":
        raise SolverError("HiGHS calls a model infeasible that holds the incumbent")
    hear(result)
    if (
        result.termination == "optimal"
        and result.objective is not None
        and round(result.objective) == state.upper_bound
    ):
        # HiGHS stops at a gap below one, which between integers is no gap.
        state.prove(state.upper_bound, PROGRAM, certified=False)
    state.note_stop()


def _taking_turns(state: Interval, improve: Callable[[], object]) -> Callable[[], bool]:
    """Return what HiGHS polls: it improves schedules for their share of the time."""
    clock, spent = state.clock, 0.0
    begun = clock.seconds() + UNDISTURBED

    def must_stop() -> bool:
        nonlocal spent
        now = clock.seconds()
        if spent < (1 - SEARCH_SHARE) * (now - begun) and not state.is_done():
            improve()
            spent += clock.seconds() - now
        return state.is_done()

    return must_stop


def _improve(
    improver: Callable[[Interval], Callable[[], object]],
    state: Interval,
    found: Callable[[Schedule], object],
    must_stop: Callable[[], bool],
) -> None:
    """Improve schedules in a thread beside that of the solve's state."""
    apart = state.apart(found, must_stop)
    apart.offer(state.schedule)
    improve = improver(apart)
    while not must_stop():
        apart.offer(state.schedule)
        improve()


def _improver(
    beams: Beams, seed: int, guide: tuple[FloatArray, MemoryPrices], state: Interval
) -> Callable[[], object]:
    """Run a first phase; return what improves the schedule of ``state`` for a further one."""
    search = beams.search(state, seed)
    search.follow(*guide)
    search.run_whole()
    search.run(RUIN_CYCLES)
    return partial(search.run, RUIN_CYCLES, patient=True)
