"""Table prices by smoothed dual ascent: no LP solver, and every iterate already proves a bound.

For tables rho_k (scaled to capacity 1) and prices y[k, tau] >= 0 the dual function of the table
relaxation is

    L(y) = sum_i min_{t >= a_i} P_i(t) - sum y,
    P_i(t) = t + o_i - a_i
             + sum_{age = 0}^{o_i - 1} sum_k y[k, t + age] rho_k(s_i + age, o_i - age),

a lower bound on total latency (proof: `hindsight.configurations.prices`, which also evaluates it in
integers). Prices are 0 from epoch T on, where P_i only grows: the minimum is over a_i .. T, and no
horizon is assumed. Replacing the minimum by a soft minimum of falling temperature gives a gradient,
usage(x) - 1 with Gibbs weights x, which Adam (Kingma and Ba, 2015) follows with y projected to
>= 0. The average of the last x is the fractional point that tables are separated from. Prices and
usages go through one matrix product over the states that occur, so an iteration is a few
milliseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from hindsight.runtime.adam import Adam
from instances import InvalidValueError
from instances.arrays import FloatArray, IntArray
from instances.validation import as_integer

from .gibbs_starts import gibbs_starts, priced_starts, scatter_starts
from .prices import epoch_prices
from .tables import ConfigurationCut, ordered_states


class DualAscent:
    """Prices of a growing set of tables for one instance.

    Parameters
    ----------
    prompt_lengths, output_lengths : array_like
        Tokens, shape (n,).
    arrival_times : array_like
        Rounds, shape (n,).
    copies : int64 array
        See `hindsight.configurations.tables.state_copies`, shape (M + 1, M + 1).
    epochs : int
        T, epochs 0 .. T - 1 are priced; must exceed every arrival time.
    tables : Sequence[ConfigurationCut]
        The first tables, exactly valid; at least one.

    Attributes
    ----------
    tables : list[ConfigurationCut]
        Those in use.
    prices : float64 array
        Of the tables scaled to capacity 1, float64, shape (len(tables), T).
    best_bound
        Largest value of the dual function seen, in floating point; -inf before the first ascent.
    best : tuple[list[ConfigurationCut], float64 array]
        The tables and prices that have it.

    Raises
    ------
    InvalidValueError
        The priced epochs end before the last arrival, or no table was given.
    """

    def __init__(
        self,
        prompt_lengths: npt.ArrayLike,
        output_lengths: npt.ArrayLike,
        arrival_times: npt.ArrayLike,
        copies: IntArray,
        epochs: int,
        tables: Sequence[ConfigurationCut],
    ) -> None:
        self.prompt_lengths, self.output_lengths, self.arrival_times = (
            np.ascontiguousarray(v, dtype=np.int64)
            for v in (prompt_lengths, output_lengths, arrival_times)
        )
        self.epochs = int(epochs)
        self.copies = copies
        last_arrival = int(self.arrival_times.max())
        if self.epochs <= last_arrival:
            raise InvalidValueError(
                None, "epochs", self.epochs, f"do not reach past the last arrival {last_arrival}"
            )
        if not tables:
            raise InvalidValueError(None, "tables", [], "is empty")
        states = ordered_states(copies)
        self._m, self._r = states[:, 0], states[:, 1]
        n = len(self.prompt_lengths)
        columns = (self.prompt_lengths, self.output_lengths, self.arrival_times)
        self._requests = priced_starts(states, *columns, self.epochs)
        self._costs = np.zeros((n, self.epochs + 1))
        self._x = np.zeros((n, self.epochs + 1))
        self._mass = np.zeros((len(states), self.epochs))
        self._average = self._x
        self.tables: list[ConfigurationCut] = []
        self._rows = np.zeros((0, len(states)))
        self.prices: FloatArray = np.zeros((0, self.epochs))
        self.best_bound = -np.inf
        self.best: tuple[list[ConfigurationCut], FloatArray] = ([], self.prices)
        self.add(tables)

    def add(self, tables: Sequence[ConfigurationCut]) -> None:
        """New tables start at price 0: the bound does not change until the next ascent."""
        rows = self._scaled(tables)
        self.tables = self.tables + list(tables)
        self._rows = np.vstack([self._rows, rows])
        self.prices = np.vstack([self.prices, np.zeros((len(tables), self.epochs))])

    def ascend(
        self,
        iterations: int,
        temperature: tuple[float, float],
        step: tuple[float, float],
        should_stop: Callable[[], bool] | None = None,
    ) -> float:
        """Run Adam with geometrically falling temperature and step; keep the best prices seen.

        Parameters
        ----------
        iterations : int
            At least 1.
        temperature : tuple[float, float]
            Of the soft minimum, first and last, in rounds of latency.
        step : tuple[float, float]
            First and last, in rounds of latency.
        should_stop : Callable[[], bool] or None, default None
            Asked in every iteration, which takes milliseconds.

        Returns
        -------
        float
            The best value of the dual function in this run, which `prices` then have.
        """
        iterations = as_integer(iterations, None, "iterations", minimum=1)
        y = self.prices.copy()
        adam = Adam(y)
        average, weight = np.zeros_like(self._x), 0
        best, best_y = -np.inf, y
        for it in range(iterations):
            f = it / max(1, iterations - 1)
            tau = temperature[0] * (temperature[1] / temperature[0]) ** f
            rate = step[0] * (step[1] / step[0]) ** f
            Q = self._rows.T @ y
            value = gibbs_starts(Q, self._requests, tau, self._costs, self._x)
            value -= y.sum()
            if value > best:
                best, best_y = value, y.copy()
            if f >= 0.7:
                average += self._x
                weight += 1
            if should_stop is not None and should_stop():
                break
            scatter_starts(self._x, self._requests, self._mass)
            adam.step(self._rows @ self._mass - 1.0, rate)
        self.prices = best_y
        self._average = average / weight if weight else self._x
        if best > self.best_bound:
            self.best_bound, self.best = best, (list(self.tables), best_y)
        return float(best)

    def state_prices(self) -> FloatArray:
        """The best prices summed over tables, per epoch and state that occurs.

        Returns
        -------
        float64 array, shape (T, states)
            States in the order of `hindsight.configurations.tables.ordered_states`.
        """
        tables, prices = self.best
        return np.ascontiguousarray((self._scaled(tables).T @ prices).T)

    def masses(self) -> FloatArray:
        """Mass of requests in each state at each epoch under the averaged fractional starts.

        Returns
        -------
        float64 array, shape (T, M + 1, M + 1)
            For `hindsight.configurations.separation`.
        """
        flat = np.zeros_like(self._mass)
        scatter_starts(self._average, self._requests, flat)
        mass = np.zeros((self.epochs, *self.copies.shape))
        mass[:, self._m, self._r] = flat.T
        return mass

    def best_epoch_prices(self) -> tuple[IntArray, IntArray]:
        """(Q, W) of `best` in integers: see `hindsight.configurations.prices.epoch_prices`."""
        return self._integers(*self.best)

    def _scaled(self, tables: Sequence[ConfigurationCut]) -> FloatArray:
        """Coefficients for capacity 1 on the states that occur, shape (len(tables), states)."""
        rows = [t.coefficients[self._m, self._r] / t.capacity for t in tables]
        return np.array(rows).reshape(len(tables), len(self._m))

    def _integers(
        self, tables: Sequence[ConfigurationCut], prices: FloatArray
    ) -> tuple[IntArray, IntArray]:
        coefficients = np.array([t.coefficients for t in tables])
        capacities = np.array([t.capacity for t in tables])
        return epoch_prices(coefficients, capacities, prices, self.copies)
