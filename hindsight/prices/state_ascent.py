"""Prices of configurations by smoothed dual ascent, without an LP solver; all prices give a bound.

Statement. In state (m, r) a running request holds m tokens and has r rounds to go. A
configuration is a multiset of states that fit into memory together. An epoch tau is the time
between two rounds. For prices Q(tau, m, r) >= 0 let W_tau(Q) be the largest total price of a
configuration at epoch tau. Then

    TEL >= L(Q) = sum_i min_{t >= a_i} P_i(t) - K sum_tau W_tau,
    P_i(t) = t + o_i - a_i + sum_age Q(t + age, s_i + age, o_i - age).

Proof. In a feasible schedule the active states at tau form a configuration, so their prices sum to
at most W_tau on each of the K replicas; and TEL = sum_i P_i(t_i) - (prices of all active states).
Prices that differ between replicas prove no more: the mean of such prices over all ways to number
the replicas proves at least as much, because L is concave, and it is the same on all of them.

L is concave, and its maximum is the bound of the *full* configuration relaxation (`StateAscent`).
A state table rho_k is a valid inequality on the states active at one epoch
(`hindsight.prices.state_tables`). Prices y_k of tables, scaled to capacity 1, are the special case
Q = sum_k y_k rho_k with W_tau <= sum_k y[k, tau]. No finite set of tables gives a larger bound than
all states do. But prices of tables are found quickly, and with their prices the ascent on all
states starts most of the way up.

Where late requests are counted instead of latency, a request pays only prices if it starts in time,
and a penalty if not (`hindsight.rounds.on_time`).

An ascent maximises a smooth minorant in which the minimum over starts and the maximum over
configurations are soft (`hindsight.prices.state_kernels`). With Q its gradient is

    mass(tau, p) under the Gibbs starts  -  K z(tau, p) under the Gibbs configurations,

and both terms are computed exactly. The gradient by y is the use of each table by the Gibbs starts,
minus K. Adam follows the gradient, with prices projected to >= 0, while the temperatures fall.
Prices are 0 from epoch T on, where P_i only grows: the minimum is over a_i .. T, and no horizon is
assumed. `hindsight.prices.states` evaluates the bound in integers, so rounding errors of the
ascent cannot make it wrong.

*From coarse to fine.* If prices are equal in w consecutive epochs, W_tau is equal too. An iteration
then searches for one heaviest configuration instead of w, and this search is most of its work. A
step moves the prices of w epochs in the same way. So an ascent gains most for its time if it begins
with a large w and halves it later. L is a bound for such prices as for all others.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from hindsight.runtime.clock import never
from instances import Instance
from instances.arrays import FloatArray, IntArray

from .ascent import Best, Evaluation, Stage, ascend
from .state_kernels import PricedStarts, SoftMaxima, capacities, gibbs_starts, soft_capacities
from .state_tables import first_tables, ordered_states, state_copies
from .states import SCALE, integer_capacities

LARGEST_MEMORY_LIMIT = 255
"""Largest memory limit M, in tokens, for prices of states (m tokens used, r rounds to go). A round
has (M + 1)^2 prices, and finding the states of largest total price that fit takes M^3 steps."""

LARGEST_PRICE_ARRAY = 20_000_000
"""Limit on state prices, (M + 1)^2 per round, and on costs of starts, one per request and round."""

TABLE_STEPS = 301
"""Steps of the first ascent, in which state prices are weighted sums of a few fixed tables."""

VALUED_EVERY = 10
"""Every VALUED_EVERY-th evaluation computes the lower bound that prices prove, not only its
gradient. The other evaluations leave out states in which hardly any request is expected."""

HEATS, RATES = (0.3, 0.1), (0.2, 0.02)
"""First and last temperature of Gibbs weights of starts, and step size of Adam. Unit: rounds."""

CONFIGURATION_HEAT, COLDEST, HOTTEST = 0.3, 0.01, 0.05
"""Temperature of weights of configurations (sets of states that fit into memory together): its
ratio to the temperature of start weights, and its smallest and largest value in rounds."""


def fits(instance: Instance, makespan: int, most: int = LARGEST_PRICE_ARRAY) -> bool:
    """Return whether an instance is small enough for `StateAscent`, with prices up to ``makespan``.

    The memory limit M must be at most `LARGEST_MEMORY_LIMIT`. In state (m, r) a request has used m
    tokens and has r rounds to go. Each state has a price at each epoch (time between two rounds) up
    to round ``makespan``, or up to the last arrival if that is later. The number of prices, (M +
    1)^2 per epoch, must be at most ``most``. So must the number of costs of starts, one for each
    request and epoch.
    """
    limit = instance.memory_limit
    entries = _epochs(instance, makespan) * max((limit + 1) ** 2, len(instance))
    return limit <= LARGEST_MEMORY_LIMIT and entries <= most


def _epochs(instance: Instance, makespan: int) -> int:
    """Return T, the number of priced epochs: 1 + the larger of makespan and last arrival.

    An epoch is the time between two rounds.
    """
    return max(makespan, int(instance.arrival_times.max())) + 1


class StateAscent:
    """Ascent on prices of states: the dual function, and the best prices found so far.

    In state (m, r) a running request holds m tokens and has r rounds to go. Each state has a
    price at each epoch, the time between two rounds. The dual function is the lower bound on total
    latency that the prices prove. The first prices come from a smaller ascent, in which state
    prices are weighted sums of a few fixed tables (`hindsight.prices.state_tables`). A table has a
    number for each state, and the variables of this ascent are the weight of each table at each
    epoch. Each call of `improve` continues the ascent from the best prices so far. `width`
    consecutive epochs share one row of prices.

    Parameters
    ----------
    instance : Instance
        The problem.
    makespan : int
        Makespan of a known schedule, in rounds. Epochs up to this round, or up to the last arrival
        if that is later, have prices.
    threads : int, default 1
        Number of threads. Each thread computes its own part of the epochs, so the number of threads
        does not change the prices.
    last : int64 array or None, default None
        Last start with which each request is on time, shape (n,). If given, the dual function is a
        lower bound on ``penalty`` * (number of late requests) instead of total latency.
    penalty : float, default inf
        Cost of a late request.
    must_stop : Callable[[], bool], default never
        Called at every step of the first ascent, the one on weights of tables; returning True ends
        it.

    Attributes
    ----------
    prices : float64 array, shape (rows, states)
        The best prices so far, in rounds of latency: one row for each `width` epochs.
    width : int
        Number of consecutive epochs that share a row of prices; 1 at first.
    """

    def __init__(
        self,
        instance: Instance,
        makespan: int,
        *,
        threads: int = 1,
        last: IntArray | None = None,
        penalty: float = math.inf,
        must_stop: Callable[[], bool] = never,
    ) -> None:
        s, o, a, limit = instance.alone().columns
        self._copies, n = state_copies(s, o, limit), len(instance)
        states = self._states = ordered_states(self._copies)
        epochs = _epochs(instance, makespan)
        # In state (m, r) a request holds m tokens and has r rounds to go. ``number[m, r]`` is
        # the index of this state. ``state_of[i, age]`` is the index of the state in which request i
        # is when it has run for ``age`` rounds.
        number = np.zeros_like(self._copies)
        number[states.held, states.rounds] = np.arange(len(states.held))
        state_of = np.zeros((n, int(o.max())), dtype=np.int64)
        for own, prompt, output in zip(state_of, s.tolist(), o.tolist(), strict=True):
            ages = np.arange(output)
            own[:output] = number[prompt + ages, output - ages]
        final = np.full_like(a, epochs) if last is None else np.minimum(last, epochs)
        unit = float(last is None)
        self._requests = PricedStarts(state_of, o, a, final, epochs, unit, penalty)
        self._weights, self._costs = np.zeros((n, epochs + 1)), np.zeros(epochs + 1)
        self._mass = np.zeros((len(states.held), epochs))
        self._epochs, self._replicas, self.width = epochs, instance.replicas, 1
        self._threads = threads
        self._map: Any = map if threads == 1 else ThreadPoolExecutor(threads).map
        # A state table assigns a fixed number to every state. The variables of this ascent are
        # prices: one for each table and epoch (time between two rounds), at first 0. They determine
        # the prices of states. To get the price of a state at an epoch, multiply the price of each
        # table at this epoch by the number that the table assigns to the state, and add up these
        # products.
        tables = first_tables(states, s)
        best = Best(np.zeros((len(tables), epochs)))
        stage = Stage(TABLE_STEPS, (4.0 + 0.1 * n, 0.1), (0.5 + 0.03 * n, 0.02))

        def evaluate(x: FloatArray, heat: float) -> Evaluation:
            """Evaluate the dual function at prices ``x`` of state tables, shape (tables, T).

            The dual function is the lower bound on total latency that prices of states prove. A
            table assigns a fixed number to every state. At an epoch (time between two rounds), the
            price of a state is the sum over the tables of (price ``x`` of the table at the epoch) *
            (number that the table assigns to the state).
            """
            least, mass = self._gibbs(tables.T @ x, heat)
            value = least - self._replicas * float(x.sum())
            return Evaluation(value, math.nan, tables @ mass - float(self._replicas))

        ascend(evaluate, best.x, (stage,), stepped=best, must_stop=must_stop)
        self.prices = np.ascontiguousarray((tables.T @ best.x).T)

    def share(self, width: int) -> None:
        """Let each ``width`` consecutive epochs (times between rounds) share a row of prices.

        Set each shared row to the mean of the prices that these epochs had.
        """
        if width != self.width:
            prices = self._by_epoch(self.prices)
            self.width = width
            self.prices = self._mean(prices)

    def improve(self, steps: int, heat: float = 1.0, must_stop: Callable[[], bool] = never) -> None:
        """Run one stage of Adam from the best prices so far, and keep the best prices it finds.

        Parameters
        ----------
        steps : int
            Number of steps of Adam.
        heat : float, default 1.0
            Factor on the temperatures `HEATS` of start weights and on the step sizes `RATES` of
            Adam.
        must_stop : Callable[[], bool], default never
            Called at every step, which takes some milliseconds; returning True ends the stage.
        """
        best = Best(self.prices)
        heats, rates = ((heat * first, heat * last) for first, last in (HEATS, RATES))
        # ``_count`` is the number of evaluations of the dual function so far in this stage. The
        # first evaluation computes the value as well as the gradient. It also computes `_maxima`
        # exactly: the largest total prices of states that fit into memory together. The maxima of
        # the previous stage are soft, and prices may have changed since then.
        self._count = 0
        stage = Stage(steps + 1, heats, rates)
        ascend(self.evaluate, self.prices, (stage,), stepped=best, must_stop=must_stop)
        self.prices = best.x

    def integer_prices(self) -> tuple[IntArray, IntArray]:
        """Return the best prices rounded down to integers, and the exact capacity W of each epoch.

        Epoch tau is the time between rounds tau and tau + 1. Both arrays are int64, in units of 1 /
        SCALE rounds of latency. Prices have shape (T, M + 1, M + 1), with an entry for each epoch
        tau and each state of m tokens used and r rounds to go. W has shape (T,). W[tau] is the
        largest total price at epoch tau of states that fit into memory together.
        """
        Q = np.zeros((len(self.prices), *self._copies.shape), dtype=np.int64)
        Q[:, self._states.held, self._states.rounds] = np.floor(self.prices * SCALE)
        W = integer_capacities(Q, self._copies)
        return self._by_epoch(Q), self._by_epoch(W)

    def evaluate(self, x: FloatArray, heat: float) -> Evaluation:
        """Return value and gradient of the dual function at prices ``x``, shape (rows, states).

        The dual function is the lower bound on total latency that the prices prove. Each row has
        the prices that `width` consecutive epochs (times between two rounds) share. The value is
        -inf in most evaluations, see `VALUED_EVERY`. The gradient is that of a smooth lower bound
        on the dual function, at temperature ``heat`` (see `hindsight.prices.ascent.Evaluation`).
        """
        least, mass = self._gibbs(np.ascontiguousarray(self._by_epoch(x).T), heat)
        has_value = self._count % VALUED_EVERY == 0
        value = -math.inf
        if has_value:
            hard = self._hard(x)
            value = least - self._replicas * float(hard @ self._lengths())
            if self._count == 0:
                unused = np.zeros(x.shape, dtype=np.bool_)
                self._maxima = SoftMaxima(hard, np.zeros_like(x), unused)
        self._count += 1
        # ``mass`` is the expected number of requests in each state at each epoch. Use its mean over
        # the epochs that share a price, not its sum. Then the size of the gradient, and so the
        # effect of Adam's damping term, does not depend on the number of these epochs.
        shared = np.ascontiguousarray(self._mean(mass.T))
        colder = min(max(CONFIGURATION_HEAT * heat, COLDEST), HOTTEST)
        z = self._marginals(x, shared, colder, refresh=has_value)
        return Evaluation(value, math.nan, shared - self._replicas * z)

    def _gibbs(self, by_state: FloatArray, heat: float) -> tuple[float, FloatArray]:
        """Return the sum of all requests' least costs, and the expected requests in each state.

        A start costs the latency plus the prices of the states that the request passes through. The
        least cost of a request is that of its cheapest start. An array of the shape of the prices
        ``by_state``, (states, T), has the expected number of requests in each state at each epoch
        (time between two rounds), if starts have probabilities proportional to exp(-cost / heat),
        with temperature ``heat``.
        """
        costs, weights, mass = self._costs, self._weights, self._mass
        weights[:] = mass[:] = 0.0
        return gibbs_starts(by_state, self._requests, heat, costs, weights, mass), mass

    def _marginals(self, x: FloatArray, mass: FloatArray, heat: float, refresh: bool) -> FloatArray:
        """Return the expected number of members of a configuration in each state, for each row.

        An epoch is the time between two rounds. A configuration is a multiset of states that fit
        into memory together. Each row of ``x`` has the prices of states at one epoch, or at some
        consecutive epochs. The probability of a configuration is proportional to exp(total price /
        heat), at the prices of the row and the temperature ``heat``. The result has shape (rows,
        states). ``mass`` is the expected number of requests in each state. Unless ``refresh`` is
        True, states in which hardly any request is expected are left out.
        """
        level, z, _ = maxima = self._maxima
        self._share(soft_capacities, x, mass, self._states, heat, maxima, refresh)
        if not np.isfinite(level + z.sum(axis=1)).all():
            # Weights of configurations (sets of states that fit into memory together) are divided
            # by exp(level / heat), where ``level`` has the soft maximum of each row at the previous
            # evaluation. After a long step, the new soft maximum may be so far from ``level`` that
            # the sum of weights overflows. Then set ``level`` to the exact maxima, and compute all
            # weights again.
            hard = self._hard(x)
            level[:] = hard
            self._share(soft_capacities, x, mass, self._states, max(heat, 0.1), maxima, True)
            lost = ~np.isfinite(level + z.sum(axis=1))
            # ``lost`` marks the rows of prices for which sums of weights still overflow. The
            # gradient is ``mass`` (expected requests in each state) minus ``z`` times the number of
            # replicas. Set ``z`` so that the gradient is 0 in these rows. Then their prices stay
            # the same.
            z[lost], level[lost] = mass[lost] / self._replicas, hard[lost]
        return z

    def _hard(self, x: FloatArray) -> FloatArray:
        """Return, for each row of prices ``x``, the largest total price of a configuration.

        A configuration is a multiset of states that fit into memory together. Each row has the
        prices of states at one epoch (time between two rounds), or at some consecutive epochs. The
        price of each state is first rounded to a multiple of 1 / SCALE.
        """
        W = np.zeros(len(x), dtype=np.int64)
        self._share(capacities, np.rint(x * SCALE).astype(np.int64), self._states, W)
        return W / SCALE

    def _share(self, kernel: Callable[..., None], *arguments: object) -> None:
        """Run a compiled function over all rows of prices, in several threads.

        Each row has the prices of one epoch (time between two rounds), or of some consecutive
        epochs. Each of n threads calls ``kernel`` with ``arguments``, its number k = 0 .. n - 1,
        and n. The kernel then computes the rows k, k + n, k + 2 n and so on.
        """
        threads = self._threads
        list(self._map(lambda first: kernel(*arguments, first, threads), range(threads)))

    def _by_epoch(self, shared: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return one row per epoch: repeat each row of ``shared`` for all epochs that share it.

        Each `width` consecutive epochs (times between two rounds) share a row.
        """
        return np.repeat(shared, self.width, axis=0)[: self._epochs]

    def _mean(self, values: FloatArray) -> FloatArray:
        """Return the mean of the rows of ``values`` over each group of epochs that share prices.

        ``values`` has one row per epoch (time between two rounds). The result has one row for each
        group of `width` consecutive epochs.
        """
        sums = np.add.reduceat(values, np.arange(0, self._epochs, self.width), axis=0)
        return np.asarray(sums / self._lengths()[:, None], dtype=np.float64)

    def _lengths(self) -> FloatArray:
        """Return the number of epochs (times between two rounds) that share each row of prices.

        It is `width`, or less for the last row.
        """
        firsts = np.arange(0, self._epochs, self.width)
        return np.diff(firsts, append=self._epochs).astype(np.float64)
