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
from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np

from hindsight.outcomes.result import Progress, Relaxation
from hindsight.prices import tokens, volume
from hindsight.prices.ascent import Evaluation, Stage, ascend
from hindsight.prices.starts import request_classes
from hindsight.runtime.clock import Clock, StoppedEarlyError
from hindsight.schedules.lists import best_list_schedule
from instances import Instance
from instances.arrays import FloatArray

FIRST_HEAT = 0.13
"""First temperature of the smoothed dual function. Unit: mean output length x mean weight."""

COOLING = 0.35
"""Factor on the temperature of the smoothed dual function from each stage to the next."""

STEPS = 200
"""Limit on steps of a stage, a run of the ascent. Idle stages (`GAIN`) double it, others reset."""

GAIN = 0.05
"""A stage of the ascent is idle if it raises the bound by at most GAIN * tolerance * bound."""

PATIENCE = 4
"""Number of consecutive idle stages (see `GAIN`) after which the price ascent ends."""

CERTIFIED_EVERY = 10
"""Number of ascent steps between two computations of the bound in exact arithmetic."""

SETTLED = 1e-6
"""A stage ends once a step raises the bound by less than SETTLED * tolerance * bound."""

LARGEST_DENOMINATOR = 2**34
"""Largest denominator of rounded prices. Prices are near 1 / (memory limit), so it costs little."""


