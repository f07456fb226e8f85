"""The best memory prices by a path of smooth problems, followed with Newton steps.

The dual of the relaxation asks for prices lambda = (linear between knots y >= 0) that maximise

    L(lambda) = sum_i min_t P_i(t) - M sum_r lambda_r.

Here min becomes a soft minimum of temperature tau and y >= 0 a barrier mu log y. The gradient is
usage - capacity + mu / y, per knot, with usage the memory of the Gibbs weights x of
`hindsight.soft_starts`: where it vanishes, x uses less than the capacity, by mu / y. So the path
of maximisers for tau, mu -> 0 is one of prices *and* of fractional solutions, whose costs differ
from the bound by sum_k y_k slack_k = mu (knots) and by the excess of Gibbs means over minima, about
tau a request. The Hessian is a sum of covariances over single requests; only knots enter it, never
starts, so a Newton step costs a Cholesky factorisation of that size and a pass over the requests.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from instances import Instance
from instances.instance import IntArray

from .price_knots import PriceKnots
from .soft_starts import BLOCK, block_minima, price_curvature, request_classes, soft_starts

FloatArray = npt.NDArray[np.float64]

BARRIER_SHARE = 0.25
"""mu (knots) over n tau: the barrier costs less than the smoothing."""

TO_THE_BOUNDARY = 0.95
"""Part of the way to a price of 0 that one step may go."""

ALL_STARTS_UP_TO = 16_000
"""Rounds to which fractional solutions use every start; beyond twice as many every second, ..:
with many requests a few thousand starts of each suffice, and bounds still look at all."""

SAMPLES = 24
"""Enough for the coarse tolerances of large instances."""

SLICE_SECONDS = 0.05
"""The Hessian is added up in slices of about this long, with a look at the clock after each."""

FIRST_SLICE = 64
"""Classes of requests in the first of them."""


class PricePath:
    """Prices, temperature, and the fractional solution that belongs to them.

    Parameters
    ----------
    instance : the instance.
    knots : of the prices; rounds up to their ``length`` must cover every completion.
    prices : to begin with, per round 1 .. T, shape (T,).
    temperature : to begin with, in rounds.
    final : last start of each class of requests that is considered; None takes max(T, a), after
        which a start only costs more.
    samples : starts that stand for a request's window in the Hessian, which only directs the
        steps.
    stepped : told of the path after every step.

    Attributes
    ----------
    y : prices at the knots.
    prices : per round, entry r for round r, shape (length,).
    value : of the dual function at ``prices``, in floating point; a lower bound where ``stride``
        is 1, and next to one elsewhere.
    stride : the fractional solution has weights on every start, every second, every fourth, ..
    cost : total latency of the fractional solution, feasible or not.
    usage : its memory, entry r for round r, shape (length,).
    mean_starts : of each class of requests.
    capacity : memory that the fractional solution is to keep to, per knot.
    iterations : Newton steps so far.
    """

    def __init__(
        self,
        instance: Instance,
        knots: PriceKnots,
        prices: FloatArray,
        temperature: float,
        *,
        final: IntArray | None = None,
        samples: int = SAMPLES,
        stepped: Callable[[PricePath], None] | None = None,
    ) -> None:
        self.stepped = stepped
        self.classes = request_classes(instance)
        self.final = np.maximum(self.classes.arrival_times, knots.T) if final is None else final
        self.memory_limit = instance.memory_limit
        self.temperature = temperature
        self.samples = samples
        self.stride = 1
        while self.stride < BLOCK and knots.length > 2 * ALL_STARTS_UP_TO * self.stride:
            self.stride *= 2
        self.iterations = 0
        self._columns = (
            self.classes.arrival_times,
            self.classes.prompt_lengths,
            self.classes.output_lengths,
            self.classes.counts,
        )
        count = len(self.classes.counts)
        self._first, self._last = np.zeros((2, count), dtype=np.int64)
        self._hints = self.classes.arrival_times.copy()
        self._cheapest, self._mass, self.mean_starts = np.zeros((3, count))
        self.prices: FloatArray = prices
        self._requests = float(self.classes.counts.sum())
        at_knots = np.append(0.0, prices)[np.minimum(knots.knots, len(prices))]
        self.set_knots(knots, at_knots)

    def set_knots(self, knots: PriceKnots, y: FloatArray | None = None) -> None:
        """Go on with other knots; y defaults to the present prices at them."""
        if y is None:
            y = self.prices[knots.knots]
        self.knots = knots
        self.capacity = self.memory_limit * knots.sizes
        self.tightening = np.zeros(len(knots))
        # A price next to 0 would bar the way: every knot begins where the barrier would push it.
        floor = self.barrier / (0.05 * self.capacity)
        self.y = np.maximum(y, np.maximum(floor, 1e-3 * float(y.mean())))
        self._slack = self.barrier / self.y
        self._evaluate(self.y)

    @property
    def barrier(self) -> float:
        """mu."""
        return BARRIER_SHARE * self._requests * self.temperature / len(self.knots)

    def cool(self, factor: float) -> None:
        """Lower temperature and barrier; the prices stay."""
        self.temperature *= factor
        self._slack *= factor
        self._evaluate(self.y)

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
        self.set_knots(knots)
        self.tightening = taken
        self._apply_tightening()
        return True

    def _apply_tightening(self) -> None:
        self.capacity = self.memory_limit * self.knots.sizes * np.maximum(0.5, 1 - self.tightening)

    def centre(
        self, accuracy: float, must_stop: Callable[[], bool], *, least: int = 0, most: int = 60
    ) -> bool:
        """Newton steps until what one more promises is below ``accuracy`` n tau.

        Parameters
        ----------
        least, most : steps.

        Returns
        -------
        Whether it got there.
        """
        for done in range(most):
            gradient = self.barrier / self.y - (self.capacity - self._gathered)
            direction = self._newton_direction(gradient, must_stop)
            if direction is None:
                return False
            promised = float(gradient @ direction)
            if done >= least and promised < accuracy * self._requests * self.temperature:
                return True
            if must_stop() or not self._step(direction, promised, must_stop):
                return False
        return False

    def _newton_direction(
        self, gradient: FloatArray, must_stop: Callable[[], bool]
    ) -> FloatArray | None:
        """None where ``must_stop`` says so first."""
        count = len(self.knots)
        curvature = np.zeros((count + 2, count + 2))
        done, step = 0, FIRST_SLICE
        while done < len(self._first):
            if must_stop():
                return None
            begun = time.perf_counter()
            part = slice(done, done + step)
            price_curvature(
                self._sums,
                self._weighted_sums,
                *(self._columns[0][part], self._columns[1][part], self._columns[2][part]),
                self._columns[3][part],
                self.temperature,
                self._first[part],
                self._last[part],
                self.knots.left,
                self.knots.share,
                self.samples,
                curvature,
            )
            done += step
            spent = time.perf_counter() - begun
            if spent > 2 * SLICE_SECONDS:
                step = max(1, step // 2)
            elif spent < SLICE_SECONDS:
                step *= 2
        matrix = curvature[:count, :count]
        diagonal = np.arange(count)
        matrix[diagonal, diagonal] += self._slack / self.y
        ridge = 1e-13 * float(matrix[diagonal, diagonal].max())
        while True:
            try:
                return np.asarray(cho_solve(cho_factor(matrix), gradient))
            except LinAlgError:
                matrix[diagonal, diagonal] += ridge
                ridge *= 100

    def _step(self, direction: FloatArray, promised: float, must_stop: Callable[[], bool]) -> bool:
        y, merit, barrier = self.y, self._merit(), self.barrier
        falling = direction < 0
        step = 1.0
        if falling.any():
            step = min(1.0, TO_THE_BOUNDARY * float((y[falling] / -direction[falling]).min()))
        change = (barrier - self._slack * (y + direction)) / y
        while step > 1e-7 and not must_stop():
            self._evaluate(y + step * direction)
            if self._merit() >= merit + 1e-4 * step * promised:
                # Kept within reach of mu / y, of which it is a running estimate.
                target = barrier / self.y
                self._slack = np.clip(self._slack + step * change, target / 10, target * 10)
                self.iterations += 1
                if self.stepped is not None:
                    self.stepped(self)
                return True
            step /= 2
        self._evaluate(y)
        return False

    def _merit(self) -> float:
        return (
            self._soft_value
            - float(self.capacity @ self.y)
            + self.barrier * float(np.log(self.y).sum())
        )

    def _evaluate(self, y: FloatArray) -> None:
        self.y = y
        self.prices = self.knots.spread(y)
        rounds = np.arange(self.knots.length, dtype=np.float64)
        self._sums = np.cumsum(self.prices)
        self._weighted_sums = np.cumsum(self.prices * rounds)
        entering, running = np.zeros((2, self.knots.length + 1))
        soft_starts(
            self._sums,
            self._weighted_sums,
            block_minima(self.prices),
            *self._columns,
            self.final,
            self.temperature,
            self.stride,
            entering,
            running,
            self._first,
            self._last,
            self._hints,
            self._cheapest,
            self._mass,
            self.mean_starts,
        )
        counts = self.classes.counts
        paid = self.memory_limit * float(self._sums[-1])
        self.value = float(counts @ self._cheapest) - paid
        self._soft_value = float(counts @ (self._cheapest - self.temperature * np.log(self._mass)))
        own = self.classes.output_lengths - self.classes.arrival_times
        self.cost = float(counts @ (self.mean_starts + own))
        self.usage = np.cumsum(entering + np.cumsum(running))[: self.knots.length]
        self._gathered = self.knots.gather(self.usage)

    def fractions(self) -> list[tuple[IntArray, FloatArray]]:
        """Starts and weights of the fractional solution, for each class of requests."""
        answer = []
        for k, (a, s, o) in enumerate(zip(*self._columns[:3], strict=True)):
            at = np.arange(self._first[k], self._last[k], self.stride)
            costs = (
                (at + (o - a))
                + (s - at) * (self._sums[at + o] - self._sums[at])
                + (self._weighted_sums[at + o] - self._weighted_sums[at])
            )
            weights = np.exp((self._cheapest[k] - costs) / self.temperature)
            kept = weights > 0
            answer.append((at[kept], weights[kept] / weights.sum()))
        return answer
