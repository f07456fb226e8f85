"""Choose one batch X of small F(X) = (sum of outputs) / |X|^2 that fits ([W25] Algorithms 2 to 5).

Each function takes the prompt lengths s, the output lengths o and the memory M. It returns the
positions of a non-empty batch of requests. A batch fits if the sum of its peaks s + o is at most M.
[W25] requires this throughout Section 5. Algorithm 1 requires less: that the requests, if they all
start together, stay within M in every round. Every request must have s + o <= M.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from instances import InvalidValueError
from instances.arrays import IntArray

LARGEST_TABLE = 2_000_000_000
"""Largest number of cells of the dynamic program in `least_f`. These take about ten seconds."""

_INFINITY = np.iinfo(np.int64).max // 4


def greedy_fill(peaks: IntArray, memory_limit: int) -> IntArray:
    """Take requests in the given order if their peaks still fit in M. Return their positions.

    ``peaks`` has the peak memory of each request, in tokens. The peaks of the chosen requests sum
    to at most ``memory_limit``. A request that does not fit is skipped. Each step takes all
    requests up to the next one that does not fit, then drops all requests whose peak exceeds the
    memory left.
    """
    candidates = np.arange(len(peaks))
    taken = [candidates[:0]]
    room = memory_limit
    while len(candidates):
        sums = np.cumsum(peaks[candidates])
        count = int(np.searchsorted(sums, room, side="right"))
        taken.append(candidates[:count])
        if count:
            room -= int(sums[count - 1])
        rest = candidates[count + 1 :]
        candidates = rest[peaks[rest] <= room]
    return np.concatenate(taken)


def least_f(weights: IntArray, outputs: IntArray, limit: int) -> IntArray:
    """Return the positions of a batch of least F among those with a total weight <= ``limit``.

    F is (sum of outputs) / (number of requests)^2. Weights are peak memories, perhaps rounded. Of
    several batches of least F, one with the most requests is returned.

    The method is a dynamic program. In its table, ``sums[k, w]`` is the least sum of outputs of k
    requests of total weight w. For each request and cell of the table, one bit records whether the
    request is among these k. Time is O(n k w) and memory n k w / 8 bytes, for n requests, batches
    of at most k requests, and w = ``limit``.

    Raises
    ------
    InvalidValueError
        The table has more than `LARGEST_TABLE` cells.
    """
    largest = int(np.searchsorted(np.cumsum(np.sort(weights)), limit, side="right"))
    cells = len(weights) * largest * (limit + 1)
    if cells > LARGEST_TABLE:
        reason = f"is above {LARGEST_TABLE}: too large for a dynamic program"
        raise InvalidValueError("batch", "requests x batch size x memory", cells, reason)
    sums = np.full((largest + 1, limit + 1), _INFINITY, dtype=np.int64)
    sums[0, 0] = 0
    steps: list[npt.NDArray[np.uint8]] = []
    reach = 0
    for step, (weight, output) in enumerate(zip(weights.tolist(), outputs.tolist(), strict=True)):
        reach = min(limit, reach + weight)
        rows, width = min(step + 1, largest), max(0, reach - weight + 1)
        candidate = sums[:rows, :width] + output
        target = sums[1 : rows + 1, weight : reach + 1]
        better = candidate < target
        np.copyto(target, candidate, where=better)
        steps.append(np.packbits(better, axis=1))
    least = sums.min(axis=1).tolist()
    size = 0
    for k in range(1, len(least)):
        # ``size`` is the number of requests of the best batch so far. Values of F are compared
        # exactly. Of batches with equal F, the one with more requests is taken.
        if least[k] < _INFINITY and (not size or least[k] * size**2 <= least[size] * k**2):
            size = k
    found: list[int] = []
    weight = int(np.argmin(sums[size]))
    for index in reversed(range(len(weights))):
        bits, column = steps[index], weight - int(weights[index])
        if not 0 < size <= len(bits) or not 0 <= column < 8 * bits.shape[1]:
            continue
        if bits[size - 1, column >> 3] >> (7 - (column & 7)) & 1:
            found.append(index)
            size, weight = size - 1, column
    return np.array(found[::-1], dtype=np.int64)


def exact_batch(prompts: IntArray, outputs: IntArray, memory_limit: int) -> IntArray:
    """Return the positions of a batch of least F, by dynamic programming ([W25] Algorithm 2).

    F is (sum of outputs) / (number of requests)^2. The peaks s + o of the batch sum to at most M.
    Of several batches of least F, one with the most requests is returned.
    """
    return least_f(prompts + outputs, outputs, memory_limit)


def scaled_batch(
    prompts: IntArray,
    outputs: IntArray,
    memory_limit: int,
    epsilon: float = 0.1,
    precision: int = 100,
) -> IntArray:
    """Return the positions of a batch of small F, with memory rounded ([W25] Algorithm 3).

    F is (sum of outputs) / (number of requests)^2. The peaks (prompt + output length) of requests
    and the memory M are divided by lambda = max(1, epsilon M / precision) and rounded down. Every
    batch that fits in M also fits after rounding. So F of the result is at most the least F of the
    batches that fit. But the peaks of the result may exceed M, by less than lambda for each
    request. So the paper's factor 1 + epsilon holds for F, and the result need not be feasible.
    """
    factor = max(1.0, epsilon * memory_limit / precision)
    weights = np.floor((prompts + outputs) / factor).astype(np.int64)
    return least_f(weights, outputs, int(memory_limit / factor))


def local_swap(
    prompts: IntArray, outputs: IntArray, memory_limit: int, start: IntArray
) -> IntArray:
    """Improve the batch ``start`` by exchanges of one request ([W25] Algorithm 4 from line 9 on).

    F is (sum of outputs) / (number of requests)^2. An exchange replaces a request of the batch by
    another one, so F falls if the new request has a smaller output. The paper does not state the
    order of exchanges. Here each step makes the exchange that lowers the sum of outputs most. Of
    several such exchanges it makes the one whose new request has the smallest peak (prompt + output
    length). The search ends when no exchange lowers F, so the result is never worse than ``start``.
    Cost: O(n) for each exchange, with n requests.
    """
    peaks = prompts + outputs
    # ``pool`` has the requests that could enter the batch: their peak fits into memory together
    # with the smallest peaks of len(start) - 1 requests.
    others = int(np.partition(peaks, len(start) - 1)[: len(start) - 1].sum())
    pool = np.flatnonzero(peaks <= memory_limit - others)
    inside = np.zeros(len(peaks), dtype=bool)
    inside[start] = True
    pool = pool[np.lexsort((pool, outputs[pool], peaks[pool]))]
    pool_peaks, pool_outputs = peaks[pool], outputs[pool]
    batch = np.array(start, dtype=np.int64)
    room = memory_limit - int(peaks[batch].sum())
    while len(pool):
        offered = np.where(inside[pool], _INFINITY, pool_outputs)
        least = np.minimum.accumulate(offered)
        reach = np.searchsorted(pool_peaks, peaks[batch] + room, side="right")
        gain = np.where(reach > 0, outputs[batch] - least[np.maximum(reach, 1) - 1], 0)
        leaving = int(np.argmax(gain))
        if gain[leaving] <= 0:
            break
        entering = int(pool[int(np.argmin(offered[: reach[leaving]]))])
        out = int(batch[leaving])
        inside[out], inside[entering] = False, True
        batch[leaving] = entering
        room += int(peaks[out] - peaks[entering])
    return np.sort(batch)


def swap_batch(prompts: IntArray, outputs: IntArray, memory_limit: int) -> IntArray:
    """Return the positions of a batch of smallest peaks s + o, improved by exchanges.

    The exchanges are those of `local_swap` ([W25] Algorithm 4).
    """
    peaks = prompts + outputs
    order = np.argsort(peaks, kind="stable")
    start = order[greedy_fill(peaks[order], memory_limit)]
    return local_swap(prompts, outputs, memory_limit, start)


def quantile_batch(
    prompts: IntArray,
    outputs: IntArray,
    memory_limit: int,
    rng: np.random.Generator,
    share: float = 0.3,
) -> IntArray:
    """Return the positions of requests below two quantiles, then others ([W25] Algorithm 5).

    Half of the requests are drawn at random. The ``share``-quantiles of their peaks s + o (prompt +
    output length) and of their outputs o are computed. Requests with both numbers at or below the
    quantiles are taken first, the shortest output first. Then the others are taken in order of
    o / (s + o). A request is skipped if it no longer fits into memory. Quantiles are interpolated
    linearly, which the paper leaves open. Cost: O(n log n) for n requests.
    """
    peaks = prompts + outputs
    sample = rng.choice(len(peaks), max(1, len(peaks) // 2), replace=False)
    if len(peaks) == 1:
        return np.zeros(1, dtype=np.int64)
    core = (peaks <= np.quantile(peaks[sample], share)) & (
        outputs <= np.quantile(outputs[sample], share)
    )
    first = np.flatnonzero(core)
    first = first[np.argsort(outputs[first], kind="stable")]
    first = first[greedy_fill(peaks[first], memory_limit)]
    rest = np.setdiff1d(np.arange(len(peaks)), first, assume_unique=True)
    # Sort the other requests by o / (s + o), and equal values by output. The paper has the same
    # order: it sorts by output, then stably by o / (s + o).
    rest = rest[np.lexsort((outputs[rest], outputs[rest] / peaks[rest]))]
    room = memory_limit - int(peaks[first].sum())
    rest = rest[greedy_fill(peaks[rest], room)]
    return np.sort(np.concatenate([first, rest]))
