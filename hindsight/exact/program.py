"""The integer program over the number of requests of a class per start, as arrays.

A *class* is all requests with one prompt length s, output length o and weight w, whenever they
arrive. With X[c, t] of class c started at t, at times that complete lists of starts allow
(`hindsight.exact.starts`), every schedule within the lists satisfies

    (1) minimise    sum w_c (t + o_c) X[c, t] - sum w_i a_i
    (2) subject to  sum_t X[c, t] = n_c                                       for every class c,
    (3)             sum over active (c, t) of (s_c + r - t) X[c, t] <= M      for every round r,
    (4)             sum_{u <= t} X[c, u] <= requests of c that have arrived by t,
                    0 <= X[c, t] <= requests of c that may start at t,

the program of [J25] Equations (1)-(4) with one column for interchangeable starts. Conversely an
integer X is a schedule: give the starts of a class, in order, to its requests in order of arrival.
So requests that differ only in their arrival share columns. In the relaxation a fractional X
likewise divides among the requests, because the starts of each are all those from its arrival on.

*Memory in blocks.* Another memory rule replaces s_c + r - t and M in (3).

*Replicas* lie end to end on one timeline (`hindsight.exact.starts`). The first K - 1 requests to
arrive may use fewer than K replicas, so each of them is a class of its own.

*Requests on time.* Requests with different last starts are in different classes. (2) has <= in
place of =, and (1) counts the requests that are left out; weights do not matter.

*Rounding.* In integers X[c, t] is at most M // (s_c + o_c) as well: requests that start together
hold s_c + o_c tokens each in their last round.

*Differences.* Relaxations replace (3) by the running requests N_r and the memory used W_r,

    N_r = N_{r-1} + starts - completions at r - 1,    W_r = W_{r-1} + N_r + change at r - 1 <= M,

with five non-zeros a start instead of o + 1. This needs a memory that is counted in tokens.
"""

from __future__ import annotations

from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from instances import FleetSchedule, Instance, InvalidValueError, Schedule
from instances.arrays import FloatArray, IntArray

from .highs import LinearModel
from .starts import StartSets, by_arrival, from_timeline, on_timeline, useful_replicas

_KIND = ("x", "running", "memory_used")


class Block(NamedTuple):
    """Rows of the program: entries by row and column, and bounds of the rows."""

    name: str
    keys: list[Any]
    rows: IntArray
    columns: IntArray
    values: IntArray
    lower: FloatArray
    upper: FloatArray


def classes_of(instance: Instance, last: IntArray | None = None) -> list[IntArray]:
    """Return the requests of each class in order of arrival.

    Parameters
    ----------
    instance : Instance
        The problem.
    last : int64 array or None, default None
        Last starts of requests that may be left out, shape (n,).
    """
    order = by_arrival(instance)
    rank = np.empty(len(instance), dtype=np.int64)
    # Requests that may use all replicas share a rank.
    rank[order] = np.minimum(np.arange(len(instance)), useful_replicas(instance) - 1)
    third = instance.weights if last is None else last
    kinds = np.column_stack([instance.prompt_lengths, instance.output_lengths, third, rank])
    _, number = np.unique(kinds, axis=0, return_inverse=True)
    number = number.ravel()[order]
    ends = np.cumsum(np.bincount(number))
    found: list[IntArray] = np.split(order[np.argsort(number, kind="stable")], ends[:-1])
    return found


