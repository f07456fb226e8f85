"""The best memory prices, one per round, by first-order ascent on a smoothed dual.

The dual of the relaxation asks for prices lambda >= 0 that maximise

    L(lambda) = sum_i min_t P_i(t) - M sum_r lambda_r.

Here min becomes a soft minimum of temperature tau, an entropic smoothing after Nesterov (2005):
within tau log(starts) a request of L, and differentiable. Its gradient is usage - M, per round,
with usage the memory of the Gibbs weights of `hindsight.relaxation.soft_starts`: where it vanishes,
or is negative and the price is 0, the weights are a fractional solution that keeps to M.
Temperatures fall in stages, prices go from one to the next, and L-BFGS-B (Byrd, Lu, Nocedal, Zhu
1995) climbs each: requests couple the rounds of their lives, so curvature is far from diagonal, but
some steps back tell enough of it.

References
----------
.. [1] R. H. Byrd, P. Lu, J. Nocedal, C. Zhu, "A limited memory algorithm for bound constrained
       optimization", SIAM Journal on Scientific Computing 16 (1995), 1190-1208.
.. [2] Y. Nesterov, "Smooth minimization of non-smooth functions", Mathematical Programming 103
       (2005), 127-152.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from hindsight.bounds.cheapest_starts import PricedRounds, RequestClasses, block_minima
from hindsight.runtime.clock import StoppedEarlyError, never, timed_slices
from instances.arrays import FloatArray, IntArray

from .soft_starts import StartWindows, soft_starts

MOST_PRICES = 300_000
"""Most rounds with a price of their own each: L-BFGS-B stores some fifty numbers for each price."""

REMEMBERED = 20
"""Number of previous steps from which L-BFGS-B estimates curvature."""


@dataclass(frozen=True, eq=False)
class GibbsStarts:
    """Prices, and the fractional solution that belongs to them.

    Attributes
    ----------
    prices : float64 array
        Price per round, entry r for round r, shape (length,).
    windows : StartWindows
        Weights of each class.
    value : float
        Value of the dual function at ``prices``, in floating point.
    soft_value : float
        The same with soft minima, before the cost of the capacity.
    cost : float
        Total latency of the fractional solution, feasible or not.
    usage : float64 array
        Memory of the fractional solution, entry r for round r, shape (length,).
    """

    prices: FloatArray
    windows: StartWindows
    value: float
    soft_value: float
    cost: float
    usage: FloatArray


class PriceAscent:
    """Ascent of prices at a temperature, with the fractional solution of the present prices.

    Parameters
    ----------
    classes : RequestClasses
        Classes of the requests.
    memory_limit : int
        M, tokens.
    prices : float64 array
        Initial prices of rounds 1 .. T, shape (T,).
    temperature : float
        Initial temperature, in rounds.
    final : int64 array or None, default None
        Last start considered for each class of requests; None uses max(T, a), after which a later
        start only costs more.
    late : float64 array or None, default None
        Cost of a request of each class that never starts; None starts all of them.
    stepped : Callable[[PriceAscent], None] or None, default None
        Called with the ascent after every step.
    must_stop : Callable[[], bool], default never
        Polled a few times a second. `climb` ends if it returns True; everything else raises
        `StoppedEarlyError`, and `now` stays as it was.

    Attributes
    ----------
    now : GibbsStarts
        Present prices and fractional solution; the value is a lower bound up to rounding.
    T : int
        Last round with a price.
    temperature : float
        Temperature, in rounds.
    steps, iterations : int
        Steps of L-BFGS-B at this temperature, and iterations in all.
    """

    def __init__(
        self,
        classes: RequestClasses,
        memory_limit: int,
        prices: FloatArray,
        temperature: float,
        *,
        final: IntArray | None = None,
        late: FloatArray | None = None,
        stepped: Callable[[PriceAscent], None] | None = None,
        must_stop: Callable[[], bool] = never,
    ) -> None:
        self.stepped = stepped
        self.must_stop = must_stop
        self.classes = classes
        self.T = len(prices)
        self._late = np.full(len(classes.counts), np.inf) if late is None else late
        self.final = np.maximum(classes.arrival_times, self.T) if final is None else final
        self.memory_limit = memory_limit
        self.temperature = temperature
        self.steps, self.iterations = 0, 0
        longest = int(classes.output_lengths.max())
        self._length = max(int(self.final.max()), self.T) + longest + 2
        # Each price covers this many rounds.
        self._width = -(-self.T // MOST_PRICES)
        self._firsts = np.arange(0, self.T, self._width)
        self._sizes = self._gathered(np.ones(self._length))
        # Scale steps to order one: the prices at which waiting costs as much as memory.
        volumes = classes.prompt_lengths + classes.output_lengths / 2
        prices_of_waiting = np.maximum(classes.weights, 1) / volumes
        self._unit = float(np.average(prices_of_waiting, weights=classes.counts)) / np.sqrt(
            self._sizes
        )
        self._hints = classes.arrival_times.copy()
        y = np.add.reduceat(prices, self._firsts) / self._sizes
        self.now = self._evaluated(y, temperature)
        self._y, self._tried = y, (y, self.now)

    def climb(self, most: int, tolerance: float) -> bool:
        """Step at this temperature until ``most`` steps are made or a step gains almost nothing.

        Parameters
        ----------
        most : int
            Most steps since the last change of temperature.
        tolerance : float
            Smallest gain of a step, relative to the value; smaller gains end the climb.

        Returns
        -------
        bool
            Whether the climb finished rather than being stopped.
        """
        if self.steps >= most:
            return True
        # Imported here: it takes a fifth of a second to load, and most solves do without.
        from scipy.optimize import minimize

        try:
            # BLAS threads would only spin, which on a busy machine takes most of the time.
            with threadpool_limits(1, "blas"):
                minimize(
                    self._descent,
                    self._y / self._unit,
                    jac=True,
                    method="L-BFGS-B",
                    bounds=[(0.0, None)] * len(self._y),
                    callback=self._accept,
                    options={
                        "maxiter": most - self.steps,
                        "maxfun": 20 * most,
                        "maxcor": REMEMBERED,
                        "ftol": tolerance,
                        "gtol": 0.0,
                    },
                )
        except StoppedEarlyError:
            return False
        return True

    def cool(self, factor: float) -> None:
        """Multiply the temperature by ``factor``; the memory prices stay the same."""
        self.now = self._evaluated(self._y, self.temperature * factor)
        self.temperature *= factor
        self.steps = 0

    def round_prices(self) -> FloatArray:
        """Return prices of rounds 1 .. T, shape (T,)."""
        return self.now.prices[1 : self.T + 1]

    def _gathered(self, usage: FloatArray) -> FloatArray:
        """Sum a quantity per round over the rounds of each price."""
        summed: FloatArray = np.add.reduceat(usage[1 : self.T + 1], self._firsts)
        return summed

    def _descent(self, z: FloatArray) -> tuple[float, FloatArray]:
        y = np.maximum(z, 0.0) * self._unit
        tried = self._evaluated(y, self.temperature)
        self._tried = y, tried
        gradient = self._gathered(tried.usage) - self.memory_limit * self._sizes
        return -tried.soft_value, -gradient * self._unit

    def _accept(self, _: FloatArray) -> None:
        # L-BFGS-B evaluates nothing between a step and its report.
        self._y, self.now = self._tried
        self.steps += 1
        self.iterations += 1
        if self.stepped is not None:
            self.stepped(self)
        if self.must_stop():
            raise StoppedEarlyError

    def _evaluated(self, y: FloatArray, temperature: float) -> GibbsStarts:
        classes = self.classes
        prices = np.zeros(self._length)
        prices[1 : self.T + 1] = np.repeat(y, self._width)[: self.T]
        sums = np.cumsum(prices)
        weighted_sums = np.cumsum(prices * np.arange(self._length, dtype=np.float64))
        rounds = PricedRounds(sums, weighted_sums, block_minima(prices), 1.0)
        entering, running = np.zeros((2, self._length + 1))
        count = len(classes.counts)
        cheapest, mass, mean_starts = np.zeros((3, count))
        windows = StartWindows(self._hints, cheapest, mass, mean_starts)
        for part in timed_slices(count, self.must_stop):
            bounds, memory = (part.start, part.stop), (entering, running)
            soft_starts(
                rounds, classes, bounds, self.final, temperature, memory, windows, self._late
            )
        own = classes.output_lengths - classes.arrival_times
        smooth = float(classes.counts @ (cheapest - temperature * np.log(mass)))
        return GibbsStarts(
            prices=prices,
            windows=windows,
            value=float(classes.counts @ cheapest) - self.memory_limit * float(sums[-1]),
            soft_value=smooth - self.memory_limit * float(sums[-1]),
            cost=float((classes.counts * classes.weights) @ (mean_starts + own)),
            usage=np.cumsum(entering + np.cumsum(running))[: self._length],
        )
