"""Prices of what runs together by smoothed dual ascent: no LP solver, every iterate is a bound.

Statement. For prices Q(tau, m, r) >= 0 let W_tau(Q) be the heaviest configuration at epoch
tau. Then

    TEL >= L(Q) = sum_i min_{t >= a_i} P_i(t) - K sum_tau W_tau,
    P_i(t) = t + o_i - a_i + sum_age Q(t + age, s_i + age, o_i - age).

Proof. In a feasible schedule the active states at tau form a configuration, so their prices sum to
at most W_tau on each of the K replicas; and TEL = sum_i P_i(t_i) - (prices of all active states).
Prices that differ between replicas prove no more: the mean of such prices over all ways to number
the replicas proves at least as much, because L is concave, and it is the same on all of them.

L is concave, and its maximum is the bound of the *full* configuration relaxation
(`ConfigurationAscent`). Prices of state tables rho_k, scaled to capacity 1, are the special case
Q = sum_k y_k rho_k with W_tau <= sum_k y[k, tau]: no finite set of tables gives more, but they are
quick to price (`TableAscent`).

An ascent maximises a smooth minorant in which the minimum over starts and the maximum over
configurations are soft (`hindsight.configurations.gibbs_kernels`). With Q its gradient is

    mass(tau, p) under the Gibbs starts  -  K z(tau, p) under the Gibbs configurations,

both exact; with y it is what the Gibbs starts use of each table, less K. Adam (Kingma and Ba, 2015)
follows it with prices projected to >= 0 while the heats fall. Prices are 0 from epoch T on, where
P_i only grows: the minimum is over a_i .. T, and no horizon is assumed.
`hindsight.configurations.prices` evaluates the bound in integers, whatever the floats did.

*From coarse to fine.* Equal prices in w consecutive epochs are prices like others, so L bounds the
optimum as before. Their W_tau is equal too: an iteration searches for one heaviest configuration
instead of w, which is most of its work, and a step moves w epochs the same way. So an ascent gains
most for its time if it begins with a large w, and halves it as it goes on.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from hindsight.runtime.adam import Adam
from instances import Instance, InvalidValueError
from instances.arrays import FloatArray, IntArray
from instances.validation import as_integer

from .gibbs_kernels import (
    GibbsStates,
    InTime,
    SoftMaxima,
    gibbs_starts,
    hard_capacities,
    priced_starts,
    scatter_starts,
    soft_capacities,
)
from .prices import SCALE, integer_capacities
from .tables import ConfigurationCut, ordered_states

Number = TypeVar("Number", bound=np.generic)


class DualAscent(ABC):
    """Base of price ascents: the soft minimum over starts, and Adam.

    Parameters
    ----------
    instance : Instance
        The problem.
    copies : int64 array
        See `hindsight.configurations.tables.state_copies`, shape (M + 1, M + 1).
    prices : float64 array
        Initial prices, in rounds.
    epochs : int
        T: epochs 0 .. T - 1 are priced; it must exceed every arrival time.
    in_time : InTime or None, default None
        Count late requests instead of latency.

    Attributes
    ----------
    prices : float64 array
        The best prices so far.
    best_value : float
        Value of the dual function at ``prices``, in floating point; -inf before the first ascent.

    Raises
    ------
    InvalidValueError
        The priced epochs end before the last arrival.
    """

    evaluate_every: ClassVar[int] = 1
    """Iterations between two evaluations of the exact dual value."""

    gains: ClassVar[tuple[float, float]] = (0.1, 0.01)
    """See `hindsight.runtime.adam.Adam`."""

    def __init__(
        self,
        instance: Instance,
        copies: IntArray,
        prices: FloatArray,
        epochs: int,
        in_time: InTime | None = None,
    ) -> None:
        last_arrival = int(instance.arrival_times.max())
        if epochs <= last_arrival:
            raise InvalidValueError(
                None, "epochs", epochs, f"do not reach past the last arrival {last_arrival}"
            )
        self.prices = np.ascontiguousarray(prices, dtype=np.float64)
        self.best_value = -np.inf
        self._copies, self._states = copies, ordered_states(copies)
        self._replicas = instance.replicas
        self._requests = priced_starts(self._states, *instance.alone().columns[:3], epochs, in_time)
        self._costs, self._x = np.zeros((2, len(instance), epochs + 1))
        self._mass = np.zeros((len(self._states), epochs))

    # BLAS threads would only spin, which on a busy machine takes most of the time.
    @threadpool_limits.wrap(limits=1, user_api="blas")  # type: ignore[untyped-decorator]
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
            Number of iterations, at least 1.
        start_heat, configuration_heat : tuple[float, float], optional
            First and last heat of the soft minima and maxima, in rounds.
        step : tuple[float, float], optional
            First and last step, in rounds.
        should_stop : Callable[[], bool] or None, default None
            Polled in every iteration, which takes some milliseconds.

        Returns
        -------
        float
            The best value of the dual function so far, that of `prices`.
        """
        iterations = as_integer(iterations, None, "iterations", minimum=1)
        prices = self.prices.copy()
        adam = Adam(prices, self.gains)
        self._begin(prices)
        for it in range(iterations):
            is_last = it == iterations - 1
            share = it / max(1, iterations - 1)
            heat, other_heat, rate = (
                first * (last / first) ** share
                for first, last in (start_heat, configuration_heat, step)
            )
            by_state = self._by_state(prices)
            value = gibbs_starts(by_state, self._requests, heat, self._costs, self._x)
            evaluates = it % self.evaluate_every == 0 or is_last
            if evaluates:
                value -= self._paid(prices)
                if value > self.best_value:
                    self.best_value, self.prices = value, prices.copy()
            if is_last or (should_stop is not None and should_stop()):
                break
            scatter_starts(self._x, self._requests, self._mass)
            adam.step(self._gradient(prices, other_heat, evaluates), rate)
        return float(self.best_value)

    @abstractmethod
    def _begin(self, prices: FloatArray) -> None:
        """Prepare for iterations from these prices."""

    @abstractmethod
    def _by_state(self, prices: FloatArray) -> FloatArray:
        """Return Q, contiguous, shape (states, T)."""

    @abstractmethod
    def _paid(self, prices: FloatArray) -> float:
        """Return the sum of all K W_tau, or an upper bound on it."""

    @abstractmethod
    def _gradient(self, prices: FloatArray, heat: float, refresh: bool) -> FloatArray:
        """Return the gradient at ``prices``, from the mass of the Gibbs starts."""