class Program:
    """The program over given starts.

    Parameters
    ----------
    starts : StartSets
        Complete lists of starts for all schedules sought.
    relax : bool, default False
        Drop integrality.
    differences : bool, default False
        Count memory from round to round.

    Attributes
    ----------
    linear : LinearModel
        The arrays. Its first columns are the counts X.
    classes : list[int64 array]
        Requests of each class in order of arrival.
    owners, epochs : int64 array, shape (counts,)
        Class and start of each count X.
    blocks : tuple[Block, ...]
        The rows by subject: ``start_once``, ``arrived``, and those of memory.
    """

    def __init__(
        self, starts: StartSets, *, relax: bool = False, differences: bool = False
    ) -> None:
        self._starts = starts
        instance, lists = starts.instance, starts.starts
        last = np.array([own.max(initial=-1) for own in lists]) if starts.optional else None
        self.classes = classes_of(instance, last)
        first = np.array([own[0] for own in self.classes])
        together = [np.concatenate([lists[i] for i in own]) for own in self.classes]
        times, allowed = zip(*(np.unique(own, return_counts=True) for own in together), strict=True)
        self.epochs: IntArray = np.concatenate(times)
        self.owners: IntArray = np.repeat(np.arange(len(times)), list(map(len, times)))
        self._prompts = instance.prompt_lengths[first][self.owners]
        self._outputs = instance.output_lengths[first][self.owners]
        self._weights = instance.weights[first][self.owners]
        upper = np.concatenate(allowed)
        if not relax:
            rule = instance.memory_rule
            peaks = rule.held(self._prompts - rule.unstored + self._outputs)
            upper = np.minimum(upper, rule.limit(instance.memory_limit) // peaks)
        memory = self._differences() if differences else self._memory()
        self.blocks = (self._once(), self._arrived(), *memory)
        self.linear = self._assemble(upper, relax=relax)

    def _assemble(self, upper: IntArray, *, relax: bool) -> LinearModel:
        """Join the blocks of rows, and add what bounds and costs the columns."""
        starts, instance, counts = self._starts, self._starts.instance, len(self.epochs)
        sizes = np.array([len(block.lower) for block in self.blocks])
        begins = np.cumsum(sizes) - sizes
        shape = int(sizes.sum()), counts + 2 * starts.horizon * (len(self.blocks) > 3)
        rows = [block.rows + begin for block, begin in zip(self.blocks, begins, strict=True)]
        entries = np.concatenate([block.values for block in self.blocks]).astype(np.float64)
        places = np.concatenate(rows), np.concatenate([block.columns for block in self.blocks])
        costs, limits = np.zeros(shape[1]), np.full(shape[1], np.inf)
        costs[:counts] = -1 if starts.optional else self._weights * (self.epochs % starts.rounds)
        limits[:counts] = upper
        limits[counts + starts.horizon :] = instance.memory_limit
        latency = instance.weights @ (instance.output_lengths - instance.arrival_times)
        return LinearModel(
            costs=costs,
            offset=len(instance) if starts.optional else int(latency),
            matrix=sp.csc_array((entries, places), shape=shape),
            row_lower=np.concatenate([block.lower for block in self.blocks]),
            row_upper=np.concatenate([block.upper for block in self.blocks]),
            column_lower=np.zeros(shape[1]),
            column_upper=limits,
            integer=np.arange(shape[1]) < (0 if relax else counts),
        )

    def _once(self) -> Block:
        """(2): start every request of a class, or at most every one."""
        sizes = np.array(list(map(len, self.classes)), dtype=np.float64)
        lower = np.zeros_like(sizes) if self._starts.optional else sizes
        columns = np.arange(len(self.epochs))
        keys = [int(own[0]) for own in self.classes]
        return Block("start_once", keys, self.owners, columns, np.ones_like(columns), lower, sizes)

    def _arrived(self) -> Block:
        """(4): start at most the requests of a class that have arrived, before each arrival."""
        arrivals, keys, columns, most = self._starts.instance.arrival_times, [], [], []
        ends = np.cumsum(np.bincount(self.owners, minlength=len(self.classes)))
        for own, end, begin in zip(self.classes, ends, [0, *ends[:-1]], strict=True):
            times = self.epochs[begin:end] % self._starts.rounds
            for count in np.flatnonzero(np.diff(arrivals[own])) + 1:
                before = begin + np.flatnonzero(times < arrivals[own[count]])
                if len(before):
                    keys.append((int(own[0]), int(arrivals[own[count]])))
                    columns.append(before)
                    most.append(count)
        rows = np.repeat(np.arange(len(columns)), list(map(len, columns)))
        joined = np.array([*chain.from_iterable(columns)], dtype=np.int64)
        lower, upper = np.full(len(most), -np.inf), np.array(most, dtype=np.float64)
        return Block("arrived", keys, rows, joined, np.ones_like(joined), lower, upper)

    def _memory(self) -> tuple[Block]:
        """(3): hold at most M in every round."""
        rule, horizon = self._starts.instance.memory_rule, self._starts.horizon
        columns = np.repeat(np.arange(len(self.epochs)), self._outputs)
        ends = np.cumsum(self._outputs)
        ages = np.arange(len(columns)) - np.repeat(ends - self._outputs, self._outputs) + 1
        held = rule.held(self._prompts[columns] - rule.unstored + ages)
        limit = float(rule.limit(self._starts.instance.memory_limit))
        rows, keys = self.epochs[columns] + ages - 1, list(range(1, horizon + 1))
        lower, upper = np.full(horizon, -np.inf), np.full(horizon, limit)
        return (Block("memory", keys, rows, columns, held, lower, upper),)

    def _differences(self) -> tuple[Block, Block]:
        """(3) from round to round: rows of N_r, and rows of W_r."""
        horizon, counts = self._starts.horizon, np.arange(len(self.epochs))
        rounds, zero = np.arange(horizon), np.zeros(horizon)
        keys, ends = list(range(1, horizon + 1)), self.epochs + self._outputs
        running = len(counts) + rounds
        used = running + horizon
        last = ends < horizon
        rows = np.concatenate([rounds, rounds[1:], self.epochs, ends[last]])
        ones = np.ones(len(rows), dtype=np.int64)
        ones[horizon : -int(last.sum()) or None] = -1
        columns = np.concatenate([running, running[:-1], counts, counts[last]])
        count_running = Block("count_running", keys, rows, columns, ones, zero, zero)
        own = np.concatenate([-self._prompts, (self._prompts + self._outputs)[last]])
        rows = np.concatenate([rows, rounds])
        columns = np.concatenate([used, used[:-1], counts, counts[last], running])
        change = np.concatenate([ones[: 2 * horizon - 1], own, -ones[:horizon]])
        return count_running, Block("memory", keys, rows, columns, change, zero, zero)

    def labels(self) -> list[tuple[str, Any]]:
        """Return the name and key of each column: a count is named by the first of its class."""
        first = np.array([own[0] for own in self.classes])[self.owners]
        counts = zip(first.tolist(), self.epochs.tolist(), strict=True)
        more = (len(self.linear.costs) - len(self.epochs)) // 2
        rounds = range(1, more + 1)
        return [*(("x", key) for key in counts), *((n, r) for n in _KIND[1:] for r in rounds)]

    def point(self, schedule: Schedule | FleetSchedule) -> FloatArray:
        """Return a schedule as a point of the program without differences, shape (counts,).

        Raises
        ------
        InvalidValueError
            The schedule has a start that the program does not contain.
        """
        times = on_timeline(self._starts, schedule)
        owner = np.empty(len(times), dtype=np.int64)
        owner[np.concatenate(self.classes)] = np.repeat(
            np.arange(len(self.classes)), list(map(len, self.classes))
        )
        span = self._starts.horizon + 1
        known, wanted = self.owners * span + self.epochs, owner * span + times
        places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        if (known[places] != wanted).any():
            index = int(np.argmax(known[places] != wanted))
            name = f"request {self._starts.instance.ids[index]!r}"
            raise InvalidValueError(name, "start_time", int(times[index]), "is not modelled")
        return np.bincount(places, minlength=len(known)).astype(np.float64)

    def starts(self, values: FloatArray) -> IntArray:
        """Return the starts of an integer point on the timeline, -1 of requests left out, (n,)."""
        found = np.full(len(self._starts.instance), -1, dtype=np.int64)
        chosen = np.repeat(
            np.arange(len(self.epochs)), np.rint(values[: len(self.epochs)]).astype(int)
        )
        for k, own in enumerate(self.classes):
            times = self.epochs[chosen[self.owners[chosen] == k]]
            times = times[np.argsort(times % self._starts.rounds, kind="stable")]
            if len(times) != len(own) and not (self._starts.optional and len(times) < len(own)):
                name = f"request {self._starts.instance.ids[int(own[0])]!r}"
                raise InvalidValueError(name, "starts", times.tolist(), f"are not {len(own)}")
            found[own[: len(times)]] = times
        return found

    def schedule(self, values: FloatArray) -> Schedule | FleetSchedule:
        """Return the schedule of an integer point, feasible or not."""
        return from_timeline(self._starts, self.starts(values))

    def mean_starts(self, values: FloatArray) -> FloatArray:
        """Return the mean start of each request in a point of the relaxation, shape (n,).

        The counts of a class go to its requests in order of arrival; those that arrive together
        share theirs.
        """
        means = np.empty(len(self._starts.instance))
        for k, own in enumerate(self.classes):
            mine = self.owners == k
            shares = np.maximum(values[: len(mine)][mine], 0.0)
            # Interior solutions leave tiny weights; the average is still a weighted mean.
            shares *= len(own) / shares.sum()
            arrivals = self._starts.instance.arrival_times[own]
            ends = np.append(np.flatnonzero(np.diff(arrivals)) + 1, len(own))
            passed = (
                np.append(0, np.cumsum(shares)),
                np.append(0, np.cumsum(shares * self.epochs[mine])),
            )
            totals = np.diff(np.interp(ends, *passed), prepend=0)
            sizes = np.diff(ends, prepend=0)
            means[own] = np.repeat(totals / sizes, sizes)
        return means
