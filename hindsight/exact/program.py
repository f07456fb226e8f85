"""The time-indexed integer program, as arrays: one variable per class of requests and start.

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

*Replicas* are segments of one timeline (`hindsight.exact.starts`). The first K - 1 requests to
arrive may use fewer than K replicas, so each of them is a class of its own.

*Requests on time.* Requests with different last starts are in different classes. (2) has <= in
place of =, and (1) counts the requests that are left out; weights do not matter.

*Rounding.* An integer X[c, t] is also at most M // (s_c + o_c): requests that start together hold
s_c + o_c tokens each in their last round.

*Differences.* Relaxations replace (3) by the running requests N_r and the memory used W_r,

    N_r = N_{r-1} + starts - completions at r - 1,    W_r = W_{r-1} + N_r + change at r - 1 <= M,

with five non-zeros per start instead of o + 1. This requires that memory is counted in tokens.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from instances import FleetSchedule, Instance, InvalidValueError, Schedule
from instances.arrays import FloatArray, IntArray

from .highs import LinearModel
from .starts import StartSets, by_arrival, from_timeline, on_timeline, useful_replicas


def classes_of(
    instance: Instance, last: IntArray | None = None, *, are_alone: bool = False
) -> list[IntArray]:
    """Return the requests of each class in order of arrival.

    Parameters
    ----------
    instance : Instance
        The problem.
    last : int64 array or None, default None
        Last starts of requests that may be left out, shape (n,).
    are_alone : bool, default False
        Whether each request is a class of its own.
    """
    if are_alone:
        return list(np.arange(len(instance))[:, None])
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
    """The program, restricted to given starts.

    Parameters
    ----------
    starts : StartSets
        Lists of allowed starts, complete for all schedules sought.
    relax : bool, default False
        Build the linear relaxation.
    differences : bool, default False
        Count memory by differences between rounds, with columns N and W.
    are_alone : bool, default False
        Whether each request is a class of its own.

    Attributes
    ----------
    linear : LinearModel
        The arrays. The first columns are the counts X; with ``differences``, N and W follow, each
        with one column per round. The rows are (2), (4), then (3), by round; with ``differences``,
        the rows of N and then the rows of W replace (3).
    classes : list[int64 array]
        Requests of each class in order of arrival.
    owners, epochs : int64 array, shape (counts,)
        Class and start of each count X.
    """

    def __init__(
        self,
        starts: StartSets,
        *,
        relax: bool = False,
        differences: bool = False,
        are_alone: bool = False,
    ) -> None:
        self._starts, self._differences = starts, differences
        instance, lists = starts.instance, starts.starts
        last = np.array([own.max(initial=-1) for own in lists]) if starts.optional else None
        self.classes = classes_of(instance, last, are_alone=are_alone)
        together = [np.concatenate([lists[i] for i in own]) for own in self.classes]
        times, allowed = zip(*(np.unique(own, return_counts=True) for own in together), strict=True)
        self.epochs: IntArray = np.concatenate(times)
        sizes = list(map(len, times))
        self.owners: IntArray = np.repeat(np.arange(len(times)), sizes)
        ends = np.cumsum(sizes).tolist()
        self._spans = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        first = np.array([own[0] for own in self.classes])[self.owners]
        self._prompts, self._outputs = (
            column[first] for column in (instance.prompt_lengths, instance.output_lengths)
        )
        upper = np.concatenate(allowed)
        if not relax:
            rule = instance.memory_rule
            peaks = rule.held(self._prompts - rule.unstored + self._outputs)
            upper = np.minimum(upper, rule.limit(instance.memory_limit) // peaks)
        costs = instance.weights[first] * (self.epochs % starts.rounds)
        latency = instance.weights @ (instance.output_lengths - instance.arrival_times)
        matrix, lower, most = self._rows()
        others = np.zeros(matrix.shape[1] - len(first))
        limits = np.full(len(others), np.inf)
        limits[starts.horizon :] = instance.memory_limit
        self.linear = LinearModel(
            costs=np.append(np.full(len(first), -1.0) if starts.optional else costs, others),
            offset=len(instance) if starts.optional else int(latency),
            matrix=sp.csc_array(matrix, dtype=np.float64),
            row_lower=lower,
            row_upper=most,
            column_lower=np.zeros(matrix.shape[1]),
            column_upper=np.append(upper, limits).astype(np.float64),
            integer=np.arange(matrix.shape[1]) < (0 if relax else len(first)),
        )

    def _rows(self) -> tuple[Any, FloatArray, FloatArray]:
        """Return the matrix of all rows, and the lower and upper bounds of the rows."""
        starts, instance = self._starts, self._starts.instance
        horizon, columns = starts.horizon, np.arange(len(self.epochs))
        ones, sizes = np.ones(len(columns)), np.array(list(map(len, self.classes)))
        once = sp.csr_array((ones, (self.owners, columns)), (len(sizes), len(columns)))
        arrived, most = self._arrived()
        lower = np.append(0 * sizes if starts.optional else sizes, np.full(len(most), -np.inf))
        upper = np.append(sizes, most).astype(np.float64)
        counted = sp.vstack([once, arrived])
        if self._differences:
            rows = sp.block_array([[counted, None, None], *self._memory_differences()])
            least = most_held = np.zeros(2 * horizon)
        else:
            rows = sp.vstack([counted, self._memory()])
            limit = instance.memory_rule.limit(instance.memory_limit)
            least, most_held = np.full(horizon, -np.inf), np.full(horizon, limit)
        return rows, np.append(lower, least), np.append(upper, most_held)

    def _arrived(self) -> tuple[Any, list[int]]:
        """Return rows (4) and their upper bounds, one row per arrival after the first in a class.

        Before an arrival, at most the requests of the class that have arrived earlier may start.
        """
        arrivals, before, most, self._arrivals = self._starts.instance.arrival_times, [], [], []
        times = self.epochs % self._starts.rounds
        for own, span in zip(self.classes, self._spans, strict=True):
            for count in (np.flatnonzero(np.diff(arrivals[own])) + 1).tolist():
                arrival = int(arrivals[own[count]])
                before.append(span.start + np.flatnonzero(times[span] < arrival))
                most.append(count)
                self._arrivals.append((int(own[0]), arrival))
        rows = np.repeat(np.arange(len(most)), list(map(len, before)))
        columns = np.concatenate([*before, np.zeros(0, dtype=np.int64)])
        shape = len(most), len(times)
        return sp.csr_array((np.ones(len(columns)), (rows, columns)), shape), most

    def _memory(self) -> Any:
        """Return rows (3): the memory held in each round."""
        rule, ends = self._starts.instance.memory_rule, np.cumsum(self._outputs)
        columns = np.repeat(np.arange(len(ends)), self._outputs)
        ages = np.arange(len(columns)) - (ends - self._outputs)[columns] + 1
        held = rule.held(self._prompts[columns] - rule.unstored + ages)
        rows = self.epochs[columns] + ages - 1
        return sp.csr_array((held, (rows, columns)), (self._starts.horizon, len(ends)))

    def _memory_differences(self) -> list[list[Any]]:
        """Return the rows of N and of W that replace (3), in blocks over columns X, N and W."""
        horizon, counts = self._starts.horizon, len(self.epochs)

        def at(epochs: IntArray, values: Any) -> Any:
            places = epochs, np.arange(counts)
            return sp.csr_array((values, places), (horizon + 1, counts))[:horizon]

        ends, ones, same = self.epochs + self._outputs, np.ones(counts), sp.eye_array(horizon)
        step = same - sp.eye_array(horizon, k=-1)
        running = at(ends, ones) - at(self.epochs, ones)
        used = at(ends, self._prompts + self._outputs) - at(self.epochs, self._prompts)
        return [[running, step, None], [used, -same, step]]

    def labels(self) -> tuple[list[tuple[str, Any]], list[tuple[str, Any]]]:
        """Return name and key of each column and each row.

        The key of a class is its first request to arrive.
        """
        first, rounds = [int(own[0]) for own in self.classes], range(1, self._starts.horizon + 1)
        owners = [first[k] for k in self.owners]
        columns: list[tuple[str, Any]] = [
            ("x", key) for key in zip(owners, self.epochs.tolist(), strict=True)
        ]
        rows: list[tuple[str, Any]] = [("start_once", i) for i in first]
        rows += [("arrived", key) for key in self._arrivals]
        if self._differences:
            columns += [(name, r) for name in ("running", "memory_used") for r in rounds]
            rows += [("count_running", r) for r in rounds]
        return columns, [*rows, *(("memory", r) for r in rounds)]

    def point(self, schedule: Schedule | FleetSchedule) -> FloatArray:
        """Return a schedule as a point of the program without differences, shape (counts,).

        Raises
        ------
        InvalidValueError
            The schedule has a start that the program does not contain.
        """
        times = on_timeline(self._starts, schedule)
        owner = np.empty(len(times), dtype=np.int64)
        for number, own in enumerate(self.classes):
            owner[own] = number
        span = self._starts.horizon + 1
        known, wanted = self.owners * span + self.epochs, owner * span + times
        places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        if (known[places] != wanted).any():
            index = int(np.argmax(known[places] != wanted))
            name = f"request {self._starts.instance.ids[index]!r}"
            raise InvalidValueError(name, "start_time", int(times[index]), "is not modelled")
        return np.bincount(places, minlength=len(known)).astype(np.float64)

    def starts(self, values: FloatArray) -> IntArray:
        """Return the starts of an integer point, on the timeline, shape (n,); -1 if left out."""
        found = np.full(len(self._starts.instance), -1, dtype=np.int64)
        counts = np.rint(values[: len(self.epochs)]).astype(np.int64)
        for own, span in zip(self.classes, self._spans, strict=True):
            times = np.repeat(self.epochs[span], counts[span])
            times = times[np.argsort(times % self._starts.rounds, kind="stable")]
            if len(times) != len(own) and not (self._starts.optional and len(times) < len(own)):
                name = f"request {self._starts.instance.ids[int(own[0])]!r}"
                raise InvalidValueError(name, "starts", times.tolist(), f"are not {len(own)}")
            found[own[: len(times)]] = times
        return found

    def schedule(self, values: FloatArray) -> Schedule | FleetSchedule:
        """Return the schedule of an integer point, without a check of feasibility."""
        return from_timeline(self._starts, self.starts(values))

    def mean_starts(self, values: FloatArray) -> FloatArray:
        """Return the mean start of each request in a point of the relaxation, shape (n,).

        The starts of a class are assigned to its requests in order of arrival; requests that arrive
        together share the mean of their starts.
        """
        means = np.empty(len(self._starts.instance))
        for own, span in zip(self.classes, self._spans, strict=True):
            shares = np.maximum(values[span], 0.0)
            # Interior-point solutions have tiny positive values; the mean is weighted in any case.
            shares *= len(own) / shares.sum()
            arrivals = self._starts.instance.arrival_times[own]
            ends = np.append(np.flatnonzero(np.diff(arrivals)) + 1, len(own))
            weighted = shares, shares * self.epochs[span]
            passed, sums = (np.append(0, np.cumsum(one)) for one in weighted)
            totals = np.diff(np.interp(ends, passed, sums), prepend=0)
            sizes = np.diff(ends, prepend=0)
            means[own] = np.repeat(totals / sizes, sizes)
        return means
