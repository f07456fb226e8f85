"""The best memory prices by a path of smooth problems, followed with Newton steps.

The dual of the relaxation asks for prices lambda = (linear between knots y >= 0) that maximise

    L(lambda) = sum_i min_t P_i(t) - M sum_r lambda_r.

Here min becomes a soft minimum of temperature tau and y >= 0 a barrier mu log y. The gradient is
usage - capacity + mu / y, per knot, with usage the memory of the Gibbs weights x of
`hindsight.relaxation.soft_starts`: where it vanishes, x uses less than the capacity, by mu / y. So
the path of maximisers for tau, mu -> 0 is one of prices *and* of fractional solutions, whose costs
differ from the bound by sum_k y_k slack_k = mu (knots) and by the excess of Gibbs means over
minima, about tau a request. The Hessian is a sum of covariances over single requests; only knots
enter it, never starts, so a Newton step costs a Cholesky factorisation of that size and a pass over
the requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from hindsight.bounds.cheapest_starts import BLOCK, RequestClasses, block_minima, start_costs
from hindsight.outcomes.results import Fractions
from hindsight.runtime.clock import StoppedEarlyError, never, timed_slices
from instances.arrays import FloatArray, IntArray

from .price_knots import PriceKnots
from .soft_starts import price_curvature, soft_starts

BARRIER_SHARE = 0.25
"""mu (knots) over n tau: the barrier costs less than the smoothing."""

TO_THE_BOUNDARY = 0.95
"""Part of the way to a price of 0 that one step may go."""

ALL_STARTS_UP_TO = 16_000
"""Rounds to which fractional solutions use every start; beyond twice as many every second, ..:
with many requests a few thousand starts of each suffice, and bounds still look at all."""

SAMPLES = 24
"""Enough for the coarse tolerances of large instances."""


@dataclass(frozen=True, eq=False)
class GibbsStarts:
    """The prices at some knots, and the fractional solution that belongs to them.

    Attributes
    ----------
    classes : RequestClasses
        Of the requests.
    y : float64 array
        Prices at the knots.
    prices : float64 array
        Per round, entry r for round r, shape (length,).
    sums, weighted_sums : float64 array
        Running sums of prices and of r times prices.
    temperature, stride : float, int
        Of the weights, which are on every ``stride``-th start.
    first, last : int64 array
        Of each class, the starts first, first + stride, .. before last have weights.
    cheapest : float64 array
        Least priced cost of each class over those.
    mean_starts : float64 array
        Of each class.
    value : float
        Of the dual function at ``prices``, in floating point.
    soft_value : float
        The same, but for soft minima and what the capacity costs.
    cost : float
        Total latency of the fractional solution, feasible or not.
    usage : float64 array
        Its memory, entry r for round r, shape (length,).
    gathered : float64 array
        The same, per knot.
    """

    classes: RequestClasses
    y: FloatArray
    prices: FloatArray
    sums: FloatArray
    weighted_sums: FloatArray
    temperature: float
    stride: int
    first: IntArray
    last: IntArray
    cheapest: FloatArray
    mean_starts: FloatArray
    value: float
    soft_value: float
    cost: float
    usage: FloatArray
    gathered: FloatArray

    def fractions(self) -> Fractions:
        """Weights of every request."""
        class_of = self.classes.class_of
        shifts = np.zeros_like(class_of)
        return Fractions(self.weights, class_of, self.mean_starts, self.last - 1, shifts)

    def weights(self, k: int) -> tuple[IntArray, FloatArray]:
        """Starts and weights of a request of class ``k``."""
        c = self.classes
        a, s, o = int(c.arrival_times[k]), int(c.prompt_lengths[k]), int(c.output_lengths[k])
        at = np.arange(self.first[k], self.last[k], self.stride)
        costs = start_costs(
            *(self.sums, self.weighted_sums, 1.0, a, s, o),
            *(self.first[k], self.last[k], self.stride),
        )
        weights = np.exp((self.cheapest[k] - costs) / self.temperature)
        kept = weights > 0
        return at[kept], weights[kept] / weights.sum()


class PricePath:
    """Prices, temperature, and the fractional solution that belongs to them.

    Parameters
    ----------
    classes : RequestClasses
        Of the requests.
    memory_limit : int
        M.
    knots : PriceKnots
        Of the prices; rounds up to their ``length`` must cover every completion.
    prices : float64 array
        To begin with, per round 1 .. T, shape (T,).
    temperature : float
        To begin with, in rounds.
    final : int64 array or None, default None
        Last start of each class of requests that is considered; None takes max(T, a), after which a
        start only costs more.
    samples : int, default SAMPLES
        Starts that stand for a request's window in the Hessian, which only directs the steps.
    stepped : Callable[[PricePath], None] or None, default None
        Told of the path after every step.
    must_stop : Callable[[], bool], default never
        Polled, a few times a second. `centre` ends then; everything else raises
        `StoppedEarlyError`, and `now` stays what it was.

    Attributes
    ----------
    now
        Prices and fractional solution. Its value is a lower bound where ``stride`` is 1, and next
        to one elsewhere.
    stride : int
        The fractional solution has weights on every start, every second, every fourth, ..
    capacity
        Memory that the fractional solution is to keep to, per knot.
    iterations : int
        Newton steps so far.
    """

    def __init__(
        self,
        classes: RequestClasses,
        memory_limit: int,
        knots: PriceKnots,
        prices: FloatArray,
        temperature: float,
        *,
        final: IntArray | None = None,
        samples: int = SAMPLES,
        stepped: Callable[[PricePath], None] | None = None,
        must_stop: Callable[[], bool] = never,
    ) -> None:
        self.stepped = stepped
        self.must_stop = must_stop
        self.classes = classes
        self.final = np.maximum(classes.arrival_times, knots.T) if final is None else final
        self.memory_limit = memory_limit
        self.temperature = temperature
        self.samples = samples
        self.stride = 1
        while self.stride < BLOCK and knots.length > 2 * ALL_STARTS_UP_TO * self.stride:
            self.stride *= 2
        self.iterations = 0
        self._hints = classes.arrival_times.copy()
        self._requests = float(classes.counts.sum())
        self.set_knots(knots, np.append(0.0, prices)[np.minimum(knots.knots, len(prices))])

    def set_knots(self, knots: PriceKnots, y: FloatArray) -> None:
        """Go on with other knots, from prices at them."""
        barrier = self._barrier(len(knots))
        capacity = self.memory_limit * knots.sizes
        # A price next to 0 would bar the way: every knot begins where the barrier would push it.
        floor = barrier / (0.05 * capacity)
        y = np.maximum(y, np.maximum(floor, 1e-3 * float(y.mean())))
        self.now = self._evaluated(knots, y, self.temperature)
        self.knots, self.capacity = knots, capacity
        self.tightening = np.zeros(len(knots))
        self._slack = barrier / y

    @property
    def barrier(self) -> float:
        """mu."""
        return self._barrier(len(self.knots))

    def _barrier(self, knots: int) -> float:
        return BARRIER_SHARE * self._requests * self.temperature / knots

    def cool(self, factor: float) -> None:
        """Lower temperature and barrier; the prices stay."""
        self.now = self._evaluated(self.knots, self.now.y, self.temperature * factor)
        self.temperature *= factor
        self._slack *= factor

    def round_prices(self) -> FloatArray:
        """Prices of rounds 1 .. T, shape (T,)."""
        return self.now.prices[1 : self.knots.T + 1]

    def tighten(self, excess: FloatArray) -> None:
        """Lower the capacity of each knot by the largest relative excess near it."""
        near = np.zeros(len(self.knots) + 2)
        np.maximum.at(near, self.knots.left, excess)
        np.maximum.at(near, self.knots.left + 1, excess)
        self.tightening = self.tightening + 1.02 * near[: len(self.knots)]
        self._apply_tightening()

    def refine(self, excess: FloatArray, more: int) -> bool:
        """Up to ``more`` knots where ``excess`` is; whether there was room between knots.

        What was taken off the capacity stays taken off.
        """
        knots = self.knots.refined(excess, more)
        if len(knots) == len(self.knots):
            return False
        taken = np.interp(knots.knots, self.knots.knots, self.tightening)
        self.set_knots(knots, self.now.prices[knots.knots])
        self.tightening = taken
        self._apply_tightening()
        return True

    def _apply_tightening(self) -> None:
        self.capacity = self.memory_limit * self.knots.sizes * np.maximum(0.5, 1 - self.tightening)

    def centre(self, accuracy: float, *, least: int = 0, most: int = 60) -> bool:
        """Newton steps until what one more promises is below ``accuracy`` n tau.

        Parameters
        ----------
        accuracy : float
            What a step more may still promise, in units of n tau.
        least, most : int
            Steps.

        Returns
        -------
        bool
            Whether it got there.
        """
        try:
            for done in range(most):
                if self.must_stop():
                    return False
                gradient = self.barrier / self.now.y - (self.capacity - self.now.gathered)
                direction = self._newton_direction(gradient)
                promised = float(gradient @ direction)
                if done >= least and promised < accuracy * self._requests * self.temperature:
                    return True
                if self.must_stop() or not self._step(direction, promised):
                    return False
        except StoppedEarlyError:
            pass
        return False

    def _newton_direction(self, gradient: FloatArray) -> FloatArray:
        now, classes, count = self.now, self.classes, len(self.knots)
        curvature = np.zeros((count + 2, count + 2))
        for part in timed_slices(len(now.first), self.must_stop):
            price_curvature(
                now.sums,
                now.weighted_sums,
                *(classes.arrival_times[part], classes.prompt_lengths[part]),
                *(classes.output_lengths[part], classes.counts[part]),
                self.temperature,
                now.first[part],
                now.last[part],
                self.knots.left,
                self.knots.share,
                self.samples,
                curvature,
            )
        matrix = curvature[:count, :count]
        diagonal = np.arange(count)
        matrix[diagonal, diagonal] += self._slack / now.y
        ridge = 1e-13 * float(matrix[diagonal, diagonal].max())
        while True:
            try:
                return np.asarray(cho_solve(cho_factor(matrix), gradient))
            except LinAlgError:
                matrix[diagonal, diagonal] += ridge
                ridge *= 100

    def _step(self, direction: FloatArray, promised: float) -> bool:
        y, barrier = self.now.y, self.barrier
        merit = self._merit(self.now)
        falling = direction < 0
        step = 1.0
        if falling.any():
            step = min(1.0, TO_THE_BOUNDARY * float((y[falling] / -direction[falling]).min()))
        change = (barrier - self._slack * (y + direction)) / y
        while step > 1e-7 and not self.must_stop():
            tried = self._evaluated(self.knots, y + step * direction, self.temperature)
            if self._merit(tried) >= merit + 1e-4 * step * promised:
                self.now = tried
                # Kept within reach of mu / y, of which it is a running estimate.
                target = barrier / tried.y
                self._slack = np.clip(self._slack + step * change, target / 10, target * 10)
                self.iterations += 1
                if self.stepped is not None:
                    self.stepped(self)
                return True
            step /= 2
        return False

    def _merit(self, at: GibbsStarts) -> float:
        return (
            at.soft_value - float(self.capacity @ at.y) + self.barrier * float(np.log(at.y).sum())
        )

    def _evaluated(self, knots: PriceKnots, y: FloatArray, temperature: float) -> GibbsStarts:
        classes = self.classes
        prices = knots.spread(y)
        sums = np.cumsum(prices)
        weighted_sums = np.cumsum(prices * np.arange(knots.length, dtype=np.float64))
        minima = block_minima(prices)
        entering, running = np.zeros((2, knots.length + 1))
        count = len(classes.counts)
        first, last = np.zeros((2, count), dtype=np.int64)
        cheapest, mass, mean_starts = np.zeros((3, count))
        for part in timed_slices(count, self.must_stop):
            soft_starts(
                sums,
                weighted_sums,
                minima,
                *(classes.arrival_times[part], classes.prompt_lengths[part]),
                *(classes.output_lengths[part], classes.counts[part]),
                self.final[part],
                temperature,
                self.stride,
                part.start,
                entering,
                running,
                first[part],
                last[part],
                self._hints[part],
                cheapest[part],
                mass[part],
                mean_starts[part],
            )
        own = classes.output_lengths - classes.arrival_times
        usage = np.cumsum(entering + np.cumsum(running))[: knots.length]
        return GibbsStarts(
            classes=classes,
            y=y,
            prices=prices,
            sums=sums,
            weighted_sums=weighted_sums,
            temperature=temperature,
            stride=self.stride,
            first=first,
            last=last,
            cheapest=cheapest,
            mean_starts=mean_starts,
            value=float(classes.counts @ cheapest) - self.memory_limit * float(sums[-1]),
            soft_value=float(classes.counts @ (cheapest - temperature * np.log(mass))),
            cost=float(classes.counts @ (mean_starts + own)),
            usage=usage,
            gathered=knots.gather(usage),
        )
