"""Schedules in rounds with as many requests on time as possible, by ruin and recreate.

Every request has a first and a last start, and is placed between them at a start at which it fits
beside all others, or left out. A move is about a request left out. It takes out some of those that
run while that one could, and puts all of them back in a random order, perhaps with others left out.
The move is kept if as many are placed as before, or, while the temperature is high, a few less. Of
equally many, those that pay less for memory are better. A move costs only the rounds of the
requests it touches.

*Replicas* stand one after the other in one profile, of ``rounds`` entries each: a request at round
t of replica k has the start k ``rounds`` + t. Every replica's last rounds are empty. A request is
placed on the first replica that has room in time, from a random one on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from hindsight.heuristics.annealing_kernels import next_uniform
from hindsight.heuristics.schedule_decoder import LONGEST_PROFILE, earliest_fit, hold
from hindsight.prices.starts import PricedRounds, start_cost
from hindsight.runtime.clock import Slices
from hindsight.runtime.compilation import inner, njit, overwrite, step
from instances import Instance
from instances.arrays import FloatArray, IntArray, RequestColumns

MOST_REMOVED = 12
"""Most requests that a move takes out."""

MOST_TRIED = 8
"""Most requests left out that a move tries beside the one it is about."""

DRAWS = 12
"""Requests drawn for each one that a move needs."""

BY_VOLUME, BY_LAST_START, NOT_FIRST = 0.4, 0.6, 0.8
"""Cumulative shares of the orders in which requests are put back: by volume, by last start, at
random; beyond them at random after the one that the move is about."""

LATER = 0.3
"""Probability that a request is put back from a random round of its window on."""

HOTS = (0.3, 0.15, 0.3, 0.08)
"""First temperatures of the cycles, in requests; they fall to 0."""

THRIFT = (0.5, 0.25, 0.8, 0.1, 0.0)
"""Weight of the prices of memory by cycle: of equally many requests, cheaper ones are better."""

EQUAL = 1e-9
"""Difference of worth that counts as none."""

LONGEST = 8
"""Doublings of a cycle, at most."""

FIRST_CYCLE = 20_000
"""Moves of the first cycle; each later one has twice as many."""

FRUITLESS = 2
"""Cycles without gain after which a search without a time limit ends."""


class _Table(NamedTuple):
    """Starts, -1 where a request is left out; memory by round; state of the random numbers.

    ``rounds`` is the length of a replica's part of the profile.
    """

    starts: IntArray
    profile: IntArray
    random: IntArray
    rounds: int


class _Chosen(NamedTuple):
    """Requests of a move, with their starts before it and the keys of their order."""

    requests: IntArray
    before: IntArray
    keys: FloatArray


@inner
def _place(requests: RequestColumns, last: IntArray, i: int, begin: int, table: _Table) -> bool:
    """Place a request at the first start from ``begin`` on of a replica, if one is in time."""
    prompt, output, _, limit = requests
    rounds = table.rounds
    replicas = len(table.profile) // rounds
    first = int(next_uniform(table.random) * replicas) if replicas > 1 else 0
    for k in range(replicas):
        origin = (first + k) % replicas * rounds
        profile = table.profile[: origin + rounds]
        start = earliest_fit(profile, origin + begin, prompt[i], output[i], limit)
        if 0 <= start <= origin + last[i]:
            table.starts[i] = start
            hold(profile, start, prompt[i], output[i], 1)
            return True
    return False


@njit
def place_in_order(requests: RequestColumns, last: IntArray, order: IntArray, table: _Table) -> int:
    """Place requests in the given order; return how many have a start in time."""
    placed = 0
    for i in order:
        if _place(requests, last, i, requests.arrival_times[i], table):
            placed += 1
    return placed


@inner
def _take_out(requests: RequestColumns, chosen: IntArray, count: int, table: _Table) -> None:
    for k in range(count):
        i = chosen[k]
        if table.starts[i] >= 0:
            start, prompt = table.starts[i], requests.prompt_lengths[i]
            hold(table.profile, start, prompt, requests.output_lengths[i], -1)
            table.starts[i] = -1


@inner
def _choose(
    requests: RequestColumns, last: IntArray, about: int, table: _Table, chosen: IntArray
) -> int:
    """Choose the requests of a move: one left out, placed ones in its way, and others left out."""
    _, output, arrival, _ = requests
    n = len(output)
    begin, end = arrival[about], last[about] + output[about]
    replicas = len(table.profile) // table.rounds
    # Room is of use on one replica: half of the moves take requests out of a single one.
    target = int(next_uniform(table.random) * 2 * replicas) if replicas > 1 else replicas
    removed = 1 + int(next_uniform(table.random) * MOST_REMOVED)
    tried = int(next_uniform(table.random) * MOST_TRIED)
    chosen[0] = about
    count, left_out = 1, 0
    for _ in range(DRAWS * (removed + tried)):
        i = int(next_uniform(table.random) * n)
        is_out = table.starts[i] < 0
        if not is_out and target < replicas and table.starts[i] // table.rounds != target:
            continue
        first = arrival[i] if is_out else table.starts[i] % table.rounds
        until = (last[i] if is_out else first) + output[i]
        if until <= begin or first >= end:
            continue
        if left_out >= tried if is_out else count - 1 - left_out >= removed:
            continue
        is_new = True
        for k in range(count):
            is_new = is_new and chosen[k] != i
        if is_new:
            chosen[count] = i
            count += 1
            left_out += is_out
    return count


@step
def _draw_order(
    requests: RequestColumns, last: IntArray, count: int, state: IntArray, move: _Chosen
) -> None:
    """Sort the requests of a move by volume, by last start, or at random."""
    prompt, output, _, _ = requests
    kind = next_uniform(state)
    for k in range(count):
        i = move.requests[k]
        key = next_uniform(state)
        if kind < BY_VOLUME:
            key = (0.5 + key) * output[i] * (prompt[i] + 0.5 * output[i])
        elif kind < BY_LAST_START:
            key += last[i]
        elif kind >= NOT_FIRST and k == 0:
            key = -1.0
        x = k
        while x > 0 and move.keys[x - 1] > key:
            move.keys[x] = move.keys[x - 1]
            move.requests[x] = move.requests[x - 1]
            x -= 1
        move.keys[x] = key
        move.requests[x] = i


@step
def _worth(requests: RequestColumns, i: int, start: int, prices: PricedRounds) -> float:
    """Return 1 less what a request pays for its memory."""
    s, o = requests.prompt_lengths[i], requests.output_lengths[i]
    cost: float = start_cost(prices.sums, prices.weighted_sums, 0.0, 0, s, o, start)
    return 1.0 - cost


@inner
def _move(
    requests: RequestColumns,
    last: IntArray,
    prices: PricedRounds,
    heat: float,
    table: _Table,
    move: _Chosen,
) -> int:
    """Make a move; return the change of the number of placed requests, 0 if it is undone."""
    prompt, output, arrival, _ = requests
    random, starts = table.random, table.starts
    n = len(starts)
    about = int(next_uniform(random) * n)
    for _ in range(DRAWS):
        if starts[about] < 0:
            break
        about = int(next_uniform(random) * n)
    chosen, before, _ = move
    count = _choose(requests, last, about, table, chosen)
    _draw_order(requests, last, count, random, move)
    gain, change = 0.0, 0
    for k in range(count):
        before[k] = starts[chosen[k]]
        if before[k] >= 0:
            gain -= _worth(requests, chosen[k], before[k] % table.rounds, prices)
            change -= 1
    _take_out(requests, chosen, count, table)
    for k in range(count):
        i = chosen[k]
        begin = arrival[i]
        if next_uniform(random) < LATER:
            begin += int(next_uniform(random) * (last[i] - begin + 1))
        if _place(requests, last, i, begin, table):
            gain += _worth(requests, i, starts[i] % table.rounds, prices)
            change += 1
    if gain >= heat * math.log(1.0 - next_uniform(random)) - EQUAL:
        return change
    _take_out(requests, chosen, count, table)
    for k in range(count):
        i = chosen[k]
        starts[i] = before[k]
        if before[k] >= 0:
            hold(table.profile, before[k], prompt[i], output[i], 1)
    return 0


@partial(njit, makes_arrays=True)
def _moves(
    requests: RequestColumns,
    last: IntArray,
    prices: PricedRounds,
    heats: tuple[float, float],
    moves: int,
    table: _Table,
    best: IntArray,
    counts: tuple[int, int],
) -> tuple[int, int]:
    """Make moves while the temperature falls; return how many are placed now, and at most."""
    most_chosen = 1 + MOST_REMOVED + MOST_TRIED
    chosen, before = np.empty(most_chosen, np.int64), np.empty(most_chosen, np.int64)
    trial = _Chosen(chosen, before, np.empty(most_chosen))
    now, most = counts
    for move in range(moves):
        heat = heats[0] + (heats[1] - heats[0]) * move / moves
        now += _move(requests, last, prices, heat, table, trial)
        if now > most:
            most = now
            overwrite(best, table.starts)
    return now, most


class Placing:
    """Search for schedules of one instance, whose starts count through its replicas.

    Parameters
    ----------
    instance : Instance
        Requests counted in tokens, each of which can be on time alone.
    last : int64 array, shape (n,)
        Last start in time of each.
    seed : int
        Seed of every random choice.

    Attributes
    ----------
    rounds : int
        Rounds of a replica.
    """

    def __init__(self, instance: Instance, last: IntArray, seed: int) -> None:
        self._instance, self._last = instance, last
        self._requests = instance.alone().columns
        self.rounds = int((last + instance.output_lengths).max()) + 2
        # More replicas than requests are of no use.
        self._length = self.rounds * min(instance.replicas, len(instance))
        self._seed = seed
        self._best = np.full(len(instance), -1, dtype=np.int64)
        self._count = 0
        self._prices: FloatArray | None = None

    def openings(self) -> IntArray:
        """Return the starts of the best of some orders; -1 for requests left out."""
        instance, last = self._instance, self._last
        if self._length > LONGEST_PROFILE:
            return self._best
        volumes, arrivals = instance.volumes, instance.arrival_times
        window = last + instance.output_lengths - arrivals
        for key in (volumes, last, arrivals, volumes / window, last - instance.output_lengths):
            table = self._table(np.full(len(instance), -1, dtype=np.int64))
            order = np.argsort(key, kind="stable")
            count = place_in_order(self._requests, last, order, table)
            if count > self._count:
                self._best, self._count = table.starts, count
        return self._best

    def improved(self, should_stop: Callable[[], bool], *, limited: bool) -> Iterator[IntArray]:
        """Yield better and better starts; without a time limit until nothing is gained."""
        if self._length > LONGEST_PROFILE or self._count == len(self._best):
            return
        cycle = fruitless = 0
        while not should_stop() and (limited or fruitless < FRUITLESS):
            total, done, found = FIRST_CYCLE << min(cycle, LONGEST), 0, self._count
            table = self._table(self._best.copy())
            now, slices, hot = self._count, Slices(), HOTS[cycle % len(HOTS)]
            prices = self._priced(THRIFT[cycle % len(THRIFT)], is_flat=cycle % 2 == 1)
            while done < total and not should_stop():
                with slices.next(total - done) as moves:
                    heats = hot * (1 - done / total), hot * (1 - (done + moves) / total)
                    best = self._best.copy()
                    now, most = _moves(
                        self._requests,
                        self._last,
                        prices,
                        heats,
                        moves,
                        table,
                        best,
                        (now, self._count),
                    )
                done += moves
                if most > self._count:
                    self._best, self._count = best, most
                    yield best
            cycle += 1
            fruitless = 0 if self._count > found else fruitless + 1

    def use(self, prices: FloatArray) -> None:
        """Take prices of memory in rounds 1, 2, ..., in late requests."""
        self._prices = np.zeros(self.rounds)
        self._prices[1 : len(prices) + 1] = prices[: self.rounds - 1]

    def _priced(self, thrift: float, *, is_flat: bool) -> PricedRounds:
        """Return the prices, or a flat one at which all memory is worth the requests placed."""
        prices = self._prices
        if prices is None or is_flat:
            flat = self._count / (self._instance.memory_limit * self._length)
            prices = np.full(self.rounds, flat)
        prices = thrift * prices
        weighted = np.cumsum(prices * np.arange(self.rounds))
        return PricedRounds(np.cumsum(prices), weighted, prices, 1.0)

    def _table(self, starts: IntArray) -> _Table:
        self._seed += 1
        random = np.array([self._seed % 0xFFFFFFFF + 1], dtype=np.int64)
        profile = np.zeros(self._length, dtype=np.int64)
        table = _Table(starts, profile, random, self.rounds)
        prompt, output, _, _ = self._requests
        for i in np.flatnonzero(starts >= 0):
            hold(profile, starts[i], prompt[i], output[i], 1)
        return table
