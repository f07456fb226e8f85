"""Solve the linear relaxation without building it, by dual ascent in memory prices per round.

1. Request volumes give the mean-busy-time bound and first prices: a certified bound in moments.
2. `hindsight.prices.ascent` improves the prices, one per round, by L-BFGS-B. It maximises the
smoothed dual of `hindsight.prices.tokens` at falling temperatures. The expected starts are the mean
starts of the fractional solution, which nearly satisfies the memory limit.

All prices are evaluated in integers, so the bound is proved whenever the method stops. Beyond
`LONGEST_PRICES` rounds only step 1 runs.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np

from hindsight.outcomes.result import Progress, Relaxation, RelaxationStop
from hindsight.prices.ascent import Evaluation, Stage, ascend
from hindsight.prices.starts import request_classes
from hindsight.prices.tokens import (
    FractionalStarts,
    PriceBound,
    TokenDual,
    bound_without_prices,
    price_bound,
    round_prices,
)
from hindsight.prices.volume import (
    LONGEST_PRICES,
    fill_by_volume,
    filling_prices,
    mean_busy_time_bound,
)
from hindsight.runtime.clock import Clock, StoppedEarlyError
from hindsight.schedules.lists import PRIORITIES, one_after_another, prefix_schedule_within
from instances import Instance
from instances.arrays import FloatArray

MOMENTARY = 2000
"""Most requests for which list scheduling is not interrupted: it takes only a moment."""

FIRST_HEAT = 0.13
"""First smoothing temperature, in mean output lengths."""

FLAT = 0.2
"""Initial price of every round if requests keep arriving, over the mean of 1 / (s + o / 2)."""

COOLING = 0.35
"""Factor on the temperature from one stage to the next."""

STEPS = 200
"""Ascent steps of a stage, doubled after each idle stage."""

GAIN = 0.05
"""Largest gain of an idle stage, over the product of tolerance and value."""

PATIENCE = 4
"""Consecutive idle stages after which the ascent ends."""

CERTIFIED_EVERY = 10
"""Ascent steps between two exact evaluations."""

SETTLED = 1e-6
"""Gain of a step below which a stage ends, over the product of tolerance and value."""

LARGEST_DENOMINATOR = 2**34
"""Largest denominator of prices, which are about 1 / M: rounding costs less than the tolerance."""


class TokenRelaxation:
    """Dual ascent that can be stopped and continued.

    Parameters
    ----------
    instance : Instance
        An instance of one machine whose memory is counted in tokens.
    tolerance : float
        Estimated relative accuracy at which the ascent ends.
    clock : Clock
        Time limit and interruption.
    progress : Callable[[Progress], object] or None, default None
        Called at every improvement.
    """

    def __init__(
        self,
        instance: Instance,
        *,
        tolerance: float,
        clock: Clock,
        progress: Callable[[Progress], object] | None = None,
    ) -> None:
        self.instance, self.clock = instance, clock
        self._tolerance, self._progress = tolerance, progress
        self._classes = request_classes(instance)
        self._phase = "start"
        self._certified, self._value = 0, -math.inf
        self._bound: PriceBound | None = None
        self._ended: Literal["tolerance", "stalled"] | None = None
        # Dual function and variables of the ascent, its steps in this stage and in all.
        self._dual: TokenDual | None = None
        self._steps = self._iterations = self._idle = 0
        self._solution: FractionalStarts | None = None
        self._distance = math.inf
        self._mean_starts: FloatArray | None = None

    def go_on(self) -> None:
        """Continue the relaxation until the clock stops it or the ascent ends."""
        try:
            if self._bound is None:
                self._begin()
            self._ascend()
        except StoppedEarlyError:
            pass

    def _begin(self) -> None:
        """Compute the volume bound and its prices."""
        instance, clock = self.instance, self.clock
        filling = fill_by_volume(instance)
        self._certified = max(mean_busy_time_bound(instance, filling), instance.total_output_length)
        prices = filling_prices(filling)
        try:
            self._offer(prices)
            # Volumes ignore that a request takes o rounds, so with arrivals their prices are too
            # high. The bound is concave in a common factor on all prices.
            while not clock.must_stop() and self._offer(prices / 2):
                prices /= 2
            volumes = instance.prompt_lengths + instance.output_lengths / 2
            flat = np.full(len(prices), FLAT * float((instance.weights / volumes).mean()))
            if not clock.must_stop() and self._offer(flat):
                prices = flat
        except StoppedEarlyError:
            if self._bound is None:
                self._bound = bound_without_prices(instance)
                self._value = float(self._bound.scaled_value)
        self._prices = prices
        # Fractional solutions leave little memory unused, so hardly any more rounds are needed.
        latest = int(instance.arrival_times.max())
        longest = int(instance.output_lengths.max())
        self._rounds = max(len(prices) + len(prices) // 20, latest) + longest
        self._report()

    def _ascend(self) -> None:
        """Run stages at falling temperatures until the stop criterion holds."""
        if self._ended or self.clock.must_stop():
            return
        if self._length(self._rounds) > LONGEST_PRICES:
            self._ended = "stalled"
            return
        self._phase = "prices"
        if self._dual is None:
            instance = self.instance
            self._heat = FIRST_HEAT * float(instance.output_lengths.mean())
            self._heat *= float(instance.weights.mean())
            self._before = self._value
            self._new_dual(self._prices[: self._rounds])
        while self._idle < PATIENCE:
            self._climb((STEPS << self._idle) - self._steps)
            self._lengthen()
            if self.clock.must_stop():
                return
            assert self._solution is not None
            is_idle = self._value - self._before <= GAIN * self._tolerance * abs(self._value)
            self._idle = self._idle + 1 if is_idle else 0
            self._before, self._steps = self._value, 0
            # The duality gap: 0 for optimal prices and an optimal solution.
            distance = abs(self._solution.cost - self._value)
            if distance <= self._distance:
                self._distance, self._mean_starts = distance, self._solution.mean_starts
            if is_idle and distance <= self._tolerance * self._value:
                self._ended = "tolerance"
                return
            self._heat *= COOLING
        self._ended = "stalled"

    def _length(self, rounds: int) -> int:
        """Return a length such that rounds 0 .. length - 1 contain all starts and completions."""
        last = max(rounds, int(self._classes.arrival_times.max()))
        return last + int(self._classes.output_lengths.max()) + 2

    def _new_dual(self, known: FloatArray) -> None:
        """Restart the ascent from the prices of the first rounds and 0 for later rounds."""
        prices = np.zeros(self._rounds)
        prices[: len(known)] = known
        limit, stop = self.instance.memory_limit, self.clock.must_stop
        self._dual = TokenDual(self._classes, limit, self._rounds, must_stop=stop)
        self._x = self._dual.variables(prices)

    def _climb(self, most: int) -> None:
        """Take ``most`` steps at the present temperature, or fewer if they gain almost nothing."""
        if most <= 0:
            return
        dual, tolerance = self._dual, SETTLED * self._tolerance
        assert dual is not None
        latest = -math.inf

        def stepped(x: FloatArray, found: Evaluation) -> None:
            nonlocal latest
            self._x, self._solution, latest = x, found.solution, found.value
            self._steps += 1
            self._iterations += 1
            # On large instances a stage takes minutes.
            if self._steps % CERTIFIED_EVERY == 0:
                self._offer_variables(latest)

        stage = Stage(most, (self._heat, self._heat), tolerance=tolerance)
        ascend(dual.evaluate, self._x, (stage,), stepped=stepped, must_stop=self.clock.must_stop)
        self._offer_variables(latest)

    def _lengthen(self) -> None:
        """Add rounds if the fractional solution exceeds the memory limit after the last price."""
        limit = self.instance.memory_limit
        while not self.clock.must_stop() and self._dual and self._solution:
            rounds = self._rounds + max(1, self._rounds // 10)
            fits = self._solution.usage[self._rounds + 1 :].max(initial=0.0) <= limit
            if fits or self._length(rounds) > LONGEST_PRICES:
                return
            known = self._dual.prices(self._x)
            self._rounds = rounds
            self._new_dual(known)
            self._climb(STEPS)

    def _offer_variables(self, value: float) -> None:
        """Evaluate the present prices exactly if ``value`` exceeds the best exact value."""
        assert self._dual is not None
        if value > self._value and self._offer(self._dual.prices(self._x)):
            self._report()

    def _offer(self, prices: FloatArray) -> bool:
        """Evaluate prices of rounds 1, 2, ... exactly; return whether they are the best so far.

        The best prices are kept.
        """
        exact = round_prices(prices, self.instance, LARGEST_DENOMINATOR)
        stop = self.clock.must_stop
        bound = price_bound(self.instance, exact, classes=self._classes, should_stop=stop)
        value = bound.scaled_value / exact.denominator
        self._certified = max(self._certified, bound.bound)
        is_better = value > self._value
        if is_better:
            self._value, self._bound = value, bound
        return is_better

    def _report(self) -> None:
        if self._progress is not None:
            least = math.floor(10 * self._value) / 10
            text = f"at least {self._certified} rounds, value at least {least}"
            ends = self.clock.seconds(), self._phase, self._certified, math.inf, 1.0
            if self._progress(Progress(*ends, self._iterations, text)) is True:
                self.clock.interrupt()

    def stop_reason(self) -> RelaxationStop:
        """Return the reason why the ascent ended."""
        return self._ended or self.clock.stop_reason()

    def _expected_starts(self) -> FloatArray:
        """Return the mean start of each request, from a list schedule if there was no ascent."""
        means, classes = self._mean_starts, self._classes
        if means is None and self._solution is not None:
            means = self._solution.mean_starts
        if means is not None:
            # Rounding may put a mean start slightly before the arrival.
            return np.maximum(means, classes.arrival_times)[classes.class_of]
        stop = self.clock.must_stop if len(self.instance) > MOMENTARY else None
        schedule = prefix_schedule_within(self.instance, PRIORITIES["volume"], stop)
        starts = (schedule or one_after_another(self.instance)).start_times
        # Identical requests have the same mean start.
        shared: FloatArray = np.bincount(classes.class_of, starts) / classes.counts
        return shared[classes.class_of]

    def result(self) -> Relaxation:
        """Return the relaxation as solved so far."""
        assert self._bound is not None
        return Relaxation(
            instance=self.instance,
            objective=self._value,
            certified_bound=self._certified,
            expected_start_times=self._expected_starts(),
            prices=self._bound.prices,
            horizon=self._rounds,
            runtime=self.clock.seconds(),
            method="lagrangian",
            iterations=self._iterations,
            stop_reason=self.stop_reason(),
        )
