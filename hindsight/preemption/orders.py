"""Preemptive schedules in which each request in turn takes the earliest rounds that fit.

An order of the requests is a schedule: the first request takes rounds a + 1, a + 2, ..., and each
later one the earliest rounds, in order of time, in which the memory left by those before it holds
its next token. Orders are annealed.

Every such schedule is feasible: a round takes a token only if it fits beside all earlier ones. No
order need lead to an optimum, because a request inserted early may take rounds that an optimal
schedule gives to others. `hindsight.preemption.state_search` covers such schedules.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from hindsight.heuristics.annealing_kernels import move_entry, threshold
from hindsight.runtime.compilation import inner, njit, overwrite
from instances import Instance, PreemptiveSchedule
from instances.arrays import FloatArray, IntArray, RequestColumns


@inner
def place_in_order(
    order: IntArray,
    profile: IntArray,
    requests: RequestColumns,
    offset: IntArray,
    rounds: IntArray,
    stop_above: int,
) -> int:
    """Insert requests in ``order`` one after another; return their total latency.

    ``profile[r]`` is the memory of round r, and grows; ``rounds[offset[i] + k - 1]`` becomes the
    round of the k-th token of request i. Returns -1 once the total exceeds ``stop_above``.
    """
    total = 0
    for i in order:
        r = requests.arrival_times[i]
        for k in range(requests.output_lengths[i]):
            tokens = requests.prompt_lengths[i] + k + 1
            r += 1
            while profile[r] + tokens > requests.memory_limit:
                r += 1
            profile[r] += tokens
            rounds[offset[i] + k] = r
        total += r - requests.arrival_times[i]
        if total > stop_above:
            return -1
    return total


@partial(njit, makes_arrays=True)
def anneal_order(
    order: IntArray,
    requests: RequestColumns,
    offset: IntArray,
    profile: IntArray,
    draws: FloatArray,
    heats: tuple[float, float],
    best_rounds: IntArray,
) -> int:
    """Anneal orders by swaps and moves; return the best total latency.

    ``profile`` is zero and has enough rounds; ``draws`` has four uniform numbers in [0, 1) for each
    move; ``heats`` are the first and last temperatures; ``order`` becomes the best order.
    """
    hot, cold = heats
    n, moves = len(order), len(draws)
    reach = max(2, n // 2)
    rounds = best_rounds.copy()
    total = best = place_in_order(order, profile, requests, offset, rounds, 1 << 60)
    overwrite(best_rounds, rounds)
    best_order = order.copy()
    trial = order.copy()
    for move in range(moves):
        at = int(draws[move, 0] * n)
        to = at + int(draws[move, 1] * (2 * reach + 1)) - reach
        if to < 0 or to >= n or to == at:
            continue
        overwrite(trial, order)
        move_entry(trial, order, at, to, draws[move, 2] < 0.5)
        allowed = threshold(total, hot, cold, move / moves, 1.0 - draws[move, 3])
        profile.fill(0)
        cost = place_in_order(trial, profile, requests, offset, rounds, int(allowed))
        if cost < 0:
            continue
        total = cost
        overwrite(order, trial)
        if cost < best:
            best = cost
            overwrite(best_rounds, rounds)
            overwrite(best_order, trial)
    overwrite(order, best_order)
    return best


class OrderSearch:
    """Search over annealed orders, starting from smallest volume first."""

    def __init__(self, instance: Instance, seed: int) -> None:
        outputs = instance.output_lengths
        self._instance = instance
        self._rng = np.random.default_rng(seed)
        self._order = np.argsort(instance.volumes, kind="stable").astype(np.int64)
        self._offset = np.concatenate([[0], np.cumsum(outputs)[:-1]]).astype(np.int64)
        # After the last arrival, a token waits only in rounds that hold other requests' tokens.
        self._length = int(instance.arrival_times.max()) + int(outputs.sum()) + 2

    def anneal(self, moves: int, hot: float, cold: float) -> PreemptiveSchedule:
        """Return the best schedule of one annealing, which starts from the best order so far."""
        instance = self._instance
        rounds = np.zeros(int(instance.output_lengths.sum()), dtype=np.int64)
        profile = np.zeros(self._length, dtype=np.int64)
        draws = self._rng.random((moves, 4))
        heats = (hot, cold)
        anneal_order(self._order, instance.columns, self._offset, profile, draws, heats, rounds)
        return PreemptiveSchedule.from_rounds(instance, np.split(rounds, self._offset[1:]))
