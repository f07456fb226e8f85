"""What the check of a certificate may cost: whoever wrote the file may be hostile.

Memory grows with the file and not with the numbers in it: a schedule is checked at its completions,
prices are held near the epochs that have one, and what grows with M ends at `LARGEST_TABLE_MEMORY`.
Time is counted in numbers visited, before they are, and ends at `LARGEST_WORK`.
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
