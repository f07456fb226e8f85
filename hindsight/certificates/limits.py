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
"""Largest memory limit M, in tokens, for state prices, whose tables have (M + 1)^2 entries."""

LARGEST_EPOCH = 10_000_000
"""Largest number of entries of a table of prices, of costs of starts, or of remaining rounds."""

LARGEST_AXIS = 4_000_000
"""Largest number of path-graph nodes built at once, and of flags in a table of request sets."""

LARGEST_WORK = 20_000_000_000
"""Largest number of array entries that a check may visit. Visiting this many takes some minutes."""

CALL = 2_000
"""Work counted for the overhead of a few numpy calls. Unit: array entries that numpy visits."""

PLAIN = 10
"""Work counted for a step of a Python loop. Unit: array entries that numpy visits."""

LARGEST_LAYER = 10_000_000
"""Largest number of integers stored in all partial schedules of one epoch (between two rounds)."""

MOST_STAGES = 10_000
"""Largest number of stages of a `PathProof`, each of which may build a new graph of paths."""

LARGEST_GRAPH = 16_000_000
"""Largest number of nodes that are built for one graph of paths."""

LONGEST_PATH = 100_000
"""Limit on epochs (times between rounds) of a path graph. Each needs 900 bytes and nodes."""

LARGEST_TABLES = 1 << 26
"""Largest number of entries that the price tables of `path_states` have together at one time."""

LARGEST_WINDOW, WIDEST_CELL = 1 << 22, 1 << 24
"""Largest number of points of a time grid. LARGEST_WINDOW: in the time span that is examined for
one request. WIDEST_CELL: in one time cell (interval with one price)."""

LARGEST_CELLS, LARGEST_TIME = 1 << 18, 10_000
"""Largest number of time cells (intervals with one price), and length of lists in a batch time."""

FINEST_STEP, COARSEST_STEP = 1024, 16
"""Steps of time grids: from d0 / FINEST_STEP to COARSEST_STEP * d0 (d0: overhead of a round)."""

FULL_SIZE = 20_000
"""A `PathProof` with this many integers, in it and in its instance, may use the full limits."""

LEAST_SIZE = 100
"""With fewer integers than this, a `PathProof` may use as much as with this number (`part_of`)."""


def part_of(limit: int, size: int) -> int:
    """Return how much of ``limit``, a constant above, the check of a `PathProof` may use.

    ``size`` is the number of integers in the proof and its instance. With `FULL_SIZE` or more, the
    check may use the whole limit. With fewer, its share of the limit is ``size`` / `FULL_SIZE`, but
    at least `LEAST_SIZE` / `FULL_SIZE`. The proofs that this package writes use at most a quarter
    of what is allowed.
    """
    return limit * min(FULL_SIZE, max(LEAST_SIZE, size)) // FULL_SIZE
