"""Limits on the cost of checking a certificate, whose author may be hostile.

The memory of a check grows with the size of the file, not with the numbers in it: a schedule is
checked only at completions, prices are stored only up to the last epoch that has one, and tables
that grow with M are limited by `LARGEST_TABLE_MEMORY`. Run time is measured in array entries
visited. Visits are counted before they are made, and limited by `LARGEST_WORK`. A proof by paths
may cause far more work than its size suggests, so a short one may use only a share of the limits
(`part_of`).
"""

LARGEST_FILE = 1 << 26
"""Largest size of a file, and of its content after decompression, in bytes."""

XZ_MEMORY = 1 << 28
"""Memory limit of the decompression of a file, in bytes."""

LARGEST_TABLE_MEMORY = 1024
"""Largest M in tokens for which states are priced: some arrays have (M + 1)^2 entries."""

LARGEST_EPOCH = 10_000_000
"""Most epochs with prices, most prices of states in total, and most priced starts stored."""

LARGEST_AXIS = 4_000_000
"""Most nodes of a graph of paths built in one batch, and most flags that store its sets of
requests."""

LARGEST_WORK = 20_000_000_000
"""Most array entries visited in a check; such a check takes some minutes."""

CALL = 2_000
"""Work counted for a few calls of numpy, in entries visited."""

PLAIN = 10
"""Work counted for each number visited in plain Python."""

LARGEST_LAYER = 10_000_000
"""Most numbers stored for the partial schedules of one epoch of a search."""

MOST_STAGES = 10_000
"""Most stages of a proof by paths."""

LARGEST_GRAPH = 16_000_000
"""Most nodes of a graph of paths."""

LONGEST_PATH = 100_000
"""Most epochs of a graph of paths. Each takes about 900 bytes in addition to its nodes."""

LARGEST_TABLES = 1 << 26
"""Most entries stored in tables of prices of requests that run together with known ones."""

LARGEST_WINDOW, WIDEST_CELL = 1 << 22, 1 << 24
"""Most points of a time grid at which one request is evaluated, and most points per price cell."""

LARGEST_CELLS, LARGEST_TIME = 1 << 18, 10_000
"""Most cells of time with a price, and most entries in a table of a batch time."""

FINEST_STEP, COARSEST_STEP = 1024, 16
"""Range of the step of a time grid: d0 / 1024 to 16 d0, where d0 is the overhead of a round."""

SPREADS = (1.05, 2.0)
"""Least and largest ratio of lengths of rounds that share a tangent."""

FULL_SIZE = 20_000
"""Size from which the full limits apply: count of numbers in a proof by paths and its instance."""

LEAST_SIZE = 100
"""Least size of a proof by paths: a smaller one gets the limits of this size."""


def part_of(limit: int, size: int) -> int:
    """Return the part of a limit that a proof by paths of ``size`` numbers may use.

    Proofs written by this package use at most a quarter of their part.
    """
    return limit * min(FULL_SIZE, max(LEAST_SIZE, size)) // FULL_SIZE
