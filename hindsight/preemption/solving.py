"""The interval around the preemptive optimum.

*Upper bounds*: the list schedules without preemption, annealed orders, beams of the state search.
*Lower bounds*, all in exact integers: the sum of output lengths, mean busy times, prices a token,
tables of prices where they are small enough, and the state search under growing budgets.

**Mean busy times hold unchanged** (`hindsight.bounds.volume`). The bound there relaxes a schedule
to one in which a round serves at most M units of volume, request i owning v_i = sum of s_i + k, and
adds to its sum of volume-weighted mean rounds what C_i exceeds the mean by. Requests that are
stopped still hold s_i + k in the round of their k-th token and at most M together, so the first
part covers them. And C_i less the volume-weighted mean of r_1 < ... < r_o = C_i is least where
every round is as late as it can be, r_k = C_i - o_i + k: the rounds without preemption, whose
excess the bound adds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, cast

import numpy as np

from hindsight.bounds.volume import fill_by_volume, filling_prices, mean_busy_time_bound
from hindsight.heuristics.list_scheduling import best_list_schedule, one_after_another
from hindsight.outcomes.proofs import PreemptivePrices, Proof
from hindsight.outcomes.results import Objective, Progress, SolveStatus, StopReason
from hindsight.outcomes.solve_state import SolveState
from hindsight.runtime.interruption import stop_or_interruption
from instances import Instance, InvalidTypeError, PreemptiveSchedule, Schedule
from instances.validation import as_integer, as_time_limit

from .ascent import ascend
from .orders import OrderSearch
from .prices import FloatArray, preemptive_price_bound, round_preemptive_prices
from .state_search import PreemptiveSearch

THOROUGH_UP_TO = 200
"""Requests up to which all list schedules are made."""

LARGEST_ORDER_WORK = 10_000_000
"""Rounds, and tokens, above which no orders are annealed and no prices ascended."""

LARGEST_TABLE_WORK = 100_000_000
"""(rounds) x (memory limit) x (output tokens) above which there are no tables of prices."""

SLICE_TOKENS = 3_000_000
"""Tokens placed by one annealing, in the first phase; about a tenth of a second compiled."""

ASCENT = 200
"""Steps of the ascent in the first phase."""

BEAM = 300
STATES = 20_000
"""States of one round in the first phase: of the beam, and of the search that is exact."""

MOST_STATES = 2_000_000
"""States of one round that fit into memory."""

LONGEST_OUTPUT = 30_000
"""Progress is kept in 16 bits."""

PHASES = 6
"""After which a solve without a proof ends, where the state search cannot go on."""


@dataclass(frozen=True, eq=False)
class PreemptiveResult:
    """The preemptive optimum of an instance, or an interval around it.

    Attributes
    ----------
    instance : Instance
        The instance solved.
    schedule : PreemptiveSchedule
        The best schedule found, checked.
    lower_bound : int
        Proved of every preemptive schedule in exact integer arithmetic.
    stop_reason : StopReason
        ``"proof"``, ``"time-limit"``, ``"interrupted"``, ``"size"`` (the search would not fit into
        memory) or ``"stalled"`` (nothing here goes on).
    runtime : float
        Seconds.
    nodes : int
        States of the searches.
    log : tuple[Progress, ...]
        One `Progress` for each improvement.
    proof : Proof or None
        The best prices found; what they prove by themselves may be less than ``lower_bound``.
    """

    preemptive: ClassVar[bool] = True
    objective: ClassVar[Objective] = "total_latency"

    instance: Instance
    schedule: PreemptiveSchedule
    lower_bound: int
    stop_reason: StopReason
    runtime: float
    nodes: int
    log: tuple[Progress, ...] = field(repr=False)
    proof: Proof | None = field(default=None, repr=False)

    @property
    def certified_lower_bound(self) -> int:
        """The same as ``lower_bound``."""
        return self.lower_bound

    @property
    def status(self) -> SolveStatus:
        """``"optimal"`` only when upper and lower bound meet."""
        return "optimal" if self.upper_bound == self.lower_bound else "feasible"

    @property
    def upper_bound(self) -> int:
        """Total latency of ``schedule``, recomputed from its rounds."""
        return self.schedule.total_latency

    @property
    def gap(self) -> float:
        """(upper - lower) / upper; 0 when proved."""
        return (self.upper_bound - self.lower_bound) / self.upper_bound


def solve_preemptive(
    instance: Instance,
    time_limit: float | None = None,
    seed: int = 0,
    *,
    callback: Callable[[Progress], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> PreemptiveResult:
    """Minimise total latency where requests may be stopped between rounds and keep their tokens.

    A stopped request holds no memory, and going on costs nothing (`PreemptiveSchedule`). The
    optimum is at most that of `hindsight.solve`, and the bounds hold for every scheduler of the
    round model: one that recomputes what it preempted takes rounds or memory for it.

    Ctrl-C or the time limit end it with the interval found so far. Without numba only list
    schedules, output lengths and mean busy times are used.

    Parameters
    ----------
    instance : Instance
        The problem.
    time_limit : float or None, default None
        Seconds, or None.
    seed : int, default 0
        Of the annealing.
    callback : Callable[[Progress], None] or None, default None
        Told of every improvement.
    should_stop : Callable[[], bool] or None, default None
        Polled; True interrupts. None listens to Ctrl-C.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        A bad parameter.
    """
    if not isinstance(instance, Instance):
        raise InvalidTypeError(None, "instance", instance, "is not an Instance")
    limit = as_time_limit(time_limit)
    seed = as_integer(seed, None, "seed", minimum=0)
    began = time.monotonic()
    with stop_or_interruption(should_stop) as interrupted:
        interval = PreemptiveInterval(instance, limit, callback, interrupted, began=began)
        with interval.kept_when_interrupted():
            Search(interval, seed).run()
        interval.raise_kept_error()
        return PreemptiveResult(
            instance=instance,
            schedule=interval.best,
            lower_bound=interval.lower_bound,
            stop_reason=interval.stop_reason,
            runtime=interval.seconds(),
            nodes=interval.nodes,
            log=tuple(interval.log),
            proof=interval.proof,
        )


class PreemptiveInterval(SolveState):
    """A `SolveState` asks a schedule for its costs and violations, which both kinds have."""

    def offer(self, schedule: Schedule | PreemptiveSchedule) -> bool:
        """Take a schedule of either kind if it is better."""
        if isinstance(schedule, Schedule):
            schedule = PreemptiveSchedule.from_schedule(schedule)
        return super().offer(cast(Schedule, schedule))

    @property
    def best(self) -> PreemptiveSchedule:
        """The best schedule so far."""
        return cast(PreemptiveSchedule, self.schedule)

    def prove(self, bound: int) -> None:
        """Take an exact lower bound if it is better."""
        self.raise_lower(bound, certified=True)


class Search:
    """The phases of one solve."""

    def __init__(self, interval: PreemptiveInterval, seed: int) -> None:
        self._interval = interval
        self._instance = interval.instance
        self._seed = seed
        self._table: FloatArray | None = None
        self._search: PreemptiveSearch | None = None
        self._step = 1

    def run(self) -> None:
        """All phases, until proof, time limit or interruption."""
        interval, instance = self._interval, self._instance
        interval.offer(one_after_another(instance))
        interval.prove(int(instance.output_lengths.sum()))
        interval.prove(mean_busy_time_bound(instance))
        if not interval.is_done():
            thorough = len(instance) <= THOROUGH_UP_TO
            stop = interval.must_stop
            interval.offer(best_list_schedule(instance, thorough=thorough, should_stop=stop))
        tokens = int(instance.output_lengths.sum())
        if interval.is_done():
            return
        last = interval.best.makespan
        if max(last, tokens) > LARGEST_ORDER_WORK:
            interval.note_stop()
            return
        orders = OrderSearch(instance, self._seed)
        self._anneal(orders, 1)
        self._linear_prices()
        has_tables = (
            last * tokens * instance.memory_limit <= LARGEST_TABLE_WORK
            and int(instance.output_lengths.max()) <= LONGEST_OUTPUT
        )
        for phase in range(PHASES if not has_tables else 64):
            if interval.is_done():
                return
            if phase:
                self._anneal(orders, 2**phase)
            if has_tables:
                if phase < PHASES:
                    self._improve_prices(2**phase)
                if not self._exhaust(phase):
                    interval.stop_reason = "size"
                    return
        interval.note_stop()

    def run_each_part_once(self) -> None:
        """Every kind of work in its smallest amount, proved or not: compiles the kernels."""
        instance = self._instance
        self._interval.offer(OrderSearch(instance, self._seed).anneal(10, 1.0, 0.3))
        self._linear_prices()
        rounds, limit = self._interval.best.makespan, instance.memory_limit
        table = ascend(instance, np.zeros((rounds + 1, limit + 1)), 1)
        prices = round_preemptive_prices(table)
        preemptive_price_bound(instance, prices)
        search = PreemptiveSearch(instance, prices)
        search.run(self._interval.upper_bound, STATES, self._interval.must_stop)

    def _anneal(self, orders: OrderSearch, work: int) -> None:
        self._interval.phase = "heuristics"
        tokens = int(self._instance.output_lengths.sum())
        moves = max(10, min(100_000, SLICE_TOKENS // tokens))
        hot = float(self._instance.output_lengths.mean())
        for _ in range(work):
            if self._interval.is_done():
                return
            self._interval.offer(orders.anneal(moves, hot, 0.3))

    def _linear_prices(self) -> None:
        if self._interval.is_done():
            return
        self._interval.phase = "relaxation"
        last = int(self._instance.arrival_times.max())
        prices = filling_prices(fill_by_volume(self._instance))
        column = np.zeros((max(last, len(prices)) + 1, 1))
        column[1 : len(prices) + 1, 0] = prices
        self._prove_by(round_preemptive_prices(column))

    def _prove_by(self, prices: PreemptivePrices) -> None:
        """Take what prices prove, and keep the best of them."""
        interval, bound = self._interval, preemptive_price_bound(self._instance, prices)
        interval.prove(bound)
        if interval.root_bound is None or bound > interval.root_bound:
            interval.root_bound, interval.proof = bound, prices

    def _improve_prices(self, work: int) -> None:
        interval, instance = self._interval, self._instance
        if interval.is_done():
            return
        interval.phase = "relaxation"
        if self._table is None:
            prices = filling_prices(fill_by_volume(instance))
            rounds = max(len(prices), interval.best.makespan)
            self._table = np.zeros((rounds + 1, instance.memory_limit + 1))
            self._table[1 : len(prices) + 1] = prices[:, None] * np.arange(
                instance.memory_limit + 1
            )
        heat = 1.0 if work == 1 else 0.3
        self._table = ascend(
            instance,
            self._table,
            ASCENT * work,
            heat=(heat, 0.02),
            step=(0.02 + 0.01 * heat, 0.001),
            should_stop=interval.must_stop,
        )
        rounded = round_preemptive_prices(self._table)
        before = interval.lower_bound
        self._prove_by(rounded)
        if self._search is None or interval.lower_bound > before:
            self._search = PreemptiveSearch(instance, rounded)

    def _exhaust(self, phase: int) -> bool:
        """A beam, and growing budgets while they are exhausted; False where memory would not do."""
        interval = self._interval
        if interval.is_done() or self._search is None:
            return True
        interval.phase = "search"
        width, most = min(BEAM << phase, MOST_STATES), min(STATES << 2 * phase, MOST_STATES)
        stop = interval.must_stop
        found = self._search.run(interval.upper_bound - 1, MOST_STATES, stop, width=width)
        interval.nodes += found.states
        if found.schedule is not None:
            interval.offer(found.schedule)
        while not interval.is_done():
            budget = min(interval.lower_bound + self._step - 1, interval.upper_bound - 1)
            outcome = self._search.run(budget, most, stop)
            interval.nodes += outcome.states
            if outcome.status != "exhausted":
                self._step = max(1, self._step // 4)
                return most < MOST_STATES or outcome.status == "stopped"
            if outcome.schedule is not None:
                interval.offer(outcome.schedule)
                interval.prove(outcome.schedule.total_latency)
            else:
                interval.prove(budget + 1)
            self._step *= 2
        return True
