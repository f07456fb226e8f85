"""Optima of fleets in rounds: K replicas, each with memory M, that share nothing but the requests.

**Bounds.** Two relaxations bound the optimum, and both are exact in integers:

- *One machine with memory K M* (`instances.problem.memory_translation.pooled`). Rounds of replicas
  are aligned and last a unit whatever their batch, and what all replicas hold in a round is at most
  K M: so every schedule of the fleet is one of this machine. All bounds of it, and what proves
  them, hold for the fleet, also with preemption, with free migration and for the makespan.
- *Prices of what runs together on a replica* (`hindsight.prices.state_ascent`). What is active on
  each replica is a configuration of memory M, so K times the heaviest one is paid at most. These
  prices see that a request must fit one replica, which the memory of the one machine hides.

**Schedules** come from ruin and recreate over order and replica
(`hindsight.schedules.improving`), and last each replica is solved by itself.

**Small instances** are proved by the integer program of one timeline with a segment for each
replica (`hindsight.exact.starts`), over the starts that the prices leave; for the
makespan over those that complete by a horizon (`hindsight.strategies.makespan`).

No optimum needs more replicas than requests: the others stay empty.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

import numpy as np

from instances import FleetSchedule, Instance, Schedule
from instances.arrays import IntArray
from instances.problem.memory_translation import pooled, relaxed
from instances.problem.preemptive_schedule import AnySchedule

from .exact.starts import start_sets, useful_replicas
from .memory_rules import run_makespan, solve_by_memory_rule
from .outcomes.interval import Interval
from .outcomes.result import STATE_PRICES, Result
from .prices.state_ascent import StateAscent, fits
from .prices.state_proofs import StatePrices
from .prices.state_tables import state_copies
from .prices.states import SCALE, exact_bound, integer_capacities, start_values
from .rounds import Task, solve_rounds
from .runtime.clock import Clock
from .runtime.search import Search
from .schedules.improving import Improvement
from .schedules.lists import first_orders, round_robin
from .strategies.program import search_program, starts_by_relaxation
from .strategies.strategy import Problem

POOLED_SHARE, PRICED_SHARE, PARTS_SHARE = 0.25, 0.1, 0.25
"""Shares of the time left: for the one machine, for it where a replica's memory is small enough for
prices of what runs together, and for the replicas by themselves."""

UNLIMITED_TURN = 30.0
"""Seconds for either of them without a time limit."""

EARLY_CYCLES, CYCLES = 16, 4
"""Cycles of moves and orders before the first ascent and the integer program, and between two
ascents."""

ASCENT_SHARE, PROGRAM_SHARE = 0.6, 0.5
"""Most of the time left that an ascent and the integer program take."""

PATIENCE = 3
"""Cycles and ascents without a better schedule or bound that end a search without a time limit."""

ASCENT = 60
"""Iterations of the first ascent. Without a time limit each has twice as many as the last."""

FADES = (1.0, 0.5, 0.25)
"""Heats and steps of the ascents as shares of the first; the last holds for the rest."""

FEW, FIRST_WIDTH = 28, 4
"""Most requests whose first ascent has a price for each epoch; of more, some epochs share one."""

PRICING = {"paths", "configurations"}
"""Strategies that price what runs together."""

MOST_ITERATIONS = 1_000
"""Most iterations of an ascent under a time limit."""

MOST_PAIRS = 20_000
"""Most starts on all replicas for which ``"auto"`` runs the integer program."""


def solve_fleet(instance: Instance, task: Task, search: Search) -> Result:
    """Solve an instance with several replicas; see the module docstring.

    Parameters
    ----------
    instance : Instance
        The problem.
    task : Task
        The task, checked; it has no user-defined bounds.
    search : Search
        The search options, checked.
    """
    used = instance.with_replicas(useful_replicas(instance))
    if search.start is not None:
        search = replace(search, start=_on(used, search.start))
    if used.replicas == 1:
        found = _solve_machine(used, task, replace(search, start=_first(search.start)))
        parts = cast(Any, [found.schedule])
        one = FleetSchedule(used, np.zeros(len(used), np.int64), parts)
        return replace(found, problem=instance, schedule=_on(instance, one))
    with search.clock.listening():
        fleet = _FleetSearch(used, task, search)
        with fleet.state.kept_when_interrupted():
            fleet.run()
        return fleet.result(instance)


def _first(start: FleetSchedule | None) -> Any:
    return None if start is None else next(part for part in start.parts if part is not None)


def _on(instance: Instance, schedule: FleetSchedule) -> FleetSchedule:
    """Return the same schedule on another number of replicas, those in use first."""
    order = sorted(range(len(schedule.parts)), key=lambda k: schedule.parts[k] is None)
    parts = [schedule.parts[k] for k in order[: instance.replicas]]
    parts += [None] * (instance.replicas - len(parts))
    return FleetSchedule(instance, np.argsort(order)[schedule.assignment], parts)


def _solve_machine(instance: Instance, task: Task, search: Search) -> Result:
    """Solve an instance of one machine under its memory rule."""
    counts_tokens = relaxed(instance) is instance
    return (solve_rounds if counts_tokens else solve_by_memory_rule)(instance, task, search)


class _FleetSearch:
    """Search of a fleet with at most as many replicas as requests."""

    def __init__(self, instance: Instance, task: Task, search: Search) -> None:
        self.state = Interval(instance, *task.about, search.clock, search.progress, search.gap)
        self._instance, self._task, self._options = instance, task, search
        self._problem = Problem(instance, task.goal, None, search.threads, search.seed)
        self._machine = pooled(instance)
        self._methods = {strategy.name for strategy in task.strategies}
        self._search = Improvement(self.state, search.seed, self._problem.cores)
        self._ascent = Ascent(instance, self._problem.cores)
        self._idle = self._fruitless = 0

    def run(self) -> None:
        """Bound the one machine, improve schedules and prices in turn, then search exactly."""
        state, start = self.state, self._options.start
        if start is not None:
            self._offer(start)
        first = self._search.moves
        dealt = round_robin(self._instance)
        first.offer(dealt.start_times, dealt.assignment)
        self._offer(dealt)
        lengths = self._instance.total_output_length if state.optimum != "makespan" else 0
        state.prove(lengths, "output lengths")
        for order in first_orders(self._instance):
            if not state.is_done() and first.place(order):
                self._offer(first.schedule)
        if not state.is_done():
            below = self._bound_machine()
            if first.place(np.argsort(below.start_times, kind="stable")):
                self._offer(first.schedule)
        is_latency = state.optimum == "latency"
        if is_latency and not state.is_done():
            self._close()
        if not state.is_done():
            self._solve_parts()
        if state.optimum == "makespan":
            run_makespan(self._task, self._problem, state)
        if is_latency and state.clock.limit_left() is not None and not state.is_done():
            self._search.run(patient=True)
        state.note_stop()

    def _close(self) -> None:
        """Improve schedules and prices in turn; search small instances exactly."""
        state = self.state
        left = state.clock.seconds_left()
        with state.clock.within((1 - PARTS_SHARE) * left):
            self._search.run(EARLY_CYCLES, patient=True)
            self._raise_prices()
            if "mip" in self._methods and not state.is_done():
                self._search_program()
            while self._idle < (PATIENCE if math.isinf(left) else math.inf):
                if state.is_done():
                    return
                before = state.upper_bound - state.lower_bound
                self._search.run(CYCLES, patient=True)
                self._raise_prices()
                gained = state.upper_bound - state.lower_bound < before
                self._idle = 0 if gained else self._idle + 1

    def _offer(self, schedule: Schedule | FleetSchedule) -> None:
        self.state.offer(schedule)

    @property
    def _has_prices(self) -> bool:
        """Tell whether to price what runs together on a replica."""
        if self.state.optimum != "latency" or not self._methods & PRICING:
            return False
        return self._ascent.fits(self._best.makespan)

    @property
    def _best(self) -> FleetSchedule:
        return cast(FleetSchedule, self.state.schedule)

    def _bound_machine(self) -> AnySchedule:
        """Take the bounds of one machine with all memory, and return its schedule."""
        state = self.state
        state.phase = "relaxation"
        left = state.clock.limit_left()
        share = PRICED_SHARE if self._has_prices else POOLED_SHARE
        limit = UNLIMITED_TURN if left is None else share * left
        # Prices of what runs together on a replica prove more than on all together.
        others = [one for one in self._task.strategies if one.name not in PRICING]
        task = self._task
        if self._has_prices and others:
            task = replace(task, strategies=tuple(others))
        part = self._options.part(limit, progress=state.follow("one machine"))
        below = solve_rounds(self._machine, task, part)
        state.take_bounds(below)
        return cast(AnySchedule, below.schedule)

    def _raise_prices(self) -> None:
        """Improve the prices of what runs together on a replica."""
        state = self.state
        if not self._has_prices or self._fruitless == PATIENCE or state.is_done():
            return
        state.phase = "relaxation"
        with state.clock.within(ASCENT_SHARE * state.clock.seconds_left()):
            bound = self._ascent.improve(self._best.makespan, state.clock)
        if bound > state.certified_lower_bound:
            state.root_bound, state.proof = bound, self._ascent.prices
        self._fruitless = 0 if bound > state.lower_bound else self._fruitless + 1
        state.prove(min(bound, state.upper_bound), STATE_PRICES)

    def _search_program(self) -> None:
        """Solve the integer program over the starts that the prices leave."""
        state = self.state
        useful = starts_by_relaxation(state, self._machine, state.proof)
        if useful is None:
            return
        program = start_sets(self._instance, self._ascent.allowed(useful, state.upper_bound))
        if program.count > MOST_PAIRS and len(self._methods) > 1:
            return
        state.horizon = program.rounds
        with state.clock.within(PROGRAM_SHARE * state.clock.seconds_left()):
            search_program(self._problem, state, program)

    def _solve_parts(self) -> None:
        """Solve each replica by itself, for its share of the time left."""
        state, best = self.state, self._best
        state.phase = "search"
        parts, busy = list(best.parts), [k for k, part in enumerate(best.parts) if part is not None]
        for number, k in enumerate(busy):
            left = state.clock.limit_left()
            share = UNLIMITED_TURN if left is None else left
            part = self._options.part(share / (len(busy) - number), start=parts[k])
            own = self._instance.alone(best.positions[k])
            parts[k] = cast(Any, _solve_machine(own, self._task, part).schedule)
        self._offer(FleetSchedule(self._instance, best.assignment, parts))

    def result(self, instance: Instance) -> Result:
        """Return the result for the instance with all of its replicas."""
        state, schedule = self.state, _on(instance, self._best)
        return state.result(instance, schedule, horizon=state.latest_completion)


class Ascent:
    """Prices of what runs together on a replica, and the bound that they prove.

    Parameters
    ----------
    instance : Instance
        The fleet.
    threads : int
        Threads of the ascent.

    Attributes
    ----------
    prices : StatePrices or None
        The best prices so far, of the fleet counted in tokens.
    """

    def __init__(self, instance: Instance, threads: int) -> None:
        self._fleet, self._threads = relaxed(instance), threads
        self.prices: StatePrices | None = None
        self._ascent: StateAscent | None = None
        self._runs, self._pace = 0, 0.0

    def fits(self, makespan: int) -> bool:
        """Tell whether prices up to a makespan are few, and count every request alike."""
        return fits(self._fleet, makespan) and not self._fleet.is_weighted

    def improve(self, makespan: int, clock: Clock) -> int:
        """Run further iterations, as many as fit the time left, and return the bound proved."""
        if self._ascent is None:
            self._ascent = StateAscent(
                self._fleet, makespan, threads=self._threads, must_stop=clock.must_stop
            )
            self._ascent.share(1 if len(self._fleet) <= FEW else FIRST_WIDTH)
        iterations, begun = ASCENT << min(self._runs, 5), clock.seconds()
        if self._pace and clock.limit_left() is not None:
            iterations = int(max(1, min(clock.seconds_left() / self._pace, MOST_ITERATIONS)))
        fade = FADES[min(self._runs, len(FADES) - 1)]
        self._ascent.improve(iterations, fade, clock.must_stop)
        self._runs += 1
        self._ascent.share(max(1, self._ascent.width // 2))
        self._pace = (clock.seconds() - begun) / iterations
        self.prices = StatePrices(self._ascent.integer_prices()[0])
        return exact_bound(self.prices.prices, self._fleet)

    def allowed(self, starts: list[IntArray], upper_bound: int) -> list[IntArray]:
        """Return those of the starts that a schedule of at most ``upper_bound`` can use."""
        if self.prices is None:
            return starts
        fleet, Q = self._fleet, self.prices.prices
        s, o, a, limit = fleet.alone().columns
        costs, _ = start_values(Q, s, o, a)
        # Past the last price only latency grows.
        least = [min(row[start:].tolist()) for row, start in zip(costs, a.tolist(), strict=True)]
        paid = fleet.replicas * sum(integer_capacities(Q, state_copies(s, o, limit)).tolist())
        slack = SCALE * upper_bound - (sum(least) - paid)
        kept = []
        for i, own in enumerate(starts):
            priced = costs[i, np.minimum(own, len(Q))] + SCALE * np.maximum(own - len(Q), 0)
            kept.append(own[priced - least[i] <= slack])
        return kept
