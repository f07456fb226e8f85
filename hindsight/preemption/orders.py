"""Preemptive schedules: every request in turn takes the earliest rounds that its next token fits.

An order of the requests is a schedule: the first request takes rounds a + 1, a + 2, ..., and each
later one the earliest rounds, in order of time, in which the memory left by those before it holds
its next token. Orders are annealed.

Every such schedule is feasible: a round takes a token only where it fits beside all before it. That
some order leads to an optimum is not claimed: a request inserted early may take rounds in which an
optimal schedule runs others. `hindsight.preemption.state_search` covers what orders miss.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from hindsight.runtime.compilation import njit
from instances import Instance, PreemptiveSchedule
from instances.arrays import IntArray


@njit
def place_in_order(
    order: IntArray,
    profile: IntArray,
    arrival: IntArray,
    prompt: IntArray,
    output: IntArray,
    offset: IntArray,
    limit: int,
    rounds: IntArray,
    stop_above: int,
) -> int:
    """Insert requests in ``order`` one after another; returns their total latency.

    ``profile[r]`` is the memory of round r, and grows; ``rounds[offset[i] + k - 1]`` becomes the
    round of the k-th token of request i. Gives up, with -1, above ``stop_above``.
    """
    total = 0
    for i in order:
        r = arrival[i]
        for k in range(output[i]):
            tokens = prompt[i] + k + 1
            r += 1
            while profile[r] + tokens > limit:
                r += 1
            profile[r] += tokens
            rounds[offset[i] + k] = r
        total += r - arrival[i]
        if total > stop_above:
            return -1
    return total


@njit
def anneal_order(
    order: IntArray,
    arrival: IntArray,
    prompt: IntArray,
    output: IntArray,
    offset: IntArray,
    limit: int,
    length: int,
    draws: npt.NDArray[np.float64],
    hot: float,
    cold: float,
    reach: int,
    best_rounds: IntArray,
) -> int:
    """Simulated annealing over orders by swaps and moves; returns the best total latency.

    ``draws`` has four uniform numbers of [0, 1) for each move; ``order`` becomes the best one.
    """
    n, moves = len(order), len(draws)
    profile = np.zeros(length, dtype=np.int64)
    rounds = np.zeros(len(best_rounds), dtype=np.int64)
    far = 1 << 60
    total = place_in_order(order, profile, arrival, prompt, output, offset, limit, rounds, far)
    best = total
    best_rounds[:] = rounds
    best_order = order.copy()
    trial = order.copy()
    for move in range(moves):
        heat = hot * (cold / hot) ** (move / moves)
        at = int(draws[move, 0] * n)
        to = at + int(draws[move, 1] * (2 * reach + 1)) - reach
        if to < 0 or to >= n or to == at:
            continue
        trial[:] = order
        if draws[move, 2] < 0.5:
            trial[at], trial[to] = order[to], order[at]
        elif at < to:
            trial[at:to] = order[at + 1 : to + 1]
            trial[to] = order[at]
        else:
            trial[to + 1 : at + 1] = order[to:at]
            trial[to] = order[at]
        allowed = total - heat * np.log(1.0 - draws[move, 3])
        profile[:] = 0
        cost = place_in_order(
            trial, profile, arrival, prompt, output, offset, limit, rounds, int(allowed)
        )
        if cost < 0:
            continue
        total = cost
        order[:] = trial
        if cost < best:
            best = cost
            best_rounds[:] = rounds
            best_order[:] = trial
    order[:] = best_order
    return best


class OrderSearch:
    """Annealed orders, from smallest volume first."""

    def __init__(self, instance: Instance, seed: int) -> None:
        outputs = instance.output_lengths
        self._instance = instance
        self._rng = np.random.default_rng(seed)
        self._order = np.argsort(instance.volumes, kind="stable").astype(np.int64)
        self._offset = np.concatenate([[0], np.cumsum(outputs)[:-1]]).astype(np.int64)
        # After the last arrival a token waits only in rounds that hold others' tokens.
        self._length = int(instance.arrival_times.max()) + int(outputs.sum()) + 2

    def anneal(self, moves: int, hot: float, cold: float) -> PreemptiveSchedule:
        """The best schedule of one annealing, which goes on from the best order of the last."""
        instance = self._instance
        rounds = np.zeros(int(instance.output_lengths.sum()), dtype=np.int64)
        anneal_order(
            self._order,
            instance.arrival_times,
            instance.prompt_lengths,
            instance.output_lengths,
            self._offset,
            instance.memory_limit,
            self._length,
            *(self._rng.random((moves, 4)), hot, cold, max(2, len(instance) // 2), rounds),
        )
        return PreemptiveSchedule.from_rounds(instance, np.split(rounds, self._offset[1:]))