class TokenRelaxation:
    """Linear relaxation of one instance, solved by dual ascent in memory prices per round.

    Memory prices, a price per token in each round, are the multipliers of the memory limits. They
    prove lower bounds on total latency. The ascent can be stopped by its clock and continued later.

    Parameters
    ----------
    instance : Instance
        An instance of one machine whose memory is counted in tokens.
    tolerance : float
        Estimated relative accuracy of the bound at which the ascent ends.
    clock : Clock
        The clock that stops the ascent.
    report : Callable[[Progress], object]
        Callback that is called with each better bound.
    """

    def __init__(
        self,
        instance: Instance,
        tolerance: float,
        clock: Clock,
        report: Callable[[Progress], object],
    ) -> None:
        self.instance, self.clock, self._report_to = instance, clock, report
        self._tolerance = tolerance
        self._classes = request_classes(instance)
        self._certified, self._value = 0, -math.inf
        self._bound: tokens.PriceBound | None = None
        self._ended: Literal["tolerance", "stalled"] | None = None
        # ``_steps`` is the number of ascent steps so far in the present stage.
        self._steps = 0
        self._solution: tokens.FractionalStarts | None = None
        self._mean_starts: FloatArray | None = None
        self._parts = self._ascend()

    def run(self) -> Relaxation:
        """Continue the dual ascent until it ends or the clock stops it.

        Return the best bound, the prices, and each request's mean start in the fractional solution.
        """
        next(self._parts, None)
        assert self._bound is not None
        return Relaxation(
            instance=self.instance,
            objective=self._value,
            certified_bound=self._certified,
            expected_start_times=self._expected_starts(),
            prices=self._bound.prices,
            runtime=self.clock.seconds(),
            method="lagrangian",
            stop_reason=self._ended or self.clock.stop_reason(),
        )

    def _first_prices(self) -> FloatArray:
        """Compute the mean-busy-time bound and the bound of its dual prices. Return these prices.

        They are a price per token of memory in each round.
        """
        instance, filling = self.instance, volume.fill_by_volume(self.instance)
        busy = volume.mean_busy_time_bound(instance, filling)
        self._certified = max(busy, instance.total_output_length)
        prices = volume.filling_prices(filling)
        self._offer(prices)
        if self._bound is None:
            self._bound = tokens.bound_without_prices(instance)
            self._value = float(self._bound.scaled_value)
        return prices

    def _ascend(self) -> Iterator[None]:
        """Run the stages of the dual ascent at falling temperatures.

        The generator yields whenever the clock stops the ascent, and continues it afterwards.
        """
        instance, longest = self.instance, int(self.instance.output_lengths.max())
        prices = self._first_prices()
        # Choose the number of rounds with prices. The volume relaxation, in which each round serves
        # any M units of the memory that requests need, fills rounds completely and ends after
        # ``len(prices)`` rounds. Fractional solutions leave little memory unused, so 5% more rounds
        # plus the largest output length mostly suffice. All later rounds have price 0, so the bound
        # holds in any case.
        latest = int(instance.arrival_times.max())
        self._rounds = max(len(prices) + len(prices) // 20, latest) + longest
        self._report("start")
        while self.clock.must_stop():
            yield
        if self._rounds + longest + 2 > volume.LONGEST_PRICES:
            self._ended = "stalled"
            return
        heat = FIRST_HEAT * float(instance.output_lengths.mean() * instance.weights.mean())
        before, least, idle = self._value, math.inf, 0
        # The volume relaxation, in which each round serves any M units of memory, gives first
        # prices of its rounds. Later rounds begin with price 0.
        prices = np.append(prices, np.zeros(self._rounds))[: self._rounds]
        limit, stop = instance.memory_limit, self.clock.must_stop
        self._dual = tokens.TokenDual(self._classes, limit, self._rounds, must_stop=stop)
        self._x = self._dual.variables(prices)
        while idle < PATIENCE:
            self._steps = 0
            while True:
                self._climb((STEPS << idle) - self._steps, heat)
                if not self.clock.must_stop():
                    break
                yield
            assert self._solution is not None
            is_idle = self._value - before <= GAIN * self._tolerance * abs(self._value)
            idle, before = idle + 1 if is_idle else 0, self._value
            # ``distance`` is the difference between the cost of the fractional solution and the
            # lower bound that the prices prove.
            distance = abs(self._solution.cost - self._value)
            if distance <= least:
                least, self._mean_starts = distance, self._solution.mean_starts
            if is_idle and distance <= self._tolerance * self._value:
                self._ended = "tolerance"
                return
            heat *= COOLING
        self._ended = "stalled"

    def _climb(self, most: int, heat: float) -> None:
        """Take at most ``most`` steps of the dual ascent at temperature ``heat``.

        The ascent is in memory prices, on the dual function smoothed at this temperature. It ends
        earlier if a step gains almost nothing (see `SETTLED`).
        """
        if most <= 0:
            return
        latest = -math.inf

        def stepped(x: FloatArray, found: Evaluation) -> None:
            nonlocal latest
            self._x, self._solution, latest = x, found.solution, found.value
            self._steps += 1
            # Report bounds during a stage, because a stage of a large instance takes minutes.
            if self._steps % CERTIFIED_EVERY == 0:
                self._offer_value(latest)

        stage = Stage(most, (heat, heat), tolerance=SETTLED * self._tolerance)
        dual, stop = self._dual.evaluate, self.clock.must_stop
        ascend(dual, self._x, (stage,), stepped=stepped, must_stop=stop)
        self._offer_value(latest)

    def _offer_value(self, value: float) -> None:
        """Offer and report the present prices if the bound that they prove is the best so far.

        ``value`` is this bound, computed in floats.
        """
        if value > self._value and self._offer(self._dual.prices(self._x)):
            self._report("prices")

    def _offer(self, prices: FloatArray) -> bool:
        """Compute, in exact arithmetic, the lower bound that prices of rounds 1, 2, ... prove.

        If ``prices`` prove a larger bound than all earlier prices, keep them as the best prices and
        return True. Return False otherwise, or if the clock stops the computation.
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
        ends = self.clock.seconds(), phase, self._certified, math.inf, 1.0
        self._report_to(Progress(*ends, f"at least {self._certified} rounds"))

    def _expected_starts(self) -> FloatArray:
        """Return the mean start of each request in the best fractional solution, shape (n,).

        In the fractional solution, each request starts at each round with some probability. If
        there was no ascent, the starts are those of a list schedule.
        """
        means, classes = self._mean_starts, self._classes
        if means is None and self._solution is not None:
            means = self._solution.mean_starts
        if means is not None:
            # Rounding errors may put a mean start slightly before the arrival of the request.
            return np.maximum(means, classes.arrival_times)[classes.class_of]
        starts = best_list_schedule(self.instance, self.clock.must_stop).start_times
        # Identical requests share one mean start, as in a fractional solution.
        shared: FloatArray = np.bincount(classes.class_of, starts) / classes.counts
        return shared[classes.class_of]
