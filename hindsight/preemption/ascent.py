"""Price ascent for the preemptive bound on its smoothed dual.

`hindsight.preemption.prices` states the bound. Its minimum over the rounds of a request and its
maximum over the sets of a round are made soft at a temperature, by the same dynamic programs with
sums of exponentials in place of minima; the gradient of the smooth minorant is then

    (share of Gibbs paths that hold m in round r)  -  (share of Gibbs sets that hold m in round r),

exactly. Adam (Kingma and Ba, 2015) follows it with prices projected to >= 0 while the temperature
falls. Whatever the floats did, the bound is evaluated again in integers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from hindsight.runtime.adam import Adam
from hindsight.runtime.clock import never
from hindsight.runtime.compilation import njit, overwrite
from instances import Instance
from instances.arrays import FloatArray, RequestColumns


@njit
def path_shares(
    table: FloatArray,
    heat: float,
    requests: RequestColumns,
    shares: FloatArray,
    scratch: FloatArray,
) -> float:
    """Add to ``shares[r, m]`` the Gibbs share of requests holding m in round r.

    Returns the sum of soft V_i; ``scratch`` has shape (2, longest output, T + 1).
    """
    prompt, output, arrival, _ = requests
    soft, flow = scratch[0], scratch[1]
    last = table.shape[0] - 1
    total = 0.0
    for i in range(len(arrival)):
        a, s, o = arrival[i], prompt[i], output[i]
        # Backwards: `costs_to_go` with a soft minimum.
        for k in range(o - 1, -1, -1):
            soft[k, last] = last + o - k - a
            for t in range(last - 1, a - 1, -1):
                then = t + 1.0 - a if k + 1 == o else soft[k + 1, t + 1]
                run = table[t + 1, s + k + 1] + then
                wait = soft[k, t + 1]
                low, high = min(run, wait), max(run, wait)
                soft[k, t] = low - heat * np.log1p(np.exp((low - high) / heat))
        total += soft[0, a]
        # Forwards: how much of the mass has k tokens after round t.
        flow[:o, a : last + 1].fill(0.0)
        flow[0, a] = 1.0
        for t in range(a, last):
            for k in range(min(o, t - a + 1)):
                here = flow[k, t]
                if here < 1e-12:
                    continue
                goes = here * np.exp((soft[k, t] - soft[k, t + 1]) / heat)
                flow[k, t + 1] += goes
                runs = here - goes
                shares[t + 1, s + k + 1] += runs
                if k + 1 < o:
                    flow[k + 1, t + 1] += runs
    return total


@partial(njit, makes_arrays=True)
def set_shares(
    table: FloatArray, heat: float, requests: RequestColumns, shares: FloatArray
) -> float:
    """Subtract from ``shares[r, m]`` the Gibbs share of sets holding m; return sum of soft K_r."""
    prompt, output, arrival, limit = requests
    n = len(arrival)
    ahead = np.zeros((n + 1, limit + 1))
    behind = np.zeros((n + 1, limit + 1))
    weight = np.zeros(limit + 1)
    total = 0.0
    for r in range(1, table.shape[0]):
        # Relative to the highest price of a token, every weight is at most 1.
        slope = 0.0
        for m in range(1, limit + 1):
            slope = max(slope, table[r, m] / m)
        if slope == 0.0:
            continue
        # All exponents stay above -600: no weight of interest underflows.
        warm = max(heat, slope * limit / 600.0)
        for m in range(limit + 1):
            weight[m] = np.exp((table[r, m] - slope * m) / warm)
        for m in range(limit + 1):
            behind[n, m] = np.exp(slope * (m - limit) / warm)
        # Weight of the sets of requests i and later that fit beside m tokens.
        for i in range(n - 1, -1, -1):
            overwrite(behind[i], behind[i + 1])
            most = min(output[i], r - arrival[i])
            for k in range(1, most + 1):
                tokens = prompt[i] + k
                for m in range(limit - tokens + 1):
                    behind[i, m] += weight[tokens] * behind[i + 1, m + tokens]
        whole = behind[0, 0]
        total += warm * np.log(whole) + slope * limit
        # The same of requests before i, which hold m tokens; both together give shares.
        ahead[0].fill(0.0)
        ahead[0, 0] = 1.0 / whole
        for i in range(n):
            overwrite(ahead[i + 1], ahead[i])
            most = min(output[i], r - arrival[i])
            for k in range(1, most + 1):
                tokens = prompt[i] + k
                share = 0.0
                for m in range(limit - tokens + 1):
                    part = ahead[i, m] * weight[tokens]
                    share += part * behind[i + 1, m + tokens]
                    ahead[i + 1, m + tokens] += part
                shares[r, tokens] -= share
    return total


def ascend(
    instance: Instance,
    table: FloatArray,
    iterations: int,
    *,
    heat: tuple[float, float] = (1.0, 0.05),
    step: tuple[float, float] = (0.02, 0.001),
    should_stop: Callable[[], bool] = never,
) -> FloatArray:
    """Improve a price table, shape (T + 1, M + 1), step by step until ``should_stop``."""
    prices = table.copy()
    adam = Adam(prices, damping=1e-9)
    scratch = np.zeros((2, int(instance.output_lengths.max()), len(prices)))
    gradient = np.zeros_like(prices)
    for k in range(iterations):
        if should_stop():
            break
        share = k / max(1, iterations - 1)
        temperature = heat[0] * (heat[1] / heat[0]) ** share
        rate = step[0] * (step[1] / step[0]) ** share
        gradient[:] = 0.0
        path_shares(prices, temperature, instance.columns, gradient, scratch)
        set_shares(prices, temperature, instance.columns, gradient)
        adam.step(gradient, rate)
    return prices
