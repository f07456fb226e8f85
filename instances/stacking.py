"""Stays in the KV cache as bands upon one another."""

from __future__ import annotations

import numpy as np

from instances.arrays import IntArray


def stacked(
    begin: IntArray, held: IntArray, rounds: IntArray
) -> list[tuple[int, IntArray, IntArray]]:
    """(row, bottom, top) of each stay, in order of stacking; both in tokens, shape (rounds,).

    The earlier its start the lower a band, then the later its end. The order of two bands never
    changes, and none lies above free memory: what a completion frees is taken from the top.

    Parameters
    ----------
    begin, held, rounds : int64 array
        A stay holds ``held + k`` tokens in its k-th round, which is ``begin + k``; shape (stays,).
    """
    end = begin + rounds
    height = np.zeros(int(end.max(initial=0)) + 1, dtype=np.int64)
    bands = []
    for row in np.lexsort((-end, begin)).tolist():
        where = slice(int(begin[row]) + 1, int(end[row]) + 1)
        bottom = height[where].copy()
        top = bottom + int(held[row]) + np.arange(1, len(bottom) + 1)
        height[where] = top
        bands.append((row, bottom, top))
    return bands
