"""The relaxation without its model: prices first, columns only where they are needed.

1. Volumes give the mean-busy-time bound and first prices, and a list schedule the first upper
   bound: a certified interval within moments.
2. `hindsight.relaxation.price_path` improves the prices by Newton steps on a smoothed dual. Where
   its fractional solution exceeds the memory limit between knots, knots are added and the capacity
   there is lowered until it does not: then its cost is an upper bound on the relaxation.
3. Where a small tolerance is asked for and the size permits,
   `hindsight.relaxation.restricted_master` ends it: a linear program over the starts of next to no
   reduced cost.

All prices are evaluated in integers (`hindsight.bounds.memory_prices`), so whenever it stops, what
it has is proved. Beyond `LONGEST_PRICES` rounds there is only the first of these.
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
from hindsight.heuristics.list_scheduling import one_after_another, prefix_schedule_within
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
from hindsight.runtime.clock import Clock, StoppedEarlyError
from hindsight.runtime.memory_use import resident_bytes
from instances import Instance, Schedule
from instances.arrays import FloatArray, IntArray

from .price_knots import PriceKnots, even_knots, first_knots
from .price_path import SAMPLES, PricePath
from .restricted_master import LARGEST_MASTER, MOST_ADDED, NEGATIVE, RestrictedMaster, starts_near

MOMENTARY = 2000
"""Requests up to which the first list schedule is not broken off."""

EVERY_ROUND = 1200
"""Rounds up to which each has a price of its own."""

FIRST_KNOTS = 500
MOST_EVEN_KNOTS = 1500
MOST_KNOTS = 2000
"""A Newton step factorises a matrix of this order."""

ALL_SAMPLES = 200_000
MOST_SAMPLES = 100
"""Starts in the Hessian, of all requests and of one: where requests are few, each bends the dual
more, and steps from thinned-out windows stall."""

FINE_SAMPLES = 200
"""Starts of a request in the Hessian where the tolerance is fine and outputs are short."""

FIRST_TEMPERATURE = 0.01
"""Of the mean latency in the volume bound, where the prices begin near the best ones."""

HOT = 0.1
"""The same where they do not: with arrivals over time the volume bound is far off."""

KNOTS_PER_OUTPUT = 4.0
"""Evenly spaced knots in the mean output length, where arrivals make prices bend all the time."""

COOLING = 0.4
"""Of the temperature, at least; less where `AIM` is nearer."""

AIM = 0.6
"""Of the tolerance: the gap that a temperature is to leave where the next one can have it. Warmer
solutions are smoother, and fit sooner."""

STAGES = 60
FINE_STEPS, COARSE_STEPS = 60, 20
REPAIRS = 8
"""Times that capacity is lowered where the fractional solution exceeds it."""

SETTLED = 1e-4
"""Accuracy of the centring, over n tau, of solutions that are to fit."""

COARSE = 5e-3
"""Relative excess above which knots are added before capacity is lowered."""

EVENLY = 0.25
"""Relative excess, over the tolerance, that is taken off the capacity of all knots alike: lowered
only where it is, it would move to their neighbours."""

WITHIN_MEMORY = 1e-9
"""Relative excess of memory that counts as rounding."""

FIRST_REACH = 2e-3
"""Reduced costs of the first columns, over the mean latency."""

MOST = 40
"""First columns of a class of requests."""

LARGEST_DENOMINATOR = 2**34
"""Prices of a token are of the order of 1 / M, and their rounding should not cost the tolerance."""

FINE = 1e-4
"""Tolerances below this are for the linear program, where it fits."""


class ScaleRelaxation:
    """What is known so far, and the phases that add to it; the tolerance is relative."""

    def __init__(
        self,
        instance: Instance,
        *,
        horizon: int | None,
        tolerance: float,
        threads: int | None,
        progress: Callable[[RelaxationProgress], None] | None,
        clock: Clock,
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
        self.fine = tolerance < FINE and self.columns_fit()
        self.certified = 0
        self.value = -math.inf
        self.bound: PriceBound | None = None
        self.upper = math.inf
        self.first_schedule: Schedule | None = None
        self.schedule: Schedule | None = None
        self.is_rough = False
        self.path: PricePath | None = None
        self.path_ended = False
        self.stages, self.idle = 0, 0
        self.stage_value: float | None = None
        self.guess: PricePath | None = None
        self.fractions: Fractions | None = None
        self.is_feasible = False

    def go_on(self) -> None:
        """Go on from where it stopped, as the clock allows, or until nothing more is gained."""
        try:
            if self.first_schedule is None:
                self.begin()
            self.follow_path()
            self.solve_columns()
        except StoppedEarlyError:
            pass

    @property
    def gap(self) -> float:
        """Relative gap between the value and the best schedule's."""
        return relative_gap(self.value, self.upper)

    def is_done(self) -> bool:
        """Whether the gap is closed, or it must stop."""
        return self.gap <= self.tolerance or self.clock.must_stop()

    def begin(self) -> None:
        """Volume bound, its prices, and a list schedule."""
        instance = self.instance
        filling = fill_by_volume(instance)
        bound = max(mean_busy_time_bound(instance, filling), int(instance.output_lengths.sum()))
        self.certified = bound
        prices = filling_prices(filling)
        try:
            self.offer_prices(prices)
            # Volumes ignore that a request takes o rounds, so with arrivals their prices are too
            # high. The bound is concave in their multiple.
            while not self.clock.must_stop() and self.offer_prices(prices / 2):
                prices /= 2
                self.is_rough = True
        except StoppedEarlyError:
            if self.bound is None:
                self.bound = bound_without_prices(instance)
                self.value = float(self.bound.scaled_value)
        self.first_prices = prices
        self.report()
        stop = self.clock.must_stop if len(instance) > MOMENTARY else None
        schedule = prefix_schedule_within(
            instance, lambda request: request.volume, stop
        ) or one_after_another(instance)
        self.first_schedule = schedule
        makespan = schedule.makespan
        if self.horizon is None or makespan <= self.horizon:
            self.schedule = schedule
            self.upper = float(schedule.total_latency)
        latest = int(instance.arrival_times.max())
        # Fractional solutions waste little of the rounds; a schedule's makespan is ample.
        rounds = max(len(prices) + len(prices) // 20 + 1, latest + 1)
        if len(prices) <= EVERY_ROUND:
            rounds = max(rounds, makespan)
        self.rounds = rounds if self.horizon is None else min(rounds, self.horizon)
        self.mean_latency = max(1.0, bound / len(instance))
        self.report()

    def follow_path(self) -> None:
        """Cool down until the tolerance is met or nothing more is gained."""
        if self.path_ended or self.is_done():
            return
        if self.length(self.rounds) > LONGEST_PRICES:
            self.path_ended = True
            return
        self.phase = "prices"
        if self.path is None:
            temperature = (HOT if self.is_rough else FIRST_TEMPERATURE) * self.mean_latency
            self.path = self.new_path(self.first_knots(), self.first_prices, temperature)
        while self.stages < STAGES:
            path = self.path
            if self.stage_value is None:
                # Not the best value: hot prices may begin below it, and rise.
                self.stage_value = path.now.value
            settled = path.centre(0.03, most=self.most_steps())
            self.iterations = path.iterations
            path = self.path = self.lengthened(path)
            self.take(path)
            if self.is_done():
                return
            promising = relative_gap(self.value, path.now.cost) < 0.8 * self.tolerance
            if promising and not self.fine:
                self.repair(path)
                if self.is_done():
                    return
            gain = path.now.value - self.stage_value
            gained = gain > 0.05 * self.tolerance * abs(self.value)
            self.stages, self.stage_value = self.stages + 1, None
            self.idle = 0 if gained else self.idle + 1
            if self.idle >= 3 or (self.idle >= 2 and self.fine) or (not settled and not gained):
                break
            left = relative_gap(self.value, path.now.cost)
            aimed = AIM * self.tolerance / left if left > self.tolerance * AIM else 0.0
            path.cool(max(COOLING, min(0.8, aimed)))
        self.path_ended = True

    def columns_fit(self) -> bool:
        """Whether a linear program over a few starts each is within reach."""
        return 8 * int(self.classes.output_lengths.sum()) <= LARGEST_MASTER

    def solve_columns(self) -> None:
        """Column generation from the starts of least reduced cost."""
        if self.is_done() or self.path is None or self.bound is None or not self.columns_fit():
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

    def most_steps(self) -> int:
        """Of Newton in a stage: cooling on gains more than the last steps of a coarse centring."""
        return FINE_STEPS if self.fine else COARSE_STEPS

    def samples(self) -> int:
        """More where the end is approached closely, and profiles of memory are short."""
        if not self.fine:
            shared = ALL_SAMPLES // len(self.classes.counts)
            return max(SAMPLES, min(MOST_SAMPLES, shared))
        short = min(1.0, 100 / float(self.classes.output_lengths.mean()))
        return max(SAMPLES, int(FINE_SAMPLES * short * short))

    def first_knots(self) -> PriceKnots:
        """The rounds at which prices are free to begin with."""
        count = EVERY_ROUND if self.fine and self.rounds <= EVERY_ROUND else FIRST_KNOTS
        length = self.length(self.rounds)
        if self.is_rough and self.rounds > count:
            spacing = float(self.instance.output_lengths.mean()) / KNOTS_PER_OUTPUT
            wanted = int(np.clip(self.rounds / spacing, FIRST_KNOTS, MOST_EVEN_KNOTS))
            return even_knots(self.rounds, length, wanted)
        return first_knots(self.rounds, length, count)

    def length(self, rounds: int) -> int:
        """Rounds 0 .. length - 1 hold every start considered and its completion."""
        return int(self.last_starts(rounds).max() + self.classes.output_lengths.max()) + 2

    def last_starts(self, rounds: int | None = None) -> IntArray:
        """Last start of each class that is considered, shape (classes,)."""
        if self.final is not None:
            return self.final
        priced = self.rounds if rounds is None else rounds
        return np.maximum(self.classes.arrival_times, priced)

    def new_path(self, knots: PriceKnots, prices: FloatArray, temperature: float) -> PricePath:
        """A path over these knots, from these prices."""
        return PricePath(
            self.classes,
            self.instance.memory_limit,
            knots,
            prices,
            temperature,
            final=self.last_starts(),
            samples=self.samples(),
            stepped=self.hear,
            must_stop=self.clock.must_stop,
        )

    def hear(self, path: PricePath) -> None:
        """Certify what one step has gained: on large instances a stage takes minutes."""
        if path.now.value > self.value and self.offer_prices(path.round_prices()):
            self.iterations = path.iterations
            self.report()

    def lengthened(self, path: PricePath) -> PricePath:
        """More rounds, where the fractional solution needs memory after the last price."""
        if self.horizon is not None and self.rounds >= self.horizon:
            return path
        limit = self.instance.memory_limit
        while not self.clock.must_stop() and len(path.now.usage) > self.rounds + 1:
            if path.now.usage[self.rounds + 1 :].max() <= limit * (1 + WITHIN_MEMORY):
                break
            rounds = self.rounds + max(1, self.rounds // 10)
            if self.horizon is not None:
                rounds = min(rounds, self.horizon)
            if self.length(rounds) > LONGEST_PRICES:
                break
            step = int(path.knots.knots[-1] - path.knots.knots[-2]) if len(path.knots) > 1 else 1
            more = np.arange(path.knots.T + 1, rounds + 1, max(1, step), dtype=np.int64)
            knots = PriceKnots(np.append(path.knots.knots, more), rounds, self.length(rounds))
            self.rounds = rounds
            path = self.new_path(knots, path.now.prices[1:], path.temperature)
            path.iterations = self.iterations
            path.centre(0.03)
            self.iterations = path.iterations
        return path

    def take(self, path: PricePath) -> None:
        """Certify the prices, and keep the fractional solution for what it is."""
        fits = float(self.excess(path).max()) <= WITHIN_MEMORY
        if fits and path.now.cost < self.upper:
            self.upper = path.now.cost
            self.keep(path.now.fractions())
        elif not fits:
            self.guess = path
        if path.now.value > self.value:
            self.offer_prices(path.round_prices())
        self.report()

    def excess(self, path: PricePath) -> FloatArray:
        """Memory used beyond M over M, per round."""
        return np.maximum(path.now.usage / self.instance.memory_limit - 1, 0.0)

    def repair(self, path: PricePath) -> None:
        """Make the fractional solution fit: settle, then more knots, then less capacity."""
        path.centre(SETTLED)
        for _ in range(REPAIRS):
            self.iterations = path.iterations
            self.take(path)
            excess = self.excess(path)
            if float(excess.max()) <= WITHIN_MEMORY or self.is_done():
                return
            if float(excess.max()) <= EVENLY * self.tolerance:
                excess = np.full_like(excess, excess.max())
            room = min(MOST_KNOTS, 2 * len(path.knots)) - len(path.knots)
            # What a knot at every round could not level needs less capacity at once.
            if not (float(excess.max()) > COARSE and room > 0 and path.refine(excess, room)):
                path.tighten(excess)
            path.centre(SETTLED, least=1)
        self.iterations = path.iterations
        self.take(path)

    def keep(self, fractions: Fractions) -> None:
        """A fractional solution within the memory limit, the best so far."""
        self.fractions = fractions
        self.is_feasible = True

    def offer_prices(self, prices: FloatArray) -> bool:
        """Evaluate prices of rounds 1, 2, ... exactly; keep them if they prove more, and say so."""
        exact = round_prices(prices, self.instance, LARGEST_DENOMINATOR)
        bound = self.evaluated(exact)
        value = bound.scaled_value / exact.denominator
        self.certified = max(self.certified, bound.bound)
        if self.final is not None:
            # A horizon bars starts, so that more can be proved of this relaxation.
            value = self.evaluated(exact, self.final).scaled_value / exact.denominator
        better = value > self.value
        if better:
            self.value, self.bound = value, bound
        if self.horizon is not None and value > self.latest_cost(self.horizon):
            raise SolverError(f"no fractional solution ends by round {self.horizon}")
        return better

    def evaluated(self, prices: MemoryPrices, final: IntArray | None = None) -> PriceBound:
        """The exact bound of these prices."""
        return price_bound(
            self.instance,
            prices,
            classes=self.classes,
            final=final,
            should_stop=self.clock.must_stop,
        )

    def latest_cost(self, horizon: int) -> int:
        """Total latency of completing everything in the last round: none within it costs more."""
        return len(self.instance) * horizon - int(self.instance.arrival_times.sum())

    def report(self) -> None:
        """Tell the caller how far it is."""
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
        """Why it ended."""
        if self.gap <= self.tolerance:
            return "tolerance"
        return self.clock.stop_reason()

    def result(self) -> Relaxation:
        """What is known by now."""
        assert self.first_schedule is not None
        assert self.bound is not None
        reason = self.stop_reason()
        fractions, feasible = self.fractions, self.is_feasible
        if fractions is None and self.guess is not None and reason != "tolerance":
            fractions = self.guess.now.fractions()
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
            method="scale",
            iterations=self.iterations,
            stop_reason=reason,
            is_feasible=feasible,
        )

    def schedule_fractions(self, schedule: Schedule) -> Fractions:
        """A schedule as a fractional solution, requests that are alike sharing."""
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
