"""The time-indexed integer program, as arrays: one variable per class of requests and start.

A *class* is all requests with one prompt length s, output length o and weight w, whenever they
arrive. Let X[c, t] be the number of requests of class c that start at t. Given the allowed starts
of each request (`hindsight.exact.starts`), every schedule with these starts satisfies

    (1) minimise    sum w_c (t + o_c) X[c, t] - sum w_i a_i
    (2) subject to  sum_t X[c, t] = n_c                                       for every class c,
    (3)             sum over active (c, t) of (s_c + r - t) X[c, t] <= M      for every round r,
    (4)             sum_{u <= t} X[c, u] <= requests of c that have arrived by t,
                    0 <= X[c, t] <= requests of c that may start at t,

where a_i is the arrival of request i, n_c the size of class c, and M the memory limit. This is the
program of [J25] Equations (1)-(4) with one column for interchangeable starts. Conversely, an
integer X is a schedule: assign the starts of a class, in order, to its requests in order of
arrival. So requests that differ only in their arrival share columns. In the relaxation, a
fractional X is divided among the requests likewise, because each may use all starts of its class
from its arrival on.

*Memory in blocks.* The memory rule replaces s_c + r - t and M in (3) by numbers of blocks.

*Replicas* are segments of one timeline (`hindsight.exact.starts`). The first K - 1 requests to
arrive may use fewer than K replicas, so each of them is a class of its own.

*Requests on time.* If requests may be left out, those with different last starts are in different
classes. (2) has <= in place of =, and (1) counts the requests that are left out. Weights do not
matter.

*Rounding.* An integer X[c, t] is also at most M // (s_c + o_c): requests that start together hold
s_c + o_c tokens each in their last round.

*Differences.* Instead of (3), memory can be counted by the number of running requests N_r and the
memory used W_r in each round r,

    N_r = N_{r-1} + starts - completions at r - 1,    W_r = W_{r-1} + N_r + change at r - 1 <= M,

with five non-zeros per start instead of o + 1. This requires that memory is counted in tokens.

*Makespan.* Binaries ``busy[r]`` are 1 up to the last completion. They replace (1) by their sum.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from instances import FleetSchedule, Instance, InvalidValueError, Schedule
from instances.arrays import FloatArray, IntArray

from .highs import LinearModel
from .starts import StartSets, by_arrival, from_timeline, on_timeline, useful_replicas

Label = tuple[str, Any]
"""Name of a variable or constraint of the Pyomo model, and its index, such as ("x", (0, 3))."""

_Rows = tuple[str, Sequence[Any], dict[str, Any], Any, Any]
"""Rows of one kind: name, indices, coefficient matrices by variable, lower and upper bounds."""


def classes_of(
    instance: Instance, last: IntArray | None = None, *, are_alone: bool = False
) -> list[IntArray]:
    """Return the classes of requests that share variables, as arrays of request indices.

    The indices of a class are in order of arrival. In the integer program of `Program`, the
    variable of a class and a start t is the number of its requests that start at t. Requests of
    a class have the same prompt length, output length and weight, and may use the same replicas.

    Parameters
    ----------
    instance : Instance
        The problem.
    last : int64 array or None, default None
        Last allowed start of each request, shape (n,), if schedules may leave requests out.
        Requests of a class then have the same last start, and may differ in weight. None if
        schedules must start every request.
    are_alone : bool, default False
        Whether each request is a class of its own.
    """
    if are_alone:
        return list(np.arange(len(instance))[:, None])
    order = by_arrival(instance)
    rank = np.empty(len(instance), dtype=np.int64)
    # ``rank`` is the index of the last replica that a request may use. The i-th request to arrive,
    # counted from 0, may use replicas 0 .. i only: replicas are interchangeable, so some optimal
    # schedule obeys this rule. Requests of different ranks are in different classes.
    rank[order] = np.minimum(np.arange(len(instance)), useful_replicas(instance) - 1)
    third = instance.weights if last is None else last
    kinds = np.column_stack([instance.prompt_lengths, instance.output_lengths, third, rank])
    _, number = np.unique(kinds, axis=0, return_inverse=True)
    number = number.ravel()[order]
    ends = np.cumsum(np.bincount(number))
    found: list[IntArray] = np.split(order[np.argsort(number, kind="stable")], ends[:-1])
    return found


class Program:
    """The time-indexed integer program of an instance as arrays, restricted to given starts.

    A class is all requests of equal lengths and weight. The variables X[c, t] are the numbers of
    requests of class c that start at t. The program minimises total latency. Rows are named by the
    equations of [J25]: rows (2) make every request start once, rows (3) limit the memory in each
    round, and rows (4) forbid starts before the arrival. If requests may be left out, the program
    minimises their number, and rows (2) make every request start at most once.

    Parameters
    ----------
    starts : StartSets
        The allowed starts of each request.
    relax : bool, default False
        Build the linear relaxation.
    differences : bool, default False
        Count memory by its changes between consecutive rounds, instead of by rows (3). This adds
        two variables for each round: the number N of running requests and the memory W that they
        use.
    are_alone : bool, default False
        Whether each request is a class of its own.
    makespan : bool, default False
        Minimise the number of rounds up to the last completion instead of total latency. The binary
        variable ``busy`` of a round is 1 if the last completion is in this round or later.

    Attributes
    ----------
    linear : LinearModel
        The program as arrays. The first columns are the variables X. N, W and ``busy`` follow if
        the program has them, each with one column per round. The rows are, in this order, (2), (4),
        and (3) with one row per round. With ``differences``, the rows that define N and then those
        that define W replace (3). The rows of ``busy`` come last.
    classes : list[int64 array]
        Requests of each class in order of arrival.
    owners, epochs : int64 array, shape (variables X,)
        Class c and start t of each variable X[c, t].
    """

    def __init__(
        self,
        starts: StartSets,
        *,
        relax: bool = False,
        differences: bool = False,
        are_alone: bool = False,
        makespan: bool = False,
    ) -> None:
        self._starts, self._rounds = starts, range(1, starts.horizon + 1)
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
        self._first = np.array([own[0] for own in self.classes])
        first = self._first[self.owners]
        self._prompts = instance.prompt_lengths[first]
        self._outputs = instance.output_lengths[first]
        upper = np.concatenate(allowed)
        if not relax:
            rule, ends = instance.memory_rule, self.epochs % starts.rounds + self._outputs
            peaks = rule.held(self._prompts - rule.unstored + self._outputs)
            upper = np.minimum(upper, rule.limits(instance.memory_limit, ends) // peaks)
        costs = instance.weights[first] * (self.epochs % starts.rounds)
        offset = int(instance.weights @ (instance.output_lengths - instance.arrival_times))
        if starts.optional:
            costs, offset = np.full(len(first), -1), len(instance)
        # The first columns are the variables X[c, t], the numbers of requests of class c that start
        # at t. Then follow the variables in ``others``, a dictionary of upper bounds by name. Each
        # name has one variable, and so one column, per round.
        others: dict[str, float] = {}
        rows = self._counting_rows()
        if differences:
            others = {"running": np.inf, "memory_used": instance.memory_limit}
            rows += self._memory_differences()
        else:
            rows.append(self._memory())
        if makespan:
            others["busy"], costs, offset = 1, np.zeros(len(first)), 0
            rows += self._makespan_rows(upper)
        self._others, self._row_keys = list(others), [row[:2] for row in rows]
        is_busy = np.repeat([name == "busy" for name in others], starts.horizon).astype(bool)
        blocks = [[parts.get(name) for name in ("x", *others)] for _, _, parts, _, _ in rows]
        lower = np.concatenate([np.full(len(keys), low, float) for _, keys, _, low, _ in rows])
        most = np.concatenate([np.full(len(keys), high, float) for _, keys, _, _, high in rows])
        self.linear = LinearModel(
            costs=np.append(costs, is_busy).astype(np.float64),
            offset=offset,
            matrix=sp.csc_array(sp.block_array(blocks), dtype=np.float64),
            row_lower=lower,
            row_upper=most,
            column_lower=np.zeros(len(upper) + len(is_busy)),
            column_upper=np.append(upper, np.repeat([*others.values()], starts.horizon)),
            integer=np.append(np.ones(len(upper), np.bool_), is_busy) & (not relax),
        )

    def _block(self, rows: Any, values: Any, size: int, columns: Any = None) -> Any:
        """Return a sparse matrix with ``size`` rows and one column for each variable X[c, t].

        The matrix has values[j] in row rows[j] and column columns[j], or in column j if ``columns``
        is None. ``values`` may also be one number for all entries.
        """
        places = rows, np.arange(len(self.epochs)) if columns is None else columns
        values = np.broadcast_to(values, len(rows))
        return sp.csr_array((values, places), (size, len(self.epochs)))

    def _counting_rows(self) -> list[_Rows]:
        """Return rows (2) and (4) of [J25]: each request starts once, and not before its arrival.

        If requests may be left out, rows (2) allow at most one start instead. A class of equal
        requests has a row (4) for each time at which some of its requests arrive, except the first
        such time. The row allows at most as many starts before this time as requests of the class
        arrive before it.
        """
        arrivals, times = self._starts.instance.arrival_times, self.epochs % self._starts.rounds
        keys, before, most = [], [], []
        for own, span in zip(self.classes, self._spans, strict=True):
            for count in (np.flatnonzero(np.diff(arrivals[own])) + 1).tolist():
                arrival = int(arrivals[own[count]])
                before.append(span.start + np.flatnonzero(times[span] < arrival))
                most.append(count)
                keys.append((int(own[0]), arrival))
        owners = np.repeat(np.arange(len(most)), list(map(len, before)))
        columns = np.concatenate([*before, np.zeros(0, dtype=np.int64)])
        sizes = np.array(list(map(len, self.classes)))
        once = {"x": self._block(self.owners, 1, len(sizes))}
        arrived = {"x": self._block(owners, 1, len(most), columns)}
        return [
            ("start_once", self._first.tolist(), once, sizes * (not self._starts.optional), sizes),
            ("arrived", keys, arrived, -np.inf, most),
        ]

    def _memory(self) -> _Rows:
        """Return rows (3) of [J25]: in each round, all requests together fit into memory."""
        rule, ends = self._starts.instance.memory_rule, np.cumsum(self._outputs)
        columns = np.repeat(np.arange(len(ends)), self._outputs)
        ages = np.arange(len(columns)) - (ends - self._outputs)[columns] + 1
        held = rule.held(self._prompts[columns] - rule.unstored + ages)
        rows = self.epochs[columns] + ages - 1
        blocks = {"x": self._block(rows, held, self._starts.horizon, columns)}
        rounds = np.arange(self._starts.horizon) % self._starts.rounds + 1
        limits = rule.limits(self._starts.instance.memory_limit, rounds)
        return "memory", self._rounds, blocks, -np.inf, limits

    def _memory_differences(self) -> list[_Rows]:
        """Return the rows that count memory by differences between rounds, in place of rows (3).

        They define the number N_r of running requests and the memory W_r that they use in round r.
        Epoch r - 1 is the time between rounds r - 1 and r. N_r = N_{r-1} + (starts at this epoch) -
        (completions at this epoch). W_r = W_{r-1} + N_r + (prompts of the requests that start at
        this epoch) - (prompt and output tokens of the requests that complete at this epoch). N_r is
        added because each running request stores one more token per round.
        """
        horizon = self._starts.horizon
        ends, same = self.epochs + self._outputs, sp.eye_array(horizon)
        running = self._block(ends, 1, horizon + 1) - self._block(self.epochs, 1, horizon + 1)
        used = self._block(ends, self._prompts + self._outputs, horizon + 1)
        used -= self._block(self.epochs, self._prompts, horizon + 1)
        step = same - sp.eye_array(horizon, k=-1)
        counts = {"x": running[:horizon], "running": step}
        memory = {"x": used[:horizon], "running": -same, "memory_used": step}
        return [
            ("count_running", self._rounds, counts, 0, 0),
            ("memory", self._rounds, memory, 0, 0),
        ]

    def _makespan_rows(self, sizes: IntArray) -> list[_Rows]:
        """Return the rows of ``busy``: busy[r] <= busy[r - 1], and X[c, t] <= size * busy[t + o_c].

        X[c, t] counts the requests of class c (all requests of equal lengths and weight) that start
        at t and complete in round t + o_c. ``sizes`` has an entry ``size`` for each X[c, t], its
        upper bound. If such a request starts, the second kind of row makes the binary busy[t + o_c]
        1, and the first kind makes ``busy`` 1 in all earlier rounds.
        """
        horizon = self._starts.horizon
        ends = self.epochs % self._starts.rounds + self._outputs - 1
        falls = (sp.eye_array(horizon) - sp.eye_array(horizon, k=-1)).tocsr()[1:]
        completed = {"x": sp.eye_array(len(ends)), "busy": -self._block(ends, sizes, horizon).T}
        return [
            ("no_gap", self._rounds[1:], {"busy": falls}, -np.inf, 0),
            ("completed", self._keys(), completed, -np.inf, 0),
        ]

    def _keys(self) -> list[tuple[int, int]]:
        owners = self._first[self.owners]
        return list(zip(owners.tolist(), self.epochs.tolist(), strict=True))

    def labels(self) -> tuple[list[Label], list[Label]]:
        """Return the names and indices of all columns and of all rows in the Pyomo model.

        Columns are variables and rows are constraints. A class of equal requests is named by the
        index of its first request to arrive.
        """
        columns = [("x", self._keys()), *((name, self._rounds) for name in self._others)]
        variables = [(name, key) for name, keys in columns for key in keys]
        return variables, [(name, key) for name, keys in self._row_keys for key in keys]

    def point(self, schedule: Schedule | FleetSchedule) -> FloatArray:
        """Return the values of the variables X[c, t] for a schedule, shape (variables,).

        X[c, t] is the number of requests of class c (all requests of equal lengths and weight) that
        start at t. The program must have no other variables, such as ``busy``.

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
            raise InvalidValueError(name, "start_time", int(times[index]), "is not in the program")
        return np.bincount(places, minlength=len(known)).astype(np.float64)

    def starts(self, values: FloatArray) -> IntArray:
        """Return the start of each request for integer values of the variables, shape (n,).

        The start is -1 if the request is left out. For a fleet, start t on replica k is returned as
        k H + t, where H is the number of rounds of each replica.

        Raises
        ------
        InvalidValueError
            For a class (all requests of equal lengths and weight), the number of starts in
            ``values`` is not the number of its requests.
        """
        found = np.full(len(self._starts.instance), -1, dtype=np.int64)
        counts = np.rint(values[: len(self.epochs)]).astype(np.int64)
        for own, span in zip(self.classes, self._spans, strict=True):
            times = np.repeat(self.epochs[span], counts[span])
            times = times[np.argsort(times % self._starts.rounds, kind="stable")]
            if len(times) != len(own) and not (self._starts.optional and len(times) < len(own)):
                name = f"request {self._starts.instance.ids[int(own[0])]!r}"
                raise InvalidValueError(name, "starts", times.tolist(), f"must number {len(own)}")
            found[own[: len(times)]] = times
        return found

    def schedule(self, values: FloatArray) -> Schedule | FleetSchedule:
        """Return the schedule for integer values of the variables, which may be infeasible."""
        return from_timeline(self._starts, self.starts(values))

    def mean_starts(self, values: FloatArray) -> FloatArray:
        """Return the mean start of each request for fractional values of the variables, shape (n,).

        The variable X[c, t] is the number of requests of class c (all requests of equal lengths and
        weight) that start at t, here a fraction. The first request of a class to arrive takes the
        earliest starts t, up to a sum of 1 of their values, the second request takes the next ones,
        and so on. The mean start of a request is the mean of these t, weighted by the values that
        it takes. Requests of a class that arrive at the same time get their common mean.
        """
        means = np.empty(len(self._starts.instance))
        for own, span in zip(self.classes, self._spans, strict=True):
            shares = np.maximum(values[span], 0.0)
            # The values of a class (requests of equal lengths and weight) should sum to the number
            # of its requests. In interior-point solutions this sum is only approximate, so scale
            # the values.
            shares *= len(own) / shares.sum()
            arrivals = self._starts.instance.arrival_times[own]
            ends = np.append(np.flatnonzero(np.diff(arrivals)) + 1, len(own))
            weighted = shares, shares * self.epochs[span]
            passed, sums = (np.append(0, np.cumsum(one)) for one in weighted)
            totals = np.diff(np.interp(ends, passed, sums), prepend=0)
            sizes = np.diff(ends, prepend=0)
            means[own] = np.repeat(totals / sizes, sizes)
        return means
