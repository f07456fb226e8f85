"""Solve the linear relaxation without building it, by dual ascent in memory prices per round.

1. The volumes of the requests give the mean-busy-time bound and first prices
   (`hindsight.prices.volume`). This takes moments.
2. L-BFGS-B improves the prices, one per round (`hindsight.prices.ascent`). It maximises the
   smoothed dual function of `hindsight.prices.tokens` at falling temperatures. The expected starts
   are those of the fractional solution, which nearly satisfies the memory limit.

All prices are evaluated in integers, so the bound is proved whenever the method stops. Step 2 is
left out if there are more than `hindsight.prices.volume.LONGEST_PRICES` rounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from hindsight.outcomes.result import Progress, Relaxation
from hindsight.prices import tokens, volume
from hindsight.prices.ascent import Evaluation, Stage, ascend
from hindsight.prices.starts import request_classes
from hindsight.runtime.clock import StoppedEarlyError, never
from hindsight.runtime.search import Search
from hindsight.schedules.lists import list_orders, one_after_another, prefix_schedule
from instances import Instance
from instances.arrays import FloatArray

MOMENTARY = 2000
"""Most requests for which a list schedule is completed even if the time is up."""

FIRST_HEAT = 0.13
"""First temperature of the smoothed dual. Unit: mean output length times mean weight."""

FLAT = 0.2
"""Initial price if all rounds have the same price. Unit: the mean of weight / (s + o / 2)."""

COOLING = 0.35
"""Factor on the temperature from one stage to the next."""

STEPS = 200
"""Most ascent steps of a stage; twice as many after each stage without enough gain (`GAIN`)."""

GAIN = 0.05
"""Gain of a stage up to which it counts as idle. Unit: tolerance times value of the bound."""

PATIENCE = 4
"""Consecutive idle stages after which the ascent ends."""

CERTIFIED_EVERY = 10
"""Ascent steps between two exact evaluations of the prices."""

SETTLED = 1e-6
"""Gain of a step below which a stage ends. Unit: tolerance times value of the bound."""

LARGEST_DENOMINATOR = 2**34
"""Largest denominator of the rounded prices. Prices are about 1 / M, so with it rounding costs less
than the tolerance."""


class TokenRelaxation:
    """Dual ascent in memory prices that can be stopped and continued.

    Parameters
    ----------
    instance : Instance
        An instance of one machine whose memory is counted in tokens.
    tolerance : float
        Estimated relative accuracy at which the ascent ends.
    search : Search
        Time limit and interruption, and the callback for every improvement.
    """

    def __init__(self, instance: Instance, tolerance: float, search: Search) -> None:
        self.instance, self.clock, self._search = instance, search.clock, search
        self._tolerance = tolerance
        self._classes = request_classes(instance)
        self._certified, self._value = 0, -math.inf
        self._bound: tokens.PriceBound | None = None
        self._ended: Literal["tolerance", "stalled"] | None = None
        # Ascent steps in this stage and in all, and the last fractional solution.
        self._steps = self._iterations = 0
        self._solution: tokens.FractionalStarts | None = None
        self._mean_starts: FloatArray | None = None
        self._parts = self._ascend()

    def go_on(self) -> None:
        """Continue the relaxation until the clock stops it or the ascent ends."""
        next(self._parts, None)

    def _first_prices(self) -> FloatArray:
        """Compute the volume bound; return the best of its prices and of flat prices."""
        instance, filling = self.instance, volume.fill_by_volume(self.instance)
        busy = volume.mean_busy_time_bound(instance, filling)
        self._certified = max(busy, instance.total_output_length)
        prices = volume.filling_prices(filling)
        self._offer(prices)
        # Volumes ignore that a request takes o rounds, so with arrivals their prices are too
        # high. The bound is concave in a common factor on all prices.
        while not self.clock.must_stop() and self._offer(prices / 2):
            prices /= 2
        volumes = instance.prompt_lengths + instance.output_lengths / 2
        flat = np.full(len(prices), FLAT * float((instance.weights / volumes).mean()))
        if not self.clock.must_stop() and self._offer(flat):
            prices = flat
        if self._bound is None:
            self._bound = tokens.bound_without_prices(instance)
            self._value = float(self._bound.scaled_value)
        return prices

    def _ascend(self) -> Iterator[None]:
        """Run stages at falling temperatures; yield whenever the clock stops the ascent."""
        instance, longest = self.instance, int(self.instance.output_lengths.max())
        prices = self._first_prices()
        # Fractional solutions leave little memory unused, so hardly any more rounds are needed.
        latest = int(instance.arrival_times.max())
        self._rounds = max(len(prices) + len(prices) // 20, latest) + longest
        self._report("start")
        while self.clock.must_stop():
            yield
        if self._length(self._rounds) > volume.LONGEST_PRICES:
            self._ended = "stalled"
            return
        heat = FIRST_HEAT * float(instance.output_lengths.mean() * instance.weights.mean())
        before, least, idle = self._value, math.inf, 0
        self._new_dual(prices[: self._rounds])
        while idle < PATIENCE:
            self._steps = 0
            while True:
                self._climb((STEPS << idle) - self._steps, heat)
                self._lengthen(heat)
                if not self.clock.must_stop():
                    break
                yield
            assert self._solution is not None
            is_idle = self._value - before <= GAIN * self._tolerance * abs(self._value)
            idle, before = idle + 1 if is_idle else 0, self._value
            # The duality gap: 0 for optimal prices and an optimal solution.
            distance = abs(self._solution.cost - self._value)
            if distance <= least:
                least, self._mean_starts = distance, self._solution.mean_starts
            if is_idle and distance <= self._tolerance * self._value:
                self._ended = "tolerance"
                return
            heat *= COOLING
        self._ended = "stalled"

    def _length(self, rounds: int) -> int:
        """Return how many rounds hold all starts and completions, if ``rounds`` have prices."""
        last = max(rounds, int(self._classes.arrival_times.max()))
        return last + int(self._classes.output_lengths.max()) + 2

    def _new_dual(self, known: FloatArray) -> None:
        """Restart the ascent from the prices of the first rounds and 0 for later rounds."""
        prices = np.zeros(self._rounds)
        prices[: len(known)] = known
        limit, stop = self.instance.memory_limit, self.clock.must_stop
        self._dual = tokens.TokenDual(self._classes, limit, self._rounds, must_stop=stop)
        self._x = self._dual.variables(prices)

    def _climb(self, most: int, heat: float) -> None:
        """Take ``most`` steps at a temperature, or fewer if they gain almost nothing."""
        if most <= 0:
            return
        latest = -math.inf

        def stepped(x: FloatArray, found: Evaluation) -> None:
            nonlocal latest
            self._x, self._solution, latest = x, found.solution, found.value
            self._steps += 1
            self._iterations += 1
            # Report on the way, because a stage of a large instance takes minutes.
            if self._steps % CERTIFIED_EVERY == 0:
                self._offer_variables(latest)

        stage = Stage(most, (heat, heat), tolerance=SETTLED * self._tolerance)
        dual, stop = self._dual.evaluate, self.clock.must_stop
        ascend(dual, self._x, (stage,), stepped=stepped, must_stop=stop)
        self._offer_variables(latest)

    def _lengthen(self, heat: float) -> None:
        """Add rounds if the fractional solution exceeds the memory limit after the last price."""
        while not self.clock.must_stop() and self._solution:
            rounds = self._rounds + max(1, self._rounds // 10)
            most = self._solution.usage[self._rounds + 1 :].max(initial=0.0)
            if most <= self.instance.memory_limit or self._length(rounds) > volume.LONGEST_PRICES:
                return
            known, self._rounds = self._dual.prices(self._x), rounds
            self._new_dual(known)
            self._climb(STEPS, heat)

    def _offer_variables(self, value: float) -> None:
        """Evaluate the present prices exactly if their value in floats is the best so far."""
        if value > self._value and self._offer(self._dual.prices(self._x)):
            self._report("prices")

    def _offer(self, prices: FloatArray) -> bool:
        """Evaluate prices of rounds 1, 2, ... exactly; return True if they are the best so far.

        The best prices are kept. If the clock stops the evaluation, return False.
        """
        exact = tokens.round_prices(prices, self.instance, LARGEST_DENOMINATOR)
        options: Any = {"classes": self._classes, "should_stop": self.clock.must_stop}
        try:
            bound = tokens.price_bound(self.instance, exact, **options)
        except StoppedEarlyError:
            return False
        value = bound.scaled_value / exact.denominator
        self._certified = max(self._certified, bound.bound)
        is_better = value > self._value
        if is_better:
            self._value, self._bound = value, bound
        return is_better

    def _report(self, phase: str) -> None:
        least = math.floor(10 * self._value) / 10
        text = f"at least {self._certified} rounds, value at least {least}"
        ends = self.clock.seconds(), phase, self._certified, math.inf, 1.0
        self._search.report(Progress(*ends, self._iterations, text))

    def _expected_starts(self) -> FloatArray:
        """Return the mean start of each request, from a list schedule if there was no ascent."""
        means, classes = self._mean_starts, self._classes
        if means is None and self._solution is not None:
            means = self._solution.mean_starts
        if means is not None:
            # Rounding may put a mean start slightly before the arrival.
            return np.maximum(means, classes.arrival_times)[classes.class_of]
        stop = self.clock.must_stop if len(self.instance) > MOMENTARY else never
        schedule = prefix_schedule(self.instance, list_orders(self.instance)["volume"], stop)
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
            stop_reason=self._ended or self.clock.stop_reason(),
        )
