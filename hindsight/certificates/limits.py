"""Limits on the cost of checking a certificate, whose author may be hostile.

Memory grows with the file and not with the numbers in it: a schedule is checked at its completions,
prices are stored only near epochs that have one, and tables that grow with M are limited by
`LARGEST_TABLE_MEMORY`. Time is measured in numbers visited, counted before the visit, and limited
by `LARGEST_WORK`. The work of a proof by paths can exceed its size by far, so a short one may use
only a share of the limits (`part_of`).
"""

LARGEST_FILE = 1 << 26
"""Largest size of a file, and of its content after decompression, in bytes."""

XZ_MEMORY = 1 << 28
"""Memory limit of the decompression of a file, in bytes."""

LARGEST_TABLE_MEMORY = 1024
"""Largest M for which states are priced: some arrays have (M + 1)^2 entries."""

LARGEST_EPOCH = 10_000_000
"""Most epochs that may carry a price, prices of states in all, and priced starts held at once."""

LARGEST_AXIS = 4_000_000
"""Most nodes of paths built at once, and entries of the sets of requests that complete."""

LARGEST_WORK = 20_000_000_000
"""Most numbers visited in a check, which takes some minutes."""

CALL = 2_000
"""Work charged for a few calls of numpy, as a count of numbers visited."""

PLAIN = 10
"""Work charged for a number visited in plain Python."""

LARGEST_LAYER = 10_000_000
"""Most numbers in the partial schedules of one epoch of a search."""

MOST_STAGES = 10_000
"""Most stages of a proof by paths."""

LARGEST_GRAPH = 16_000_000
"""Most nodes of a graph of paths."""

LONGEST_PATH = 100_000
"""Most epochs of a graph of paths, which take some 900 bytes each besides their nodes."""

LARGEST_TABLES = 1 << 26
"""Most table entries held at once for what may run next to known requests."""

LARGEST_WINDOW, WIDEST_CELL = 1 << 22, 1 << 24
"""Most points of a grid of time at which a request is evaluated, or that a cell of prices has."""

LARGEST_CELLS, LARGEST_TIME = 1 << 18, 10_000
"""Most cells of time with a price, and entries of the table of a batch time."""

FINEST_STEP, COARSEST_STEP = 1024, 16
"""Most steps of a grid of time in the overhead d0 of a round, and most d0 in a step."""

SPREADS = (1.05, 2.0)
"""Spread of the lengths of rounds with a common tangent, at least and at most."""

FULL_SIZE = 20_000
"""Numbers in a proof by paths and its instance from which the full limits apply."""

LEAST_SIZE = 100
"""Smallest size that a proof by paths counts as."""


def part_of(limit: int, size: int) -> int:
    """Return the share of a limit that a proof by paths of ``size`` numbers may use.

    Honest proofs of the library use at most a quarter of theirs.
    """
    return limit * min(FULL_SIZE, max(LEAST_SIZE, size)) // FULL_SIZE
