"""The relaxation without its model: prices of rounds, improved by ascent.

1. Volumes give the mean-busy-time bound and first prices: a certified bound within moments.
2. `hindsight.relaxation.price_ascent` improves the prices, one per round, by L-BFGS-B on a smoothed
dual whose temperature falls. The mean starts of its fractional solution, which nearly keeps the
memory limit, are the expected starts.

All prices are evaluated in integers (`hindsight.bounds.memory_prices`), so the result is proved
whenever the method stops. Beyond `LONGEST_PRICES` rounds only step 1 runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

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
from hindsight.outcomes.results import Relaxation, RelaxationProgress, RelaxationStop
from hindsight.runtime.clock import Clock, StoppedEarlyError
from hindsight.runtime.memory_use import resident_bytes
from instances import Instance
from instances.arrays import FloatArray

from .price_ascent import PriceAscent

MOMENTARY = 2000
"""Most requests for which the list schedule cannot be interrupted."""

FIRST_TEMPERATURE = 0.13
"""First temperature, in mean output lengths."""

FLAT = 0.2
"""Initial price of every round, over the mean of 1 / (s + o / 2), if requests keep arriving."""

COOLING = 0.35
"""Factor on the temperature from stage to stage."""

STEPS = 200
"""Steps of a stage; twice as many after each idle stage."""

GAIN = 0.05
"""Gain of a stage, relative to the tolerance and the value, below which it counts as idle."""

PATIENCE = 4
"""Consecutive idle stages after which the ascent ends."""

CERTIFIED_EVERY = 10
"""Steps between two exact evaluations."""

SETTLED = 1e-6
"""Gain of a step, relative to the tolerance and the value, after which a stage ends."""

LARGEST_DENOMINATOR = 2**34
"""Prices of a token are of the order of 1 / M, and rounding them should not cost the tolerance."""


class ScaleRelaxation:
    """State of the relaxation, and the phases that improve it; the tolerance is relative."""

    def __init__(
        self,
        instance: Instance,
        *,
        tolerance: float,
        clock: Clock,
        progress: Callable[[RelaxationProgress], None] | None = None,
    ) -> None:
        self.instance = instance
        self.tolerance = tolerance
        self.progress = progress
        self.clock = clock
        self.classes = request_classes(instance)
        self.phase = "start"
        self.iterations = 0
        self.certified = 0
        self.value = -math.inf
        self.bound: PriceBound | None = None
        self.ascent: PriceAscent | None = None
        self.ended: Literal["tolerance", "stalled"] | None = None
        self.idle = 0
        self.distance = math.inf
        self.mean_starts: FloatArray | None = None
        self.stage_began: tuple[float, int] | None = None

    def go_on(self) -> None:
        """Continue from where it stopped, as the clock allows, until nothing more is gained."""
        try:
            if self.bound is None:
                self.begin()
            self.ascend()
        except StoppedEarlyError:
            pass

    def begin(self) -> None:
        """Compute the volume bound and its prices."""
        instance = self.instance
        filling = fill_by_volume(instance)
        self.certified = max(mean_busy_time_bound(instance, filling), instance.total_output_length)
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
        # Fractional solutions waste few rounds, so that hardly any more are needed.
        latest = int(instance.arrival_times.max())
        longest = int(instance.output_lengths.max())
        self.rounds = max(len(prices) + len(prices) // 20, latest) + longest
        self.report()

    def ascend(self) -> None:
        """Cool down until nothing more is gained."""
        if self.ended or self.clock.must_stop():
            return
        if self.length(self.rounds) > LONGEST_PRICES:
            self.ended = "stalled"
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
        while self.idle < PATIENCE:
            if self.stage_began is None:
                self.stage_began = self.value, self.ascent.steps + (STEPS << self.idle)
            value, most = self.stage_began
            self.ascent.climb(most, SETTLED * self.tolerance)
            ascent = self.ascent = self.lengthened(self.ascent)
            self.iterations = ascent.iterations
            self.offer_ascent(ascent)
            if self.clock.must_stop():
                return
            is_idle = self.value - value <= GAIN * self.tolerance * abs(self.value)
            self.idle = self.idle + 1 if is_idle else 0
            self.stage_began = None
            # Zero for optimal prices and an optimal solution.
            distance = abs(ascent.now.cost - self.value)
            if distance <= self.distance:
                self.distance, self.mean_starts = distance, ascent.now.windows.mean_starts
            if is_idle and distance <= self.tolerance * self.value:
                self.ended = "tolerance"
                return
            ascent.cool(COOLING)
        self.ended = "stalled"

    def length(self, rounds: int) -> int:
        """Return a length such that rounds 0 .. length - 1 hold every start and its completion."""
        last = max(rounds, int(self.classes.arrival_times.max()))
        return last + int(self.classes.output_lengths.max()) + 2

    def new_ascent(self, prices: FloatArray, temperature: float) -> PriceAscent:
        """Create an ascent from these prices of as many rounds."""
        return PriceAscent(
            self.classes,
            self.instance.memory_limit,
            prices,
            temperature,
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
        limit = self.instance.memory_limit
        while not self.clock.must_stop():
            if ascent.now.usage[self.rounds + 1 :].max(initial=0.0) <= limit:
                break
            rounds = self.rounds + max(1, self.rounds // 10)
            if self.length(rounds) > LONGEST_PRICES:
                break
            prices = np.append(ascent.round_prices(), np.zeros(rounds - self.rounds))
            ascent = self.ascent = self.new_ascent(prices, ascent.temperature)
            self.rounds = rounds
            ascent.iterations = self.iterations
            ascent.climb(STEPS, SETTLED * self.tolerance)
            self.iterations = ascent.iterations
        return ascent

    def offer_prices(self, prices: FloatArray) -> bool:
        """Evaluate prices of rounds 1, 2, ... exactly; if they prove more, keep them; say so."""
        exact = round_prices(prices, self.instance, LARGEST_DENOMINATOR)
        bound = price_bound(
            self.instance, exact, classes=self.classes, should_stop=self.clock.must_stop
        )
        value = bound.scaled_value / exact.denominator
        self.certified = max(self.certified, bound.bound)
        is_better = value > self.value
        if is_better:
            self.value, self.bound = value, bound
        return is_better

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
                    resident_bytes(),
                )
            )

    def stop_reason(self) -> RelaxationStop:
        """Return the reason why it ended."""
        return self.ended or self.clock.stop_reason()

    def expected_starts(self) -> FloatArray:
        """Return the mean start of each request, of a list schedule if there are no prices."""
        means = self.mean_starts
        if means is None and self.ascent is not None:
            means = self.ascent.now.windows.mean_starts
        classes = self.classes
        if means is not None:
            # Rounding may put a mean a little before its arrival.
            return np.maximum(means, classes.arrival_times)[classes.class_of]
        stop = self.clock.must_stop if len(self.instance) > MOMENTARY else None
        schedule = prefix_schedule_within(self.instance, PRIORITIES["volume"], stop)
        starts = (schedule or one_after_another(self.instance)).start_times
        # Identical requests share a mean.
        shared: FloatArray = np.bincount(classes.class_of, starts) / classes.counts
        return shared[classes.class_of]

    def result(self) -> Relaxation:
        """Return the present result."""
        assert self.bound is not None
        reason = self.stop_reason()
        return Relaxation(
            instance=self.instance,
            objective=self.value,
            certified_bound=self.certified,
            expected_start_times=self.expected_starts(),
            memory_prices=self.bound.prices,
            horizon=self.rounds,
            runtime=self.clock.seconds(),
            method="lagrangian",
            iterations=self.iterations,
            stop_reason=reason,
        )