class TableAscent(DualAscent):
    """Ascent on the prices of some tables, shape (tables, T), from 0.

    Parameters
    ----------
    instance, copies, epochs : Instance, int64 array, int
        See `DualAscent`.
    tables : Sequence[ConfigurationCut]
        Exactly valid tables, at least one.
    in_time : InTime or None, default None
        See `DualAscent`.

    Raises
    ------
    InvalidValueError
        The priced epochs end before the last arrival, or ``tables`` is empty.
    """

    def __init__(
        self,
        instance: Instance,
        copies: IntArray,
        epochs: int,
        tables: Sequence[ConfigurationCut],
        in_time: InTime | None = None,
    ) -> None:
        if not tables:
            raise InvalidValueError(None, "tables", [], "is empty")
        super().__init__(instance, copies, np.zeros((len(tables), epochs)), epochs, in_time)
        m, r = self._states[:, 0], self._states[:, 1]
        self._rows = np.array([table.coefficients[m, r] / table.capacity for table in tables])

    def state_prices(self) -> FloatArray:
        """Return the best prices summed over tables, shape (T, states)."""
        return np.ascontiguousarray(self._by_state(self.prices).T)

    def _begin(self, prices: FloatArray) -> None:
        pass

    def _by_state(self, prices: FloatArray) -> FloatArray:
        by_state: FloatArray = self._rows.T @ prices
        return by_state

    def _paid(self, prices: FloatArray) -> float:
        return self._replicas * float(prices.sum())

    def _gradient(self, prices: FloatArray, heat: float, refresh: bool) -> FloatArray:
        return self._rows @ self._mass - float(self._replicas)


