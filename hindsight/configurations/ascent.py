"""Epoch prices by smoothed ascent on the full configuration dual: no tables, no LP solver.

Statement. For prices Q(tau, m, r) >= 0 let W_tau(Q) be the heaviest configuration at epoch
tau. Then

    TEL >= L(Q) = sum_i min_{t >= a_i} P_i(t) - sum_tau W_tau(Q),
    P_i(t) = t + o_i - a_i + sum_age Q(t + age, s_i + age, o_i - age).

Proof. In a feasible schedule the active states at tau form a configuration, so their prices sum to
at most W_tau; and TEL = sum_i P_i(t_i) - (prices of all active states).

L is concave, and its maximum is the bound of the *full* configuration relaxation: prices of state
tables are the special case Q = sum_k y_k rho_k, so no finite set of tables gives more. The ascent
maximises the smooth minorant in which the minimum over starts
(`hindsight.configurations.gibbs_starts`) and the maximum over configurations
(`hindsight.configurations.gibbs_configurations`) are soft; its gradient is

    mass(tau, p) under the Gibbs starts  -  z(tau, p) under the Gibbs configurations,

both exact. Adam (Kingma and Ba, 2015) follows it with Q projected to >= 0 while the heats fall.
Every iterate proves a bound; `hindsight.configurations.prices` evaluates it in integers, whatever
the floats did.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from hindsight.runtime.adam import Adam
from instances import InvalidValueError
from instances.arrays import FloatArray, IntArray
from instances.validation import as_integer

from .gibbs_configurations import hard_capacities, soft_capacities
from .gibbs_starts import gibbs_starts, priced_starts, scatter_starts
from .prices import SCALE, integer_capacities
from .tables import ordered_states

EVALUATE_EVERY = 10
"""Iterations between two evaluations of the true dual value and refreshes of the states in use."""

GAINS = (1.0 - 0.9, 1.0 - 0.99)
"""Of Adam. Not 0.1 and 0.01, to the last bit: other prices than ever would be as good."""


class ConfigurationAscent:
    """Ascent for one instance, from given prices.

    Parameters
    ----------
    prompt_lengths, output_lengths : array_like
        Tokens, shape (n,).
    arrival_times : array_like
        Rounds, shape (n,).
    memory_limit : int
        M, tokens.
    copies : int64 array
        See `hindsight.configurations.tables.state_copies`, shape (M + 1, M + 1).
    prices : float64 array
        First prices, in rounds, float64, shape (T, states), states in the order of
        `hindsight.configurations.tables.ordered_states`; T must exceed every arrival time.
    threads : int, default 1
        That share the epochs; the prices do not depend on their number.

    Attributes
    ----------
    prices : float64 array
        The best seen, float64, shape (T, states).
    best_value
        Their value of the dual function, in floating point.

    Raises
    ------
    InvalidValueError
        The priced epochs end before the last arrival.
    """

    def __init__(
        self,
        prompt_lengths: npt.ArrayLike,
        output_lengths: npt.ArrayLike,
        arrival_times: npt.ArrayLike,
        memory_limit: int,
        copies: IntArray,
        prices: FloatArray,
        threads: int = 1,
    ) -> None:
        s, o, a = (
            np.ascontiguousarray(v, dtype=np.int64)
            for v in (prompt_lengths, output_lengths, arrival_times)
        )
        if len(prices) <= int(a.max()):
            raise InvalidValueError(
                None, "epochs", len(prices), f"do not reach past the last arrival {int(a.max())}"
            )
        self._memory_limit = int(memory_limit)
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._copies = copies
        states = ordered_states(copies)
        self._states = (states[:, 0].copy(), states[:, 1].copy(), states[:, 2].copy())
        epochs = len(prices)
        self._requests = priced_starts(states, s, o, a, epochs)
        self._costs = np.zeros((len(s), epochs + 1))
        self._x = np.zeros((len(s), epochs + 1))
        self._mass = np.zeros((len(states), epochs))
        self.prices = np.ascontiguousarray(prices, dtype=np.float64)
        self.best_value = -np.inf

    def ascend(
        self,
        iterations: int,
        start_heat: tuple[float, float] = (0.3, 0.1),
        configuration_heat: tuple[float, float] = (0.05, 0.03),
        step: tuple[float, float] = (0.2, 0.02),
        should_stop: Callable[[], bool] | None = None,
    ) -> float:
        """Run Adam with geometrically falling heats and step; keep the best prices seen.

        Parameters
        ----------
        iterations : int
            At least 1.
        start_heat, configuration_heat : tuple[float, float], optional
            Of the soft minima and maxima, first and last, in rounds.
        step : tuple[float, float], optional
            First and last, in rounds.
        should_stop : Callable[[], bool] or None, default None
            Asked in every iteration, which takes some ten milliseconds.

        Returns
        -------
        float
            The best value of the dual function so far, which `prices` have.
        """
        iterations = as_integer(iterations, None, "iterations", minimum=1)
        m, r, c = self._states
        limit = self._memory_limit
        Q = self.prices.copy()
        epochs = len(Q)
        adam, z = Adam(Q, GAINS), np.zeros_like(Q)
        seldom = np.zeros(Q.shape, dtype=np.bool_)
        soft, level = np.zeros(epochs), np.zeros(epochs)
        self._share(hard_capacities, Q, m, r, c, limit, level)
        for it in range(iterations):
            f = it / max(1, iterations - 1)
            heat_x, heat_z, rate = (
                first * (last / first) ** f
                for first, last in (start_heat, configuration_heat, step)
            )
            value = self._start_value(Q, heat_x)
            evaluate = it % EVALUATE_EVERY == 0 or it == iterations - 1
            if evaluate:
                self._keep(Q, value)
            if it == iterations - 1 or (should_stop is not None and should_stop()):
                break
            scatter_starts(self._x, self._requests, self._mass)
            mass = np.ascontiguousarray(self._mass.T)
            columns = (Q, mass, seldom, m, r, c, limit)
            self._share(soft_capacities, *columns, heat_z, level, z, soft, evaluate)
            if not _are_finite(soft, z).all():
                # A level far off after a long step: fall back to the hard maximum.
                self._share(hard_capacities, Q, m, r, c, limit, level)
                self._share(soft_capacities, *columns, max(heat_z, 0.1), level, z, soft, True)
                lost = ~_are_finite(soft, z)
                if lost.any():
                    # More configurations than floats count: their epochs keep their prices.
                    z[lost], soft[lost] = mass[lost], level[lost]
            level[:] = soft
            adam.step(mass - z, rate)
        return self.best_value

    def integer_prices(self) -> tuple[IntArray, IntArray]:
        """The best prices in integers, with exact capacities, as `StateSearch` takes them.

        Both are int64 in units of 1 / SCALE, shapes (T, M + 1, M + 1) and (T,).
        """
        m, r, _ = self._states
        Q = np.zeros((len(self.prices), *self._copies.shape), dtype=np.int64)
        Q[:, m, r] = np.floor(self.prices * SCALE).astype(np.int64)
        return Q, integer_capacities(Q, self._copies)

    def _share(self, kernel: Callable[..., None], *arguments: object) -> None:
        """Run a kernel over all epochs, every thread taking each so-many-th of them."""
        if self._threads == 1:
            kernel(*arguments, 0, 1)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads)
        shares = [
            self._pool.submit(kernel, *arguments, first, self._threads)
            for first in range(self._threads)
        ]
        for share in shares:
            share.result()

    def _start_value(self, Q: FloatArray, heat: float) -> float:
        prices = np.ascontiguousarray(Q.T)
        return gibbs_starts(prices, self._requests, heat, self._costs, self._x)

    def _keep(self, Q: FloatArray, start_value: float) -> None:
        capacities = np.zeros(len(Q))
        self._share(hard_capacities, Q, *self._states, self._memory_limit, capacities)
        value = start_value - float(capacities.sum())
        if value > self.best_value:
            self.best_value, self.prices = value, Q.copy()


def _are_finite(soft: FloatArray, z: FloatArray) -> npt.NDArray[np.bool_]:
    """Of which epochs the soft maximum and all marginals are numbers, shape (T,)."""
    finite: npt.NDArray[np.bool_] = np.isfinite(soft + z.sum(axis=1))
    return finite
