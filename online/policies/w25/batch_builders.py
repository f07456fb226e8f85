"""Choosing one batch of small F(X) = (sum of outputs) / |X|^2 that fits ([W25] Algorithms 2 to 5).

Each builder takes the prompts, the outputs and M, and returns the positions of a non-empty batch.
A batch fits when its peaks s + o add up to at most M, which [W25] asks throughout Section 5 and
which is stricter than the condition of Algorithm 1, that started together the requests stay
within M in every round; `exact_batch` can take either. Every request must have s + o <= M.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
import numpy.typing as npt

from instances import InvalidValueError
from instances.arrays import IntArray

Fit = Literal["peaks", "rounds"]

LARGEST_TABLE = 2_000_000_000
"""Cells a dynamic program may fill: about ten seconds' work."""

_INFINITY = np.iinfo(np.int64).max // 4


def greedy_fill(peaks: IntArray, memory_limit: int) -> IntArray:
    """Positions taken when peaks are offered in order and each that still fits is taken.

    Everything up to a refusal is taken at once, then what cannot fit any more is dropped.
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


class _SubsetTable:
    """The least sum of values of k requests over the sum of their weights, and who they are.

    ``sums[k, w]`` is that least sum. One bit a cell and request tells whether the request is
    among them, so no index sets are carried along: O(n k w) time, n k w / 8 bytes. With
    ``in_rounds`` a request of value v taken as the c-th of weight sum w needs w + c v <= limit.
    """

    def __init__(
        self, weights: IntArray, values: IntArray, limit: int, largest: int, *, in_rounds: bool
    ) -> None:
        # Longest first, so that the request just taken is the first to end.
        self._order = np.argsort(-values, kind="stable") if in_rounds else np.arange(len(weights))
        self._weights = weights
        cells = len(weights) * largest * (limit + 1)
        if cells > LARGEST_TABLE:
            raise InvalidValueError(
                "batch",
                "requests x batch size x memory",
                cells,
                f"is above {LARGEST_TABLE}: too large for a dynamic program",
            )
        self.sums = np.full((largest + 1, limit + 1), _INFINITY, dtype=np.int64)
        self.sums[0, 0] = 0
        self._steps: list[tuple[npt.NDArray[np.uint8], int]] = []
        reach = 0
        for step, index in enumerate(self._order):
            weight, value = int(weights[index]), int(values[index])
            reach = min(limit, reach + weight)
            rows, width = min(step + 1, largest), max(0, reach - weight + 1)
            candidate = self.sums[:rows, :width] + value
            if in_rounds:
                held = (np.arange(1, rows + 1) * value)[:, None] + np.arange(weight, reach + 1)
                candidate[held > limit] = _INFINITY
            target = self.sums[1 : rows + 1, weight : reach + 1]
            better = candidate < target
            np.copyto(target, candidate, where=better)
            self._steps.append((np.packbits(better, axis=1), width))

    def members(self, size: int, weight: int) -> IntArray:
        """The requests behind a cell, ascending."""
        found: list[int] = []
        for index, (bits, width) in zip(self._order[::-1], self._steps[::-1], strict=True):
            column = weight - int(self._weights[index])
            if not 0 < size <= len(bits) or not 0 <= column < width:
                continue
            if bits[size - 1, column >> 3] >> (7 - (column & 7)) & 1:
                found.append(int(index))
                size, weight = size - 1, column
        return np.array(sorted(found), dtype=np.int64)


def _least_quality(table: _SubsetTable) -> tuple[int, int]:
    """Size and weight of a cell of least F, ties to the larger batch; compared as fractions."""
    least = table.sums.min(axis=1)
    size = 0
    for k in range(1, len(least)):
        if least[k] >= _INFINITY:
            continue
        if size == 0 or int(least[k]) * size**2 <= int(least[size]) * k**2:
            size = k
    return size, int(np.argmin(table.sums[size]))


def _largest_size(weights: IntArray, limit: int) -> int:
    sums = np.cumsum(np.sort(weights))
    return int(np.searchsorted(sums, limit, side="right"))


def exact_batch(
    prompts: IntArray, outputs: IntArray, memory_limit: int, fit: Fit = "peaks"
) -> IntArray:
    """A batch of least F, of those the largest, by dynamic programming ([W25] Algorithm 2).

    The least sum of outputs of k requests is tabled over the memory they take: the sum of their
    peaks, or with ``fit="rounds"`` the sum of their prompts, requests taken longest first, where
    the c-th fits if the prompts and c times its output do: that is Algorithm 1's own condition.

    Raises
    ------
    InvalidValueError
        The table would be too large.
    """
    in_rounds = fit == "rounds"
    weights = prompts if in_rounds else prompts + outputs
    largest = _largest_size(prompts + 1 if in_rounds else weights, memory_limit)
    table = _SubsetTable(weights, outputs, memory_limit, largest, in_rounds=in_rounds)
    return table.members(*_least_quality(table))


def scaled_batch(
    prompts: IntArray,
    outputs: IntArray,
    memory_limit: int,
    epsilon: float = 0.1,
    precision: int = 100,
) -> IntArray:
    """A batch of small F by dynamic programming on rounded memory ([W25] Algorithm 3).

    Peaks and M are divided by lambda = max(1, epsilon M / precision) and rounded down. Every batch
    that fits still does, so F is at most the least; but the peaks of the batch found may exceed M,
    by less than lambda for each request: the paper's (1 + epsilon) holds for F, not for
    feasibility.
    """
    factor = max(1.0, epsilon * memory_limit / precision)
    weights = np.floor((prompts + outputs) / factor).astype(np.int64)
    limit = int(memory_limit / factor)
    largest = _largest_size(weights, limit)
    table = _SubsetTable(weights, outputs, limit, largest, in_rounds=False)
    return table.members(*_least_quality(table))


def local_swap(
    prompts: IntArray, outputs: IntArray, memory_limit: int, start: IntArray
) -> IntArray:
    """Exchange one request at a time while F falls ([W25] Algorithm 4 from line 9 on).

    The size stays, so F falls exactly when the output that comes in is the smaller. The paper
    scans pairs in no stated order; here the exchange that lowers the sum of outputs most is made,
    ties to the smallest peak coming in. It ends where no exchange helps, hence never worse than
    it began. O(n) an exchange.
    """
    peaks = prompts + outputs
    # Nothing can come in that would not fit beside the smallest others.
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
    """Smallest peaks first, then `local_swap` ([W25] Algorithm 4)."""
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
    """Requests below two quantiles, then whatever fits ([W25] Algorithm 5).

    The quantiles of s + o and of o are those of a random half. Requests below both are taken
    shortest output first, then the others by o / (s + o), each if it still fits. Quantiles
    interpolate linearly, which the paper leaves open. O(n log n).
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
    # By output, then stably by efficiency: the paper sorts the same list twice.
    rest = rest[np.lexsort((outputs[rest], outputs[rest] / peaks[rest]))]
    room = memory_limit - int(peaks[first].sum())
    rest = rest[greedy_fill(peaks[rest], room)]
    return np.sort(np.concatenate([first, rest]))
