"""The relaxation without its model: prices first, and columns only where needed.

1. Volumes give the mean-busy-time bound and first prices, and a list schedule the first upper
   bound: a certified interval within moments.
2. `hindsight.relaxation.price_ascent` improves the prices, one per round, by L-BFGS-B on a smoothed
dual whose temperature falls. Its fractional solutions nearly keep the memory limit.
`hindsight.relaxation.memory_repair` moves the excess, and their cost is then an upper bound on the
relaxation.
3. If a small tolerance is requested and the size permits, `hindsight.relaxation.restricted_master`
finishes: a linear program over starts with almost zero reduced cost.

All prices are evaluated in integers (`hindsight.bounds.memory_prices`), so the result is proved
whenever the method stops. Beyond `LONGEST_PRICES` rounds only step 1 runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from hindsight.bounds.cheapest_starts import request_classes
from hindsight.bounds.memory_prices import (
    PriceBound,
    bound_without_prices,
    price_bound,
    round_prices,
)
from hindsight.bounds.volume import (
    LONGEST_PRICES,
    fill_by_volume,
    filling_prices,
    mean_busy_time_bound,
)
from hindsight.heuristics.list_scheduling import (
    PRIORITIES,
    one_after_another,
    prefix_schedule_within,
)
from hindsight.integer_program.starts import no_start
from hindsight.outcomes.errors import SolverError
from hindsight.outcomes.proofs import MemoryPrices
from hindsight.outcomes.results import (
    Fractions,
    Relaxation,
    RelaxationProgress,
    RelaxationStop,
    Weights,
    relative_gap,
)
from hindsight.runtime.clock import Clock, StoppedEarlyError, timed_slices
from hindsight.runtime.memory_use import resident_bytes
from instances import Instance, Schedule
from instances.arrays import FloatArray, IntArray

from .memory_repair import ListedStarts, within_memory
from .price_ascent import PriceAscent, mean_starts
from .restricted_master import LARGEST_MASTER, MOST_ADDED, NEGATIVE, RestrictedMaster, starts_near

MOMENTARY = 2000
"""Most requests for which the first list schedule cannot be interrupted."""

FIRST_TEMPERATURE = 0.13
"""First temperature, in mean output lengths."""

FLAT = 0.2
"""Initial price of every round, over the mean of 1 / (s + o / 2), if requests keep arriving."""

COOLING = 0.35
"""Factor on the temperature from stage to stage."""

FIRST_STEPS, STEPS = 200, 200
"""Steps of the first stage, whose initial prices are arbitrary, and of each later stage; twice as
many after each idle stage, and twice as many once the repair was expensive."""

DEAR = 0.5
"""Cost of repair, relative to the tolerance and the solution's cost, above which more steps are
worthwhile: their mean exceeds the memory limit by less."""

GAIN = 0.05
"""Gain of a stage, relative to the tolerance and the value, below which it counts as idle."""

PATIENCE = 4
"""Consecutive idle stages after which the ascent ends."""

CERTIFIED_EVERY = 10
"""Steps between two exact evaluations."""

SETTLED = 1e-6
"""Gain of a step, relative to the tolerance and the value, after which a stage ends."""

PROMISING = 0.05
"""Gap of an infeasible fractional solution below which it is repaired."""

TIGHTENING = 9.0
"""Reduction of the target capacity below M, relative to the mean excess of the last fractional
solution. Its cost in the bound is quadratic, and less than the cost of repair to the solution."""

TIGHTEST = 0.3
"""Most that the reduction costs, relative to the tolerance and M."""

MOST_LISTED = 20_000_000
"""Most starts with weights of fractional solutions that are repaired."""

FIRST_REACH = 2e-3
"""Largest reduced cost of the first columns, relative to the mean latency."""

MOST = 40
"""Most initial columns of a class of requests."""

LARGEST_DENOMINATOR = 2**34
"""Prices of a token are of the order of 1 / M, and rounding them should not cost the tolerance."""

LARGEST_COARSE_MASTER = 200_000
"""Most non-zeros for which the linear program also serves coarse tolerances: a larger one ignores
the clock for seconds in which prices would gain more."""

FINE = 1e-4
"""Tolerances below this value use the linear program if it fits."""


class ScaleRelaxation:
    """State of the relaxation, and the phases that improve it; the tolerance is relative."""

    def __init__(
        self,
        instance: Instance,
        *,
        tolerance: float,
        threads: int | None,
        clock: Clock,
        horizon: int | None = None,
        progress: Callable[[RelaxationProgress], None] | None = None,
    ) -> None:
        self.instance = instance
        self.horizon = horizon
        self.tolerance = tolerance
        self.threads = threads
        self.progress = progress
        self.clock = clock
        self.classes = request_classes(instance)
        self.final: IntArray | None = None
        if horizon is not None:
            self.final = horizon - self.classes.output_lengths
            for request in instance:
                if request.arrival_time + request.output_length > horizon:
                    raise no_start(request, horizon)
        self.phase = "start"
        self.iterations = 0
        self.fine = tolerance < FINE and self.columns_fit(LARGEST_MASTER)
        self.certified = 0
        self.value = -math.inf
        self.bound: PriceBound | None = None
        self.upper = math.inf
        self.first_schedule: Schedule | None = None
        self.schedule: Schedule | None = None
        self.ascent: PriceAscent | None = None
        self.ascent_ended = False
        self.stages, self.idle, self.is_dear = 0, 0, False
        self.stage_began: tuple[float, float, int] | None = None
        self.fractions: Fractions | None = None
        self.is_feasible = False

    def go_on(self) -> None:
        """Continue from where it stopped, as the clock allows, until nothing more is gained."""
        try:
            if self.first_schedule is None:
                self.begin()
            self.ascend()
            self.solve_columns()
        except StoppedEarlyError:
            pass

    @property
    def gap(self) -> float:
        """Return the relative gap between the value and the best solution."""
        return relative_gap(self.value, self.upper)

    def is_done(self) -> bool:
        """Tell whether the gap is closed or the clock requires a stop."""
        return self.gap <= self.tolerance or self.clock.must_stop()

    def begin(self) -> None:
        """Compute the volume bound, its prices, and a list schedule."""
        instance = self.instance
        filling = fill_by_volume(instance)
        bound = max(mean_busy_time_bound(instance, filling), instance.total_output_length)
        self.certified = bound
        prices = filling_prices(filling)
        try:
            self.offer_prices(prices)
            # Volumes ignore that a request takes o rounds, so with arrivals their prices are too
            # high. The bound is concave in their multiple.
            while not self.clock.must_stop() and self.offer_prices(prices / 2):
                prices /= 2
            volumes = instance.prompt_lengths + instance.output_lengths / 2
            flat = np.full(len(prices), FLAT * float((instance.weights / volumes).mean()))
            if not self.clock.must_stop() and self.offer_prices(flat):
                prices = flat
        except StoppedEarlyError:
            if self.bound is None:
                self.bound = bound_without_prices(instance)
                self.value = float(self.bound.scaled_value)
        self.first_prices = prices
        self.report()
        stop = self.clock.must_stop if len(instance) > MOMENTARY else None
        by_volume = prefix_schedule_within(instance, PRIORITIES["volume"], stop)
        schedule = by_volume or one_after_another(instance)
        self.first_schedule = schedule
        makespan = schedule.makespan
        if self.horizon is None or makespan <= self.horizon:
            self.schedule = schedule
            self.upper = float(schedule.total_latency)
        latest = int(instance.arrival_times.max())
        # Fractional solutions waste few rounds, so a schedule's makespan is long enough.
        longest = int(instance.output_lengths.max())
        rounds = max(len(prices) + len(prices) // 20, latest) + longest
        self.rounds = rounds if self.horizon is None else min(rounds, self.horizon)
        self.mean_latency = max(1.0, bound / len(instance))
        self.report()

    def ascend(self) -> None:
        """Cool down until the tolerance is met or nothing more is gained."""
        if self.ascent_ended or self.is_done():
            return
        if self.length(self.rounds) > LONGEST_PRICES:
            self.ascent_ended = True
            return
        self.phase = "prices"
        if self.ascent is None:
            instance = self.instance
            temperature = FIRST_TEMPERATURE * float(instance.output_lengths.mean())
            temperature *= float(instance.weights.mean())
            prices = np.zeros(self.rounds)
            known = self.first_prices[: self.rounds]
            prices[: len(known)] = known
            self.ascent = self.new_ascent(prices, temperature)
        tolerance, patience = self.tolerance, PATIENCE
        if self.fine and self.columns_fit(LARGEST_COARSE_MASTER):
            # A tiny linear program finishes faster.
            tolerance, patience = FINE, 1
        while self.idle < patience:
            if self.stage_began is None:
                steps = self.ascent.steps
                self.stage_began = (
                    self.value,
                    self.upper,
                    steps + (STEPS << self.idle + self.is_dear if self.stages else FIRST_STEPS),
                )
            value, upper, most = self.stage_began
            self.ascent.climb(most, SETTLED * tolerance)
            ascent = self.ascent = self.lengthened(self.ascent)
            self.iterations = ascent.iterations
            self.offer_ascent(ascent)
            if self.is_done():
                return
            # The reduction of the target capacity is not due to the temperature.
            spared = (self.instance.memory_limit - ascent.capacity) * ascent.now.prices.sum()
            smoothing = relative_gap(self.value, ascent.now.cost - spared)
            moved = 0.0
            if smoothing < PROMISING and not self.fine:
                moved = self.offer_repaired(ascent)
                self.is_dear = self.is_dear or moved > DEAR * self.tolerance
                if self.is_done():
                    return
            gained = max(self.value - value, upper - self.upper)
            gains = gained > GAIN * tolerance * abs(self.value)
            self.stages, self.stage_began = self.stages + 1, None
            self.idle = 0 if gains else self.idle + 1
            # If repair costs more than the temperature does, the prices are to blame.
            if not gains or moved < smoothing:
                ascent.cool(COOLING)
        self.ascent_ended = True

    def columns_fit(self, largest: int) -> bool:
        """Tell whether a linear program over a few starts each has few enough non-zeros."""
        return 8 * int(self.classes.output_lengths.sum()) <= largest

    def solve_columns(self) -> None:
        """Generate columns from the starts of least reduced cost."""
        largest = LARGEST_MASTER if self.fine else LARGEST_COARSE_MASTER
        if self.is_done() or self.ascent is None or self.bound is None:
            return
        if not self.columns_fit(largest):
            return
        self.phase = "columns"
        final = self.last_starts()
        limit = self.instance.memory_limit
        master = RestrictedMaster(self.classes, limit, self.schedule)
        prices = self.bound.prices.as_floats()
        reach = FIRST_REACH * self.mean_latency
        near = starts_near(self.classes, prices, final, reach, MOST, self.clock.must_stop)
        if near is None:
            return
        master.add(near)
        while master.entries <= LARGEST_MASTER:
            solution = master.solve(self.clock, self.threads)
            if solution is None:
                return
            self.iterations += 1
            self.offer_prices(solution.prices)
            if solution.objective < self.upper or not self.is_feasible:
                self.upper = solution.objective
                self.keep(Fractions.listed(solution.weights, self.classes.class_of))
            self.report()
            if self.is_done():
                return
            missing = starts_near(
                self.classes,
                solution.prices,
                final,
                -NEGATIVE,
                MOST_ADDED,
                self.clock.must_stop,
                solution.class_prices,
            )
            if missing is None or not master.add(missing):
                return

    def length(self, rounds: int) -> int:
        """Return a length such that rounds 0 .. length - 1 hold every start and its completion."""
        return int(self.last_starts(rounds).max() + self.classes.output_lengths.max()) + 2

    def last_starts(self, rounds: int | None = None) -> IntArray:
        """Return the last start considered for each class, shape (classes,)."""
        if self.final is not None:
            return self.final
        priced = self.rounds if rounds is None else rounds
        return np.maximum(self.classes.arrival_times, priced)

    def new_ascent(self, prices: FloatArray, temperature: float) -> PriceAscent:
        """Create an ascent from these prices of as many rounds."""
        return PriceAscent(
            self.classes,
            self.instance.memory_limit,
            prices,
            temperature,
            final=self.last_starts(len(prices)),
            stepped=self.hear,
            must_stop=self.clock.must_stop,
        )

    def hear(self, ascent: PriceAscent) -> None:
        """Certify the gains of some steps, as on large instances a stage takes minutes."""
        if ascent.steps % CERTIFIED_EVERY == 0:
            self.iterations = ascent.iterations
            self.offer_ascent(ascent)

    def offer_ascent(self, ascent: PriceAscent) -> None:
        """Certify the prices if they seem to prove more."""
        if ascent.now.value > self.value and self.offer_prices(ascent.round_prices()):
            self.report()

    def lengthened(self, ascent: PriceAscent) -> PriceAscent:
        """Add rounds if the fractional solution needs memory after the last price."""
        if self.horizon is not None and self.rounds >= self.horizon:
            return ascent
        limit = self.instance.memory_limit
        while not self.clock.must_stop():
            if ascent.now.usage[self.rounds + 1 :].max(initial=0.0) <= limit:
                break
            rounds = self.rounds + max(1, self.rounds // 10)
            if self.horizon is not None:
                rounds = min(rounds, self.horizon)
            if self.length(rounds) > LONGEST_PRICES:
                break
            more = np.zeros(rounds - self.rounds)
            prices = np.append(ascent.round_prices(), more)
            capacity = ascent.capacity
            ascent = self.ascent = self.new_ascent(prices, ascent.temperature)
            self.rounds = rounds
            ascent.iterations, ascent.capacity = self.iterations, capacity
            ascent.climb(STEPS, SETTLED * self.tolerance)
            self.iterations = ascent.iterations
        return ascent

    def offer_repaired(self, ascent: PriceAscent) -> float:
        """Repair the fractional solution if it exceeds the memory limit; keep it if it is the best.

        Returns
        -------
        float
            Cost of the repair, relative to that of the solution.
        """
        recent, count = ascent.recent(), len(self.classes.counts)
        windows = ascent.now.windows
        if int((windows.last - windows.first).sum()) > MOST_LISTED:
            return 0.0
        must_stop = self.clock.must_stop
        parts, entries = [], 0
        for part in timed_slices(count, must_stop):
            parts.append(mean_starts(recent, part.start, part.stop))
            entries += len(parts[-1].starts)
            if entries > MOST_LISTED:
                return 0.0
        listed = ListedStarts(
            self.classes,
            np.concatenate([part.class_of for part in parts]),
            np.concatenate([part.starts for part in parts]),
            np.concatenate([part.masses for part in parts]),
        )
        limit = self.instance.memory_limit
        excess = np.mean([one.usage for one in recent], axis=0) - ascent.capacity
        lost = TIGHTENING * float(np.maximum(excess, 0.0).mean())
        least = limit * (1 - TIGHTEST * self.tolerance)
        found = within_memory(listed, limit, self.final, must_stop)
        ascent.capacity = max(limit - lost, least)
        if found is None:
            return 0.0
        cost = found.cost()
        if cost < self.upper:
            self.upper = cost
            self.keep(found.fractions())
            self.report()
        return cost / listed.cost() - 1

    def keep(self, fractions: Fractions) -> None:
        """Store a fractional solution within the memory limit, the best so far."""
        self.fractions = fractions
        self.is_feasible = True

    def offer_prices(self, prices: FloatArray) -> bool:
        """Evaluate prices of rounds 1, 2, ... exactly; if they prove more, keep them; say so."""
        exact = round_prices(prices, self.instance, LARGEST_DENOMINATOR)
        bound = self.evaluated(exact)
        value = bound.scaled_value / exact.denominator
        self.certified = max(self.certified, bound.bound)
        if self.final is not None:
            # A horizon excludes starts, so that more can be proved about this relaxation.
            value = self.evaluated(exact, self.final).scaled_value / exact.denominator
        better = value > self.value
        if better:
            self.value, self.bound = value, bound
        if self.horizon is not None and value > self.latest_cost(self.horizon):
            raise SolverError(f"no fractional solution ends by round {self.horizon}")
        return better

    def evaluated(self, prices: MemoryPrices, final: IntArray | None = None) -> PriceBound:
        """Return the exact bound of these prices."""
        return price_bound(
            self.instance,
            prices,
            classes=self.classes,
            final=final,
            should_stop=self.clock.must_stop,
        )

    def latest_cost(self, horizon: int) -> int:
        """Return the total latency if every request completes in the last round, an upper bound."""
        weights = self.instance.weights
        return int(weights.sum()) * horizon - int(weights @ self.instance.arrival_times)

    def report(self) -> None:
        """Report the progress to the caller."""
        if self.progress is not None:
            self.progress(
                RelaxationProgress(
                    self.clock.seconds(),
                    self.phase,
                    self.iterations,
                    self.certified,
                    self.value,
                    self.upper,
                    resident_bytes(),
                )
            )

    def stop_reason(self) -> RelaxationStop:
        """Return the reason why it ended."""
        if self.gap <= self.tolerance:
            return "tolerance"
        return self.clock.stop_reason()

    def result(self) -> Relaxation:
        """Return the present result."""
        assert self.first_schedule is not None
        assert self.bound is not None
        reason = self.stop_reason()
        fractions, feasible = self.fractions, self.is_feasible
        if fractions is None and self.ascent is not None and reason != "tolerance":
            fractions = self.ascent.now.fractions()
        if fractions is None:
            fractions = self.schedule_fractions(self.first_schedule)
            feasible = self.schedule is not None
        return Relaxation(
            instance=self.instance,
            objective=self.upper,
            certified_bound=self.certified,
            expected_start_times=fractions.mean_starts,
            memory_prices=self.bound.prices,
            horizon=self.horizon or self.rounds,
            fractions=fractions,
            runtime=self.clock.seconds(),
            dual_value=self.value,
            method="lagrangian",
            iterations=self.iterations,
            stop_reason=reason,
            is_feasible=feasible,
        )

    def schedule_fractions(self, schedule: Schedule) -> Fractions:
        """Return a schedule as a fractional solution that identical requests share."""
        grouped = self.classes.grouped(schedule.start_times)
        class_of = self.classes.class_of
        means = np.bincount(class_of, schedule.start_times) / self.classes.counts
        latest = np.array([starts.max() for starts in grouped], dtype=np.int64)
        return Fractions(
            partial(_shares, grouped), class_of, means, latest, np.zeros_like(class_of)
        )


def _shares(starts: list[IntArray], k: int) -> Weights:
    at, times = np.unique(starts[k], return_counts=True)
    return at, times / len(starts[k])