class ConfigurationAscent(DualAscent):
    """Ascent on the prices of all states that occur, from given prices.

    Parameters
    ----------
    instance, copies : Instance, int64 array
        See `DualAscent`.
    prices : float64 array
        Initial prices, in rounds, float64, shape (T, states), with states in the order of
        `hindsight.configurations.tables.ordered_states`.
    threads : int, default 1
        Number of threads that share the epochs; the prices do not depend on it.
    in_time : InTime or None, default None
        See `DualAscent`.

    Attributes
    ----------
    width : int
        Number of consecutive epochs that share prices; 1 at first.
    prices : float64 array
        The best prices so far, one row for every ``width`` epochs.
    """

    evaluate_every = 10
    gains = (1.0 - 0.9, 1.0 - 0.99)
    """1 - beta1 and 1 - beta2, written this way so that results stay bit-identical."""

    def __init__(
        self,
        instance: Instance,
        copies: IntArray,
        prices: FloatArray,
        threads: int = 1,
        in_time: InTime | None = None,
    ) -> None:
        super().__init__(instance, copies, prices, len(prices), in_time)
        m, r, c = (self._states[:, column].copy() for column in range(3))
        self._columns = GibbsStates(m, r, c, instance.memory_limit)
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._epochs, self.width = len(prices), 1

    def share(self, width: int) -> None:
        """Let so many consecutive epochs share prices from now on: the mean of what they have."""
        if width != self.width:
            prices, self.width = self._by_epoch(self.prices), width
            self.prices, self.best_value = self._mean(prices), -np.inf

    def integer_prices(self) -> tuple[IntArray, IntArray]:
        """Return the best prices in integers, with exact capacities, as `StateSearch` takes them.

        Both are int64 in units of 1 / SCALE, shapes (T, M + 1, M + 1) and (T,).
        """
        Q = np.zeros((len(self.prices), *self._copies.shape), dtype=np.int64)
        prices = np.floor(self.prices * SCALE).astype(np.int64)
        Q[:, self._columns.held, self._columns.rounds] = prices
        return self._by_epoch(Q), self._by_epoch(integer_capacities(Q, self._copies))

    def _by_epoch(self, shared: npt.NDArray[Number]) -> npt.NDArray[Number]:
        """Repeat what consecutive epochs share for each of them, along the first axis."""
        if self.width == 1:
            return shared
        return np.repeat(shared, self.width, axis=0)[: self._epochs]

    def _mean(self, values: FloatArray) -> FloatArray:
        """Average over the epochs that share prices, along the first axis."""
        if self.width == 1:
            return values
        firsts = np.arange(0, self._epochs, self.width)
        sums = np.add.reduceat(values, firsts, axis=0)
        return np.asarray(sums / self._lengths()[:, None], dtype=np.float64)

    def _lengths(self) -> FloatArray:
        """Return how many epochs share each price; the last one may have fewer."""
        firsts = np.arange(0, self._epochs, self.width)
        return np.diff(firsts, append=self._epochs).astype(np.float64)

    def _begin(self, prices: FloatArray) -> None:
        level, soft = np.zeros((2, len(prices)))
        seldom = np.zeros(prices.shape, dtype=np.bool_)
        self._maxima = SoftMaxima(level, soft, np.zeros_like(prices), seldom)
        self._share(hard_capacities, prices, self._columns, level)

    def _by_state(self, prices: FloatArray) -> FloatArray:
        return np.ascontiguousarray(self._by_epoch(prices).T)

    def _paid(self, prices: FloatArray) -> float:
        capacities = np.zeros(len(prices))
        self._share(hard_capacities, prices, self._columns, capacities)
        return self._replicas * float(capacities @ self._lengths())

    def _gradient(self, prices: FloatArray, heat: float, refresh: bool) -> FloatArray:
        level, soft, z, _ = maxima = self._maxima
        # Of an epoch in the mean: all prices are steps of one size, whatever they share.
        mass = np.ascontiguousarray(self._mean(self._mass.T))
        given = (prices, mass, self._columns)
        self._share(soft_capacities, *given, heat, maxima, refresh)
        if not _are_finite(soft, z).all():
            # After a long step the level may be far off: fall back to the hard maximum.
            self._share(hard_capacities, prices, self._columns, level)
            self._share(soft_capacities, *given, max(heat, 0.1), maxima, True)
            lost = ~_are_finite(soft, z)
            # Floats cannot count the configurations of these epochs: they keep their prices.
            z[lost], soft[lost] = mass[lost] / self._replicas, level[lost]
        level[:] = soft
        return mass - self._replicas * z

    def _share(self, kernel: Callable[..., None], *arguments: object) -> None:
        """Run a kernel over all epochs; thread k of n takes every n-th epoch from the k-th on."""
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


def _are_finite(soft: FloatArray, z: FloatArray) -> npt.NDArray[np.bool_]:
    """Tell for each epoch whether the soft maximum and all marginals are finite, shape (T,)."""
    finite: npt.NDArray[np.bool_] = np.isfinite(soft + z.sum(axis=1))
    return finite
