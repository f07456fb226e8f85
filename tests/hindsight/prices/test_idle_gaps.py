"""Blocks of requests between idle gaps."""

from __future__ import annotations

from hindsight.prices.idle_gaps import compress, next_block_begins
from instances import Instance


def test_next_blocks_begin_where_the_first_of_their_requests_arrives() -> None:
    far = 10**9
    arrivals = [far + 3, 0, 2 * far, 1, far + 3, 0, far, 2]
    prompts, outputs = [5, 3, 4, 2, 1, 1, 2, 4], [2, 4, 5, 5, 3, 3, 6, 2]
    compressed = compress(Instance.from_arrays(prompts, outputs, arrivals, memory_limit=10))
    second, third = (int(compressed.instance.arrival_times[k]) for k in (6, 2))
    last = 2**62
    expected = [third, second, last, second, third, second, third, second]
    assert next_block_begins(compressed).tolist() == expected
