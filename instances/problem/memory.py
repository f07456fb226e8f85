"""KV-cache memory over time: tokens held in given rounds, and forecasts for running requests.

A request with prompt length s and output length o that starts at t holds s + (r - t) tokens in
round r, for t < r <= t + o. A memory rule may round this up to whole blocks.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np

from instances.arrays import IntArray


def held_tokens(
    moments: IntArray,
    begins: IntArray,
    stored: IntArray,
    rounds: IntArray,
    block_size: int = 1,
    growth: int | IntArray = 1,
) -> IntArray:
    """Compute the tokens that all requests together hold in given rounds, in whole blocks.

    The running time depends on the number of stretches, not on the number of rounds.

    Parameters
    ----------
    moments : int64 array, shape (k,)
        The rounds, of any size and in any order.
    begins, stored, rounds : int64 array, shape (n,)
        Stretches of consecutive rounds in which a request runs. Stretch i covers the rounds
        begins[i] + 1 .. begins[i] + rounds[i]. In the j-th of these the request stores stored[i] +
        j * growth[i] tokens.
    block_size : int, default 1
        Tokens per block.
    growth : int or int64 array, shape (n,), default 1
        Tokens that each round of a stretch adds, >= 0.

    Returns
    -------
    int64 array, shape (k,)
        Tokens held in each of the rounds ``moments``.
    """
    growth = np.broadcast_to(np.asarray(growth, dtype=np.int64), begins.shape)
    ends = begins + rounds
    if block_size == 1:
        # A stretch that begins after round b holds (stored - growth * b) + growth * r tokens in
        # round r. The constant part and the factor of r are added in its first round, and
        # subtracted after its last round.
        changes = np.concatenate([begins + 1, ends + 1])
        ramps = (stored - growth * begins, growth)
        amounts = (np.concatenate([one, -one]) for one in ramps)
        constant, slope = _summed(moments, changes, *amounts)
        return constant + slope * moments
    first = -(-(stored + growth) // block_size)
    last = -(-(stored + growth * rounds) // block_size)
    more = last - first
    run = np.repeat(np.arange(len(more)), more)
    # A stretch takes a further block in the first round in which its tokens need one more block.
    # ``offset`` is the number of that round within the stretch.
    nth = np.arange(len(run)) - np.repeat(np.cumsum(more) - more, more)
    offset = ((first[run] + nth) * block_size - stored[run]) // growth[run] + 1
    changes = np.concatenate([begins + 1, begins[run] + offset, ends + 1])
    blocks = np.concatenate([first, np.ones_like(run), -last])
    (held,) = _summed(moments, changes, blocks)
    return held * block_size


def _summed(moments: IntArray, changes: IntArray, *amounts: IntArray) -> list[IntArray]:
    """Sum, for each round in ``moments``, the amounts of all changes in that round or before it.

    ``changes`` are the rounds of the changes, and each array in ``amounts`` is summed separately.
    """
    order = np.argsort(changes, kind="stable")
    places = np.searchsorted(changes[order], moments, side="right")
    return [np.append(0, np.cumsum(one[order]))[places] for one in amounts]


class MemoryForecast:
    """Forecast of the tokens held in every later round if all running requests run to completion.

    It answers the look-ahead test of [J25] Equation (5) in O(log k) for k running requests: if a
    new request with prompt length s and output length o starts at t, does memory stay within M?
    Memory grows between completions, so it is enough to test the rounds e in which a request
    completes. In round e the new request holds s + e - t tokens. So it fits if and only if
    ``memory(e) + e <= M - s + t``. One comparison with the maximum of ``memory(e) + e`` over all
    completions up to t + o tests all these rounds.
    """

    def __init__(self, memory_limit: int) -> None:
        self._limit = memory_limit
        self.clear()

    def clear(self) -> None:
        """Remove all requests from the forecast."""
        # The rounds in which the requests end, in order. For each of these requests, its prompt
        # length minus its start time.
        self._ends: list[int] = []
        self._shifts: list[int] = []
        self._stale = True

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, start_time: int, prompt_length: int, rounds_to_run: int) -> None:
        """Add a request started at ``start_time`` that runs ``rounds_to_run`` rounds in all."""
        position = bisect_left(self._ends, start_time + rounds_to_run)
        self._ends.insert(position, start_time + rounds_to_run)
        self._shifts.insert(position, prompt_length - start_time)
        self._stale = True

    def remove(self, start_time: int, prompt_length: int, rounds_to_run: int) -> None:
        """Remove a request that `add` added with the same arguments."""
        first = bisect_left(self._ends, start_time + rounds_to_run)
        position = self._shifts.index(prompt_length - start_time, first)
        del self._ends[position], self._shifts[position]
        self._stale = True

    def advance(self, now: int) -> None:
        """Remove the requests that have completed by round ``now``."""
        position = bisect_right(self._ends, now)
        if position:
            del self._ends[:position], self._shifts[:position]
            self._stale = True

    def next_end(self) -> int | None:
        """Return the round of the next completion, or None if no request runs."""
        return self._ends[0] if self._ends else None

    def memory_at(self, round_index: int) -> int:
        """Return the tokens that the requests in the forecast hold in a later round."""
        self._refresh()
        first = bisect_left(self._ends, round_index)
        return int(self._bases[first] + self._counts[first] * round_index)

    def fits(self, prompt_length: int, rounds_to_run: int, start_time: int) -> bool:
        """Return whether all later rounds stay within M if a new request starts at ``start_time``.

        ``rounds_to_run`` is its number of rounds, ``prompt_length`` its prompt in tokens.
        """
        self._refresh()
        end = start_time + rounds_to_run
        covered = bisect_right(self._ends, end)
        if covered:
            if self._ends[0] > start_time:
                ceiling = self._ceilings[covered - 1]
            else:
                # Some requests complete before the new one starts, and `advance` has not removed
                # them yet. Leave these out.
                ahead = bisect_right(self._ends, start_time)
                ceiling = self._peaks[ahead:covered].max(initial=0)
            if ceiling + prompt_length - start_time > self._limit:
                return False
        return self.memory_at(end) + prompt_length + rounds_to_run <= self._limit

    def earliest_fit(
        self, prompt_length: int, rounds_to_run: int, first: int, last: int
    ) -> int | None:
        """Return the first start in ``first .. last`` at which a new request fits, or None.

        ``last`` must be before the next completion (`next_end`), where the forecast changes. The
        answer assumes that no other request is added until then.
        """
        if last < first:
            return None
        self._refresh()
        # Split the possible starts into pieces. With a start in piece k, the new request ends after
        # the k-th completion and before the next one. Within a piece, a later start increases the
        # memory in the last round of the new request, and decreases it at the first k completions.
        # So in each piece it is enough to test the first start that fits at these completions.
        ends = np.array(self._ends, dtype=np.int64) - rounds_to_run
        lows = np.full(len(ends) + 1, first, dtype=np.int64)
        highs = np.full(len(ends) + 1, last, dtype=np.int64)
        outlived = self._ceilings + (prompt_length - self._limit)
        lows[1:] = np.maximum(first, np.maximum(ends + 1, outlived))
        highs[:-1] = np.minimum(last, ends)
        own = self._bases + self._counts * (lows + rounds_to_run) + prompt_length + rounds_to_run
        fitting = lows[(lows <= highs) & (own <= self._limit)]
        return int(fitting.min()) if len(fitting) else None

    def _refresh(self) -> None:
        if not self._stale:
            return
        ends = np.array(self._ends, dtype=np.int64)
        # Entry k is the sum over the requests from position k on, in order of their ends. If
        # several requests have the same end, the entry of the first one counts all of them.
        self._counts = np.arange(len(ends), -1, -1)
        self._bases = np.zeros(len(ends) + 1, dtype=np.int64)
        self._bases[:-1] = np.array(self._shifts, dtype=np.int64)[::-1].cumsum()[::-1]
        self._peaks = self._bases[:-1] + (self._counts[:-1] + 1) * ends
        self._ceilings = np.maximum.accumulate(self._peaks)
        self._stale = False
