"""Schedules of a fleet: list schedules, then ruin and recreate over replicas and starts.

Each replica has a profile of its own. A request is placed at the least start at which it fits on
any replica; replicas are tried from a random one on, which breaks ties. So order alone determines
starts and assignment, as on one machine.

A move removes a waiting request and others that start near a moment of its wait, on two replicas or
on all, and puts them back in another order. It is accepted if it costs less than a threshold
(Kirkpatrick, Gelatt and Vecchi 1983). Every intermediate schedule is feasible. Any memory rule is
counted as it is, in blocks.

Deterministic: the schedule after k moves depends on the arguments and the seed alone.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from hindsight.runtime.clock import Slices
from hindsight.runtime.compilation import njit, step
from instances import FleetSchedule, Instance
from instances.arrays import FloatArray, IntArray, RequestColumns

from .annealing_kernels import next_uniform, threshold
from .list_scheduling import one_after_another
from .schedule_decoder import LONGEST_PROFILE, REJECTED, earliest_fit, hold

MOST_REMOVED = 12
"""Most requests removed at once."""

EVERYWHERE, BLINK = 0.3, 0.01
"""Share of moves that remove from all replicas, and probability that a search passes over a start
that fits."""

WAITING_DRAWS, DRAWS_PER_REQUEST = 10, 4
"""Requests drawn to find one that waits, and to find each request to be removed."""

RANDOM, BY_VOLUME, BY_START, FIRST_WAITING = 0.3, 0.5, 0.7, 0.85
"""Cumulative shares of the orders in which requests are put back: random, by volume, by start, the
waiting one first, the largest peak first."""

MOVES_BETWEEN_SORTS = 20
"""Moves per request before requests are sorted by start again, and the best schedule is saved."""

HEATS = ((0.3, 0.05), (0.3, 0.02), (0.1, 0.01))
"""First and last temperature of cycles, which take turns, in mean output lengths times the mean
weight."""


class Timetable(NamedTuple):
    """A feasible schedule of a fleet, which moves change in place.

    Attributes
    ----------
    starts, replicas : int64 array, shape (n,)
        Start and replica of each request.
    profiles : int64 array, shape (K, rounds)
        Blocks held; entry (k, r) for round r on replica k.
    """

    starts: IntArray
    replicas: IntArray
    profiles: IntArray


class FleetRequests(NamedTuple):
    """Requests of a fleet.

    Attributes
    ----------
    columns : RequestColumns
        Tokens stored before the first round, output lengths, arrivals, and usable blocks of a
        replica.
    weights : int64 array, shape (n,)
        Weights.
    block_size : int
        Tokens of a block.
    """

    columns: RequestColumns
    weights: IntArray
    block_size: int


class Cooling(NamedTuple):
    """Parameters of the moves of a cycle.

    Attributes
    ----------
    total : int
        Number of moves.
    hot, cold : float
        First and last temperature, weighted rounds.
    near : int
        Requests before and after a moment, by start, among which a move removes.
    """

    total: int
    hot: float
    cold: float
    near: int


class Removed(NamedTuple):
    """Requests that a move removes: the first entries.

    Attributes
    ----------
    taken, starts, replicas : int64 array, shape (most,)
        Requests, and where they were.
    order : int64 array, shape (most,)
        Entries in the order in which they are put back.
    keys : float64 array, shape (most,)
        Sort keys of the order.
    is_taken : int64 array, shape (n,)
        1 for the requests drawn so far.
    """

    taken: IntArray
    starts: IntArray
    replicas: IntArray
    order: IntArray
    keys: FloatArray
    is_taken: IntArray


@step
def _fit(
    requests: FleetRequests, profiles: IntArray, i: int, begin: int, first: int
) -> tuple[int, int]:
    """Return the least start from ``begin`` on and its replica, tried from ``first`` on."""
    (prompt, output, _, limit), _, block_size = requests
    best, where, size = REJECTED, REJECTED, profiles.shape[1]
    for after in range(profiles.shape[0]):
        k = (first + after) % profiles.shape[0]
        # A profile that ends there admits only starts before the best one.
        at = earliest_fit(profiles[k, :size], begin, prompt[i], output[i], limit, block_size)
        if at >= 0:
            best, where, size = at, k, at + output[i]
        if best == begin:
            break
    return best, where


@step
def _hold(requests: FleetRequests, timetable: Timetable, i: int, sign: int) -> None:
    """Add a request to the profile of its replica, or subtract it with ``sign`` -1."""
    (prompt, output, _, _), _, block_size = requests
    starts, replicas, profiles = timetable
    hold(profiles[replicas[i]], starts[i], prompt[i], output[i], sign, block_size)


@njit
def fill(requests: FleetRequests, timetable: Timetable) -> None:
    """Write the requests of a timetable into its empty profiles."""
    for i in range(len(timetable.starts)):
        _hold(requests, timetable, i, 1)


@njit
def place_in_order(
    requests: FleetRequests, order: IntArray, timetable: Timetable, are_placed: bool
) -> bool:
    """Give each request, in order, the first start at which it fits on a replica, in place.

    With ``are_placed`` they are in the profiles already, and may stay where they are. Returns
    False, and leaves the rest, where one does not fit into the profiles.
    """
    arrival = requests.columns.arrival_times
    starts, replicas, profiles = timetable
    for i in order:
        if are_placed:
            _hold(requests, timetable, i, -1)
        starts[i], replicas[i] = _fit(requests, profiles, i, arrival[i], replicas[i])
        if starts[i] < 0:
            return False
        _hold(requests, timetable, i, 1)
    return True


@step
def _draw(
    requests: FleetRequests,
    timetable: Timetable,
    sorted_starts: tuple[IntArray, IntArray],
    near: int,
    state: IntArray,
    removed: Removed,
) -> int:
    """Draw a waiting request and others that start about a moment of its wait; return how many."""
    starts, replicas, profiles = timetable
    by_start, moments = sorted_starts
    arrival = requests.columns.arrival_times
    n, machines, taken = len(starts), profiles.shape[0], removed.taken
    i = int(next_uniform(state) * n)
    for _ in range(WAITING_DRAWS):
        if starts[i] > arrival[i]:
            break
        i = int(next_uniform(state) * n)
    moment = arrival[i] + int(next_uniform(state) * (starts[i] - arrival[i] + 1))
    middle = np.searchsorted(moments, moment)
    # Removing from few replicas leaves room in one piece.
    one, other = replicas[i], int(next_uniform(state) * machines)
    if next_uniform(state) < 0.5:
        one = int(next_uniform(state) * machines)
    everywhere = next_uniform(state) < EVERYWHERE
    wanted = 2 + int(next_uniform(state) * (len(taken) - 1))
    reach = 1 + int(next_uniform(state) * near)
    taken[0], removed.is_taken[i], count = i, 1, 1
    for _ in range(DRAWS_PER_REQUEST * wanted):
        p = middle - reach + int(next_uniform(state) * (2 * reach + 1))
        if count == wanted or p < 0 or p >= n:
            continue
        j = by_start[p]
        if removed.is_taken[j] == 0 and (everywhere or replicas[j] == one or replicas[j] == other):
            taken[count], removed.is_taken[j] = j, 1
            count += 1
    return count


@step
def _draw_order(requests: FleetRequests, count: int, removed: Removed, state: IntArray) -> None:
    """Draw the order in which the removed requests are put back."""
    (prompt, output, _, _), weights, _ = requests
    taken, order, keys = removed.taken, removed.order, removed.keys
    kind = next_uniform(state)
    for q in range(count):
        i = taken[q]
        keys[q] = removed.starts[q]
        if kind < RANDOM:
            keys[q] = next_uniform(state)
        elif kind < BY_VOLUME:
            volume = prompt[i] * output[i] + 0.5 * output[i] * (output[i] + 1)
            keys[q] = volume * (0.7 + 0.6 * next_uniform(state)) / weights[i]
        elif kind < BY_START:
            keys[q] += (next_uniform(state) - 0.5) * output[i]
        elif kind >= FIRST_WAITING:
            keys[q] = -1.0 * (prompt[i] + output[i])
        elif q == 0:
            keys[q] = -1.0
        # Insertion sort, as there are only a handful of entries.
        y = q
        while y > 0 and keys[order[y - 1]] > keys[q]:
            order[y] = order[y - 1]
            y -= 1
        order[y] = q


@step
def _put_back(
    requests: FleetRequests,
    timetable: Timetable,
    count: int,
    removed: Removed,
    bid: tuple[int, float],
    state: IntArray,
) -> tuple[int, float]:
    """Put requests back in order while acceptance is possible; return how many, and their cost.

    ``bid``: the first round that was freed, and the cost to stay below.
    """
    (_, output, arrival, _), weights, _ = requests
    starts, replicas, profiles = timetable
    freed, most = bid
    cost, least = 0.0, 0.0
    # Whoever ends before the first freed round fits no better than before.
    for q in range(count):
        i = removed.taken[q]
        least += weights[i] * max(arrival[i], freed - output[i] + 1)
    for x in range(count):
        i = removed.taken[removed.order[x]]
        begin = max(arrival[i], freed - output[i] + 1)
        least -= weights[i] * begin
        first = int(next_uniform(state) * profiles.shape[0])
        at, where = _fit(requests, profiles, i, begin, first)
        while at >= 0 and next_uniform(state) < BLINK:
            at, where = _fit(requests, profiles, i, at + 1, first)
        cost += weights[i] * at
        if at < 0 or cost + least > most:
            return x, cost
        starts[i], replicas[i] = at, where
        _hold(requests, timetable, i, 1)
    return count, cost


@partial(njit, makes_arrays=True)
def ruin_and_recreate(
    requests: FleetRequests,
    timetable: Timetable,
    by_start: IntArray,
    cooling: Cooling,
    state: IntArray,
    moves: tuple[int, int],
) -> None:
    """Make moves first .. last - 1 of a cycle, in place.

    ``by_start`` lists the requests by start when the moves began; ``state`` is of `next_uniform`.
    """
    weights, (starts, replicas, _) = requests.weights, timetable
    n, room = len(starts), min(MOST_REMOVED, len(starts))
    sorted_starts = (by_start, starts[by_start])
    taken, old, places, order = np.zeros((4, room), np.int64)
    removed = Removed(taken, old, places, order, np.zeros(room), np.zeros(n, np.int64))
    for move in range(moves[0], moves[1]):
        count = _draw(requests, timetable, sorted_starts, cooling.near, state, removed)
        before, freed = 0.0, starts[taken[0]]
        for q in range(count):
            i = taken[q]
            removed.is_taken[i], old[q], places[q] = 0, starts[i], replicas[i]
            before += weights[i] * starts[i]
            freed = min(freed, starts[i])
            _hold(requests, timetable, i, -1)
        _draw_order(requests, count, removed, state)
        uniform = next_uniform(state) + 1e-300
        most = threshold(before, cooling.hot, cooling.cold, move / cooling.total, uniform)
        placed, _ = _put_back(requests, timetable, count, removed, (freed, most), state)
        if placed < count:
            for x in range(placed):
                _hold(requests, timetable, taken[order[x]], -1)
            for q in range(count):
                starts[taken[q]], replicas[taken[q]] = old[q], places[q]
                _hold(requests, timetable, taken[q], 1)


class FleetSchedules:
    """Schedules of a fleet under its memory rule, improved in cycles.

    Parameters
    ----------
    instance : Instance
        An instance with any memory rule and number of replicas.
    seed : int, default 0
        Seed of the moves.

    Attributes
    ----------
    best : FleetSchedule
        The schedule of least total latency so far.
    """

    def __init__(self, instance: Instance, seed: int = 0) -> None:
        rule = instance.memory_rule
        self._instance = instance
        columns = RequestColumns(
            instance.prompt_lengths - rule.unstored,
            instance.output_lengths,
            instance.arrival_times,
            rule.usable_blocks(instance.memory_limit),
        ).read_only()
        self._requests = FleetRequests(columns, instance.weights, rule.block_size)
        self._state = np.array([np.random.default_rng(seed).integers(1, 1 << 32)], np.int64)
        last, outputs = int(instance.arrival_times.max()), instance.output_lengths
        # One after another they end by the first, and most schedules by the second.
        self._longest = last + int(outputs.sum()) + 2
        volume = sum(instance.volumes.tolist()) // (instance.memory_limit * instance.replicas)
        self._rounds = min(self._longest, last + 4 * (volume + int(outputs.max())) + 2)
        self.best = round_robin(instance)
        # Searches with consecutive seeds begin with different heats.
        self._cycles = seed

    @property
    def is_small(self) -> bool:
        """Tell whether the profiles are small enough to be held in memory."""
        rounds = max(self._rounds, self._rounds_of(self.best))
        return bool(rounds * self._instance.replicas <= LONGEST_PROFILE)

    def in_order(self, order: IntArray) -> FleetSchedule:
        """Place requests one by one, each as early as it fits beside the earlier ones."""
        while self.is_small:
            timetable = self._empty(self._rounds)
            if place_in_order(self._requests, order, timetable, False):
                self._offer(timetable)
                return self._schedule(timetable)
            self._rounds = min(self._longest, 2 * self._rounds)
        return self.best

    def offer(self, schedule: FleetSchedule) -> None:
        """Continue from another feasible schedule without preemption if it is better."""
        if schedule.total_latency < self.best.total_latency:
            self.best = schedule

    def cycle(self, moves: int, must_stop: Callable[[], bool]) -> None:
        """Anneal from the best schedule with so many moves, then shift requests to the left."""
        timetable = self._of_best()
        scale = float(self._instance.output_lengths.mean() * self._requests.weights.mean())
        near = max(2 * MOST_REMOVED, 8 * self._instance.replicas)
        hot, cold = HEATS[self._cycles % len(HEATS)]
        cooling = Cooling(moves, hot * scale, cold * scale, near)
        self._cycles += 1
        done, slices = 0, Slices()
        while done < moves and not must_stop():
            by_start = np.argsort(timetable.starts, kind="stable")
            until = min(moves, done + MOVES_BETWEEN_SORTS * len(by_start))
            while done < until and not must_stop():
                with slices.next(until - done) as length:
                    span, state = (done, done + length), self._state
                    ruin_and_recreate(self._requests, timetable, by_start, cooling, state, span)
                done += length
            self._offer(timetable)
        timetable = self._of_best()
        order = np.argsort(timetable.starts, kind="stable")
        place_in_order(self._requests, order, timetable, True)
        self._offer(timetable)

    def _of_best(self) -> Timetable:
        timetable = self._empty(self._rounds_of(self.best))
        timetable.starts[:] = self.best.start_times
        timetable.replicas[:] = self.best.assignment
        fill(self._requests, timetable)
        return timetable

    def _rounds_of(self, schedule: FleetSchedule) -> int:
        """Return rounds for a schedule, with spare ones behind it."""
        return int(1.3 * schedule.makespan) + 2 * int(self._instance.output_lengths.max()) + 2

    def _offer(self, timetable: Timetable) -> None:
        if int(self._requests.weights @ (timetable.starts - self.best.start_times)) < 0:
            self.best = self._schedule(timetable)

    def _schedule(self, timetable: Timetable) -> FleetSchedule:
        starts, replicas, _ = timetable
        return FleetSchedule.from_starts(self._instance, replicas, starts)

    def _empty(self, rounds: int) -> Timetable:
        starts, replicas = np.zeros((2, len(self._instance)), np.int64)
        profiles = np.zeros((self._instance.replicas, rounds), np.int64)
        return Timetable(starts, replicas, profiles)


def round_robin(instance: Instance) -> FleetSchedule:
    """Deal requests out by arrival, and run those of a replica one after another."""
    replicas = np.zeros(len(instance), np.int64)
    order = np.argsort(instance.arrival_times, kind="stable")
    replicas[order] = np.arange(len(instance)) % instance.replicas
    starts = np.zeros(len(instance), np.int64)
    for replica in range(instance.replicas):
        own = np.flatnonzero(replicas == replica)
        if len(own):
            starts[own] = one_after_another(instance.alone(own)).start_times
    return FleetSchedule.from_starts(instance, replicas, starts)


def first_orders(instance: Instance) -> list[IntArray]:
    """Return orders for list schedules: by volume, peak, output length and arrival."""
    weights = instance.weights
    keys = (instance.volumes, instance.peak_memories, instance.output_lengths)
    orders = [np.argsort(key / weights, kind="stable") for key in keys]
    orders.append(np.argsort(instance.arrival_times, kind="stable"))
    return orders


def best_fleet_schedule(instance: Instance) -> FleetSchedule:
    """Return the best list schedule of a fleet."""
    schedules = FleetSchedules(instance)
    for order in first_orders(instance):
        schedules.in_order(order)
    return schedules.best
