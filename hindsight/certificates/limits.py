"""What the check of a certificate may cost: whoever wrote the file may be hostile.

Memory grows with the file and not with the numbers in it: a schedule is checked at its completions,
prices are held near the epochs that have one, and what grows with M ends at `LARGEST_TABLE_MEMORY`.
Time is counted in numbers visited, before they are, and ends at `LARGEST_WORK`. A proof by paths
asks for more than it holds, so a short one may take its part of the limits only (`part_of`).
"""

LARGEST_TABLE_MEMORY = 1024
"""Largest M for which states are priced: some arrays are of (M + 1)^2."""

LARGEST_EPOCH = 10_000_000
"""Epochs that may carry a price, prices of states in all, and priced starts held at once."""

LARGEST_AXIS = 4_000_000
"""Starts at which a set of prices may charge a request, and entries kept of all sets together."""

LARGEST_WORK = 20_000_000_000
"""Numbers visited in a check, some minutes."""

CALL = 2_000
"""Numbers visited in the time that a few calls of numpy take by themselves."""

LARGEST_GRAPH = 16_000_000
"""Nodes of a graph of paths."""

LONGEST_PATH = 100_000
"""Epochs of a graph of paths: some 900 bytes each, beside their nodes."""

LARGEST_TABLES = 1 << 26
"""Entries of tables of what may run beside known requests, at once."""

FULL_SIZE = 20_000
"""Numbers in a proof by paths and its instance from which it may take the limits as they are."""

LEAST_SIZE = 100
"""Numbers that a shorter one counts as."""


def part_of(limit: int, size: int) -> int:
    """Return the part of a limit that a proof by paths of so many numbers may take.

    Honest proofs of the library take a quarter of theirs, or less.
    """
    return limit * min(FULL_SIZE, max(LEAST_SIZE, size)) // FULL_SIZE
