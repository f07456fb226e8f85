"""Limits on the cost of checking a certificate, whose author may be hostile.

The memory of a check grows with the size of the file, not with the numbers in it. A schedule is
checked only in the rounds in which requests complete, where memory is largest. Prices are stored
only up to the last epoch that has one. Tables that grow with the memory limit M are limited by
`LARGEST_TABLE_MEMORY`. Run time is measured in array entries visited. Visits are counted before
they are made, and limited by `LARGEST_WORK`. A proof by paths may cause far more work than its size
suggests, so a short one may use only a share of the limits (`part_of`).
"""

LARGEST_FILE = 1 << 26
"""Largest size of a certificate file in bytes, before and after decompression."""

XZ_MEMORY = 1 << 28
"""Largest memory that the decompression of a certificate file may use, in bytes."""

LARGEST_TABLE_MEMORY = 1024
"""Largest memory limit M, in tokens, for prices of states: arrays have (M + 1)^2 entries."""

LARGEST_EPOCH = 10_000_000
"""Limit on each of three counts: epochs with prices, prices in total, stored costs of starts."""

LARGEST_AXIS = 4_000_000
"""Limit on each of two counts while a graph of paths is built: nodes in one batch, and flags that
mark which requests complete."""

LARGEST_WORK = 20_000_000_000
"""Largest number of array entries that a check may visit. This takes some minutes."""

CALL = 2_000
"""Work counted as the overhead of a few numpy calls on any arrays, in array entries visited."""

PLAIN = 10
"""Work counted for each number that a Python loop visits, in array entries that numpy visits."""

LARGEST_LAYER = 10_000_000
"""Largest number of integers in all partial schedules that a search stores for one epoch."""

MOST_STAGES = 10_000
"""Largest number of stages of a `PathProof`, each of which may build a new graph of paths."""

LARGEST_GRAPH = 16_000_000
"""Largest number of nodes that are built for one graph of paths."""

LONGEST_PATH = 100_000
"""Largest number of epochs in a graph of paths. Each takes about 900 bytes besides its nodes."""

LARGEST_TABLES = 1 << 26
"""Largest number of entries of tables of largest prices (`path_states`) stored at one time."""

LARGEST_WINDOW, WIDEST_CELL = 1 << 22, 1 << 24
"""Largest number of points of a time grid: LARGEST_WINDOW in the time span that is examined for one
request, WIDEST_CELL in one time cell with a constant price."""

LARGEST_CELLS, LARGEST_TIME = 1 << 18, 10_000
"""LARGEST_CELLS limits the time cells with a price, LARGEST_TIME the entries of a batch time."""

FINEST_STEP, COARSEST_STEP = 1024, 16
"""The step of a time grid is from d0 / 1024 to 16 d0, with d0 the fixed time of a round."""

SPREADS = (1.05, 2.0)
"""Least and largest ``spread``: longest over shortest of the round lengths that share a tangent."""

FULL_SIZE = 20_000
"""A `PathProof` gets the full limits if it and its instance have at least this many numbers."""

LEAST_SIZE = 100
"""A `PathProof` of fewer numbers gets the limits of a proof with this count of numbers."""


def part_of(limit: int, size: int) -> int:
    """Return the part of ``limit`` that a `PathProof` of ``size`` numbers may use.

    The part grows in proportion to ``size``, the count of numbers in the proof and its instance,
    up to the full limit at `FULL_SIZE`. Proofs written by this package use at most a quarter of
    their part.
    """
    return limit * min(FULL_SIZE, max(LEAST_SIZE, size)) // FULL_SIZE
