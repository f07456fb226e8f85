"""Soft minima over starts, compiled: the half of the dual that the ascents share.

For epoch prices, request i pays P_i(t) for starting at t (see `hindsight.configurations.prices`).
Gibbs weights exp(-P_i(t) / temperature), normalised over t, are the gradient of a smooth stand-in
for the minimum over t, which they approach as the temperature falls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from hindsight.runtime.compilation import njit
from instances.arrays import FloatArray, IntArray


class PricedStarts(NamedTuple):
    """Requests, and the states they pass through.

    Attributes
    ----------
    state_of : int64 array, shape (n, largest o)
        Where the state of request i at each age stands among the states that occur; 0 beyond its
        own output length.
    output_lengths, arrival_times : int64 array, shape (n,)
        Rounds.
    epochs : int
        T: starts up to it are priced.
    """

    state_of: IntArray
    output_lengths: IntArray
    arrival_times: IntArray
    epochs: int


def priced_starts(
    states: IntArray,
    prompt_lengths: IntArray,
    output_lengths: IntArray,
    arrival_times: IntArray,
    epochs: int,
) -> PricedStarts:
    """The columns of requests for the kernels below.

    Parameters
    ----------
    states : int64 array
        Rows (m, r, copies), as `hindsight.configurations.tables.ordered_states` gives them.
    prompt_lengths, output_lengths, arrival_times : int64 array
        Shape (n,).
    epochs : int
        T.
    """
    number = {(int(m), int(r)): position for position, (m, r, _) in enumerate(states.tolist())}
    positions = np.zeros((len(prompt_lengths), int(output_lengths.max())), dtype=np.int64)
    lengths = zip(prompt_lengths.tolist(), output_lengths.tolist(), strict=True)
    for i, (s, o) in enumerate(lengths):
        positions[i, :o] = [number[s + age, o - age] for age in range(o)]
    return PricedStarts(positions, output_lengths, arrival_times, epochs)


@njit
def gibbs_starts(
    Q: FloatArray, requests: PricedStarts, temperature: float, costs: FloatArray, x: FloatArray
) -> float:
    """Costs of all starts, their Gibbs weights, and the sum of the (hard) minima."""
    state_of, o, a, T = requests
    total = 0.0
    for i in range(len(o)):
        x[i, :] = 0.0
        lo = a[i]
        for t in range(lo, T + 1):
            costs[i, t] = t + o[i] - a[i]
        for age in range(o[i]):
            row = Q[state_of[i, age]]
            for t in range(lo, T - age):
                costs[i, t] += row[t + age]
        best = costs[i, lo]
        for t in range(lo, T + 1):
            best = min(best, costs[i, t])
        total += best
        mass = 0.0
        for t in range(lo, T + 1):
            d = (costs[i, t] - best) / temperature
            x[i, t] = np.exp(-d) if d < 16.0 else 0.0
            mass += x[i, t]
        for t in range(lo, T + 1):
            x[i, t] *= 1.0 / mass
    return total


@njit
def scatter_starts(x: FloatArray, requests: PricedStarts, mass: FloatArray) -> None:
    """mass[state, tau]: how much request is in each state at each epoch, in place."""
    state_of, o, a, T = requests
    mass[:] = 0.0
    for i in range(len(o)):
        first, last = T, -1
        for t in range(a[i], T):
            if x[i, t] > 0.0:
                first, last = min(first, t), t
        for age in range(o[i]):
            row = mass[state_of[i, age]]
            for t in range(first, min(last + 1, T - age)):
                row[t + age] += x[i, t]
