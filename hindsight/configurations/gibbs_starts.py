"""Soft minima over starts, compiled: the half of the dual that the ascents share.

For epoch prices, request i pays P_i(t) for starting at t (see `hindsight.configurations.prices`).
Gibbs weights exp(-P_i(t) / temperature), normalised over t, are the gradient of a smooth stand-in
for the minimum over t, which they approach as the temperature falls.
"""

from __future__ import annotations

import numpy as np

from hindsight.runtime.compilation import njit
from instances.arrays import FloatArray, IntArray


def state_positions(
    states: IntArray, prompt_lengths: IntArray, output_lengths: IntArray
) -> IntArray:
    """Where the state of request i at each age stands among ``states``.

    Parameters
    ----------
    states : int64 array
        Rows (m, r, copies), as `hindsight.configurations.tables.ordered_states` gives them.
    prompt_lengths : IntArray
        Shape (n,).
    output_lengths : IntArray
        Shape (n,).

    Returns
    -------
    int64 array, shape (n, largest output length)
        0 beyond a request's own output length.
    """
    number = {(int(m), int(r)): position for position, (m, r, _) in enumerate(states.tolist())}
    positions = np.zeros((len(prompt_lengths), int(output_lengths.max())), dtype=np.int64)
    lengths = zip(prompt_lengths.tolist(), output_lengths.tolist(), strict=True)
    for i, (s, o) in enumerate(lengths):
        positions[i, :o] = [number[s + age, o - age] for age in range(o)]
    return positions


@njit
def gibbs_starts(
    Q: FloatArray,
    state_of: IntArray,
    o: IntArray,
    a: IntArray,
    earliest: IntArray,
    weights: FloatArray,
    T: int,
    temperature: float,
    costs: FloatArray,
    x: FloatArray,
) -> float:
    """Costs of all starts, their Gibbs weights, and the weighted sum of the (hard) minima."""
    total = 0.0
    for i in range(len(o)):
        x[i, :] = 0.0
        if weights[i] == 0.0:
            continue
        lo = earliest[i]
        for t in range(lo, T + 1):
            costs[i, t] = t + o[i] - a[i]
        for age in range(o[i]):
            row = Q[state_of[i, age]]
            for t in range(lo, T - age):
                costs[i, t] += row[t + age]
        best = costs[i, lo]
        for t in range(lo, T + 1):
            best = min(best, costs[i, t])
        total += weights[i] * best
        mass = 0.0
        for t in range(lo, T + 1):
            d = (costs[i, t] - best) / temperature
            x[i, t] = np.exp(-d) if d < 16.0 else 0.0
            mass += x[i, t]
        for t in range(lo, T + 1):
            x[i, t] *= weights[i] / mass
    return total


@njit
def scatter_starts(
    x: FloatArray, state_of: IntArray, o: IntArray, a: IntArray, T: int, mass: FloatArray
) -> None:
    """mass[state, tau]: how much request is in each state at each epoch, in place."""
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
