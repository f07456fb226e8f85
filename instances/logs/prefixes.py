r"""Prompt prefixes that requests of a log share: lower bounds that hold for any prefix cache.

Engines keep the KV entries of prompts (one entry per token) and reuse them for other prompts that
begin with the same tokens. How much a scheduler saves by this depends on its cache. A lower bound
needs no model of the cache: shorten each prompt by all tokens that another request could supply,
and bound the shortened problem.

**Conditions.** Request i has s_i prompt tokens, of which other requests can supply at most h_i.

1. An entry belongs to a prefix: the entry at position k of request i can serve request j only if
   their first k tokens are the same. This holds for every cache that reuses KV entries without
   approximation.
2. A cache shares single tokens or whole blocks, and is filled by requests of the log only.
3. A request processes the last token of its prompt, and every token it generates, and stores their
   entries for itself: engines look up prompts, not what they are about to generate.
4. A preempted request may find its own entries again. So the optimum is the one with
   ``preemption="keep"``; lower bounds in seconds are bounds on this one.
5. In seconds, a round does not get faster if tokens are added to it. This holds for affine batch
   times and for all minorants that bounds use. The measured table of a `TiledTime` may violate it.

**Claim.** The optimum for prompts s_i - h_i is at most the total latency of every schedule of the
whole requests, with any cache, on any number of replicas.

**Proof.** Call the entries of request i at positions above h_i private. These are s_i - h_i entries
of its prompt and those of all tokens that it generates. No other request has any of them. At
positions up to s_i - 1 of the prompt this is so because other requests can supply at most h_i
entries (conditions 1 and 2). At later positions condition 3 says so. So private entries of
different requests are disjoint. While request i runs it holds its private entries, those of its
prompt from the time at which they are processed.

*Memory.* In each round the memory used is at least the sum of the private entries of the requests
that run. Shared entries are not counted at all. With the start times of the schedule, the shortened
requests hold exactly these sums, so they fit. In blocks of b tokens, request i has at least
ceil((s_i + k) / b) - floor(h_i / b) >= ceil((s_i - h_i + k) / b) blocks with private entries.

*Rounds.* A request still takes one round for each token that it generates. So the start times are a
schedule of the shortened problem, with the same latency.

*Seconds.* The schedule processes at least s_i - h_i prompt tokens of request i itself. Remove its
other prompt tokens, from the beginning of the prompt on. Then no round processes more tokens than
before, has more tokens before those that it processes, or reads more resident tokens. So no round
takes longer (condition 5). Let each round wait until the time at which it ended before. Then every
token comes at the same time as before. (A real round also reads the shared entries once for each
request, which only adds time.)

The order of arrival and the replicas are ignored. So h_i also counts tokens that a later request,
or one on another replica, has in common with request i, although such a request cannot supply them.
Two requests that share a prefix only with each other are both shortened, although one of them must
compute it. So the more tokens are shared, the weaker the bound may be. The claim also holds for
weights and for shares of requests on time, because in the shortened problem every token can come as
early. []

**h_i from a log.** A log has hashes of whole blocks of B tokens. Two hashes are equal if the blocks
and all tokens before them are equal. Request j has f_j = floor(s_j / B) whole blocks. Let the first
m of these be equal to the first m blocks of request i, and not the first m + 1:

- m < f_j: the next block of j differs, so at most (m + 1) B - 1 tokens are the same.
- m = f_j: the log does not show the tokens that follow. The last tokens of j are those that it
  generates, so at most s_j + o_j tokens are the same. This is the next turn of a conversation.
  Without output lengths o_j, prompts are assumed to repeat no output, and at most s_j tokens are
  the same.

h_i is the largest of these numbers over all other requests, and at most s_i - 1. For a cache that
shares only whole blocks, h_i is rounded down to whole blocks. If these are the blocks of the log,
the number in the first case is m B. A cache with smaller blocks may share nearly a block of the log
more than the log shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from instances.arrays import IntArray
from instances.errors import InvalidValueError
from instances.validation import as_integer


def as_hashes(cell: Any) -> npt.NDArray[np.uint64]:
    """Convert a cell with the hashes of a prompt's blocks to an array.

    The array is empty unless the cell is a list of 64-bit whole numbers.
    """
    hashes = cell if isinstance(cell, list) and {*map(type, cell)} <= {int} else []
    with suppress(OverflowError):
        return np.array(hashes, np.uint64)
    return np.zeros(0, np.uint64)


def shared_prefixes(
    hashes: Sequence[Any], block_size: int, prompt_lengths: Any, output_lengths: Any
) -> IntArray:
    """Compute the largest prefix of each prompt that a cache could reuse from another request.

    If the prompts are shortened by these prefixes, a lower bound on the optimum holds for every
    scheduler with any prefix cache. The docstring of this module has the conditions and the proof.
    For a cache that reuses whole blocks only, the prefixes may be rounded down to multiples of its
    block size.

    Parameters
    ----------
    hashes : Sequence[Sequence[int]]
        For each request, the hashes of the blocks of its prompt. A last block that is not full may
        have a hash, which is ignored. Two blocks at the same position, after equal blocks, must
        have equal hashes if and only if they are equal. So each hash may be of its block alone or
        of all tokens up to the end of the block.
    block_size : int
        Tokens per block that is hashed.
    prompt_lengths, output_lengths : Sequence[int]
        Prompt and output tokens of each request. A prompt may contain another request's prompt and
        output, as in a conversation; with outputs of 0 tokens no prompt contains outputs.

    Returns
    -------
    int64 array, shape (n,)
        Tokens of each prompt that another request could supply, at most the prompt's length - 1.

    Raises
    ------
    InvalidValueError, InvalidTypeError
        The block size is below 1, or a request has more or fewer hashes than blocks.

    Examples
    --------
    >>> shared_prefixes([[7, 8, 9], [7, 8], [5]], 16, [40, 32, 16], [9, 9, 9]).tolist()
    [39, 31, 15]
    """
    size: int = as_integer(block_size, None, "block_size", minimum=1)
    prompts = np.asarray(prompt_lengths, np.int64)
    supplies = prompts + np.asarray(output_lengths, np.int64)
    whole = prompts // size
    counts = np.array([len(one) for one in hashes], np.int64)
    wrong = np.flatnonzero((counts < whole) | (counts > -(-prompts // size)))
    for k in wrong[:1].tolist():
        reason = f"do not fit {prompts[k]} tokens in blocks of {size} (request {k})"
        raise InvalidValueError(None, "hashes", int(counts[k]), reason)
    blocks = [np.asarray(one, np.uint64)[:end] for one, end in zip(hashes, whole, strict=True)]
    flat = np.concatenate([*blocks, np.zeros(0, np.uint64)])
    starts = np.cumsum(whole) - whole
    most = np.zeros(len(prompts), np.int64)
    # ``active`` has the requests whose first ``depth`` blocks are equal to those of another
    # request. ``group`` has the same number for active requests with equal first ``depth`` blocks.
    active, group, depth = np.arange(len(prompts)), np.zeros(len(prompts), np.int64), 0
    while len(active):
        _, group, members = np.unique(group, return_inverse=True, return_counts=True)
        is_shared = members[group] > 1
        active, group = active[is_shared], group[is_shared]
        ends = whole[active] == depth
        goes_on = np.bincount(group, ~ends, len(members))[group] - ~ends > 0
        alike = goes_on * ((depth + 1) * size - 1)
        supplied = _largest_of_others(group, ends * supplies[active])
        most[active] = np.max([most[active], alike, supplied], axis=0)
        active, group = active[~ends], group[~ends]
        _, codes = np.unique(flat[starts[active] + depth], return_inverse=True)
        group = group * (len(active) + 1) + codes
        depth += 1
    shared: IntArray = np.clip(most, 0, np.maximum(prompts - 1, 0))
    return shared


def _largest_of_others(group: IntArray, values: IntArray) -> IntArray:
    """Return for each element the largest value among the other elements of its group.

    ``group`` has the number of each element's group. Values are at least 0.
    """
    largest, second = np.zeros((2, group.max(initial=0) + 1), np.int64)
    np.maximum.at(largest, group, values)
    is_largest = values == largest[group]
    np.maximum.at(second, group, np.where(is_largest, 0, values))
    is_only = is_largest & (np.bincount(group, is_largest)[group] == 1)
    found: IntArray = np.where(is_only, second[group], largest[group])
    return found
