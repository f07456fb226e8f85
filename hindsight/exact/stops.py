"""Exact search for preemptive schedules, round by round, pruned by prices.

A *state* after round t is what each request has produced: p_i tokens of o_i. Its *cost so far* is
J = sum of C_i - a_i over the completed plus sum of t - a_i over the others that have arrived. From
round to round a set of arrived, unfinished requests runs whose sum of s_i + p_i + 1 is at most M.
The search goes through all states of a round before the next, and leaves out:

* **bound**: with prices q and their K_r (`hindsight.prices.stops`), every completion of a
  state costs at least  sum over completed of C_i - a_i  +  sum over others of h_i(p_i, t)
  -  sum of K_r over r > t,  with h_i from `costs_to_go`. States above the budget go. *Proof*: the
  bound of `prices` applied to the rounds after t alone.
* **maximal sets**: sets to which a further request that could run may be added. *Proof*: let a
  schedule leave request i out of round r although it fits, and let its next token come in round
  r' > r. Produce that token in r instead. Nothing else moves, r' holds less, r still fits, and i
  completes no later. Repeat; the sum of all rounds used falls, so this ends.
* **twins**: of requests alike in (a, s, o) with equally many tokens, one with a smaller index runs
  first. *Proof*: exchange the two from there on.
* **merge and dominance**: of two states x, y after the same round with p_x >= p_y throughout and
  J_x <= J_y, y goes. *Proof*: complete x as y is completed, but leave out of each request's rounds
  those that produce tokens it has already. Memory never exceeds that of y's completion: at every
  round a request that runs in both has produced equally many tokens in both (it skips until it is
  behind no more). Each request completes no later, so the total is no larger.

*Why they are sound together.* Let f(x) be the least cost of completing state x. The first two rules
say that f(x) is reached through maximal sets that respect the order of twins. Merge and dominance
remove y only where a state x of the same round, earlier in the order by (J, -sum of p), stays with
J_x + (what x still adds) <= J_y + (what y still adds); such removals cannot run in a circle. The
bound never exceeds the cost of a completion. So, round by round, while no schedule of the least
cost has been found, a state is kept from which it can be reached, provided that it is within the
budget; if no state is left, none is: every preemptive schedule costs at least budget + 1, or as
much as the best found.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hindsight.exact.states import SearchOutcome, SearchStatus
from hindsight.prices.stops import PreemptivePrices, costs_to_go, heaviest_sets
from hindsight.runtime.compilation import njit, step
from instances import Instance, PreemptiveSchedule
from instances.arrays import IntArray, RequestColumns

SLICE = 2_000
"""States expanded between two polls of ``should_stop``."""

DOMINANCE_WINDOW = 30
"""Number of cheaper states that a state is compared with."""

Progress = npt.NDArray[np.int16]


class _Task(NamedTuple):
    """Problem data of the search.

    Attributes
    ----------
    requests : RequestColumns
        The problem.
    twin : int64 array, shape (n,)
        Previous request with equal arrival and lengths, or -1.
    offset : int64 array, shape (n,)
        First of the o + 1 entries of each request in arrays with one entry for each progress.
    marks : uint64 array
        Random numbers, one for each progress of each request, for hashes of states.
    unit : int
        Number of price units in a round of latency.
    """

    requests: RequestColumns
    twin: IntArray
    offset: IntArray
    marks: npt.NDArray[np.uint64]
    unit: int


class _Round(NamedTuple):
    """Data of one round that the bounds use.

    Attributes
    ----------
    number : int
        r, from 1 on.
    to_go : int64 array
        h_i(p, r) at entry offset + p; 0 for completed requests.
    tail : int
        Sum of K over later rounds.
    budget : int
        Largest total latency of interest, in units of prices.
    """

    number: int
    to_go: IntArray
    tail: int
    budget: int


class _States(NamedTuple):
    """States after one round, with the states they came from.

    Attributes
    ----------
    progress : int16 array, shape (room, n)
        Tokens produced.
    costs, bounds, parents : int64 array, shape (room,)
        Latency of completed requests, bounds in units of prices, and states of the round before.
    """

    progress: Progress
    costs: IntArray
    bounds: IntArray
    parents: IntArray

    def at(self, rows: IntArray | slice) -> _States:
        """Select states by row."""
        progress, costs, bounds, parents = self
        return _States(progress[rows], costs[rows], bounds[rows], parents[rows])


class _Table(NamedTuple):
    """Hash table of states: their numbers, -1 where free, and the hash of each state."""

    slots: IntArray
    keys: npt.NDArray[np.uint64]


class _Choice(NamedTuple):
    """Requests that may run in a state, by gain, and the chosen ones.

    Attributes
    ----------
    candidates, size, gain : int64 array, shape (n,)
        Requests, the tokens they would hold, and how much the bound falls if they run.
    rest : int64 array, shape (n + 1,)
        Sum of the positive gains of a candidate and all after it.
    chosen : bool array, shape (n,)
        Whether each candidate runs.
    runs : bool array, shape (n,)
        Whether each request runs.
    row : int16 array, shape (n,)
        Progress of the child.
    """

    candidates: IntArray
    size: IntArray
    gain: IntArray
    rest: IntArray
    chosen: npt.NDArray[np.bool_]
    runs: npt.NDArray[np.bool_]
    row: Progress


@step
def _slot(table: _Table, key: np.uint64, progress: Progress, row: Progress) -> int:
    """Return the place of a state with this progress, or the empty slot for it."""
    slots, keys = table
    size = len(slots)
    at: Any = np.int64(key % np.uint64(size))
    while slots[at] >= 0:
        child = slots[at]
        i = 0
        if keys[child] == key:
            while i < len(row) and progress[child, i] == row[i]:
                i += 1
        if i == len(row):
            break
        at = at + 1 if at + 1 < size else 0
    return int(at)


@step
def _candidates(
    state: int, states: _States, task: _Task, now: _Round, choice: _Choice
) -> tuple[int, int]:
    """List requests that may run, largest gain first; return how many, and the bound if none runs.

    The bound is -1 if every request is complete.
    """
    (prompt, output, arrival, _), _, offset, _, unit = task
    candidates, size, gain, rest, _, runs, _ = choice
    r, to_go, tail, _ = now
    total = 0
    is_complete = True
    base = states.costs[state] * unit - tail
    for i in range(len(output)):
        p = states.progress[state, i]
        runs[i] = False
        if p == output[i]:
            continue
        is_complete = False
        base += to_go[offset[i] + p]
        if arrival[i] >= r:
            continue
        later = unit * (r - arrival[i]) if p + 1 == output[i] else 0
        own_gain = to_go[offset[i] + p] - to_go[offset[i] + p + 1] - later
        # Ties go by index, so that twins stay in order.
        y = total
        while y > 0 and own_gain > gain[y - 1]:
            gain[y], size[y], candidates[y] = gain[y - 1], size[y - 1], candidates[y - 1]
            y -= 1
        gain[y], size[y], candidates[y] = own_gain, prompt[i] + p + 1, i
        total += 1
    rest[total] = 0
    for x in range(total - 1, -1, -1):
        rest[x] = rest[x + 1] + max(0, gain[x])
    return (-1 if is_complete else total), base


@step
def _may_run(
    x: int, room: int, state: int, progress: Progress, twin: IntArray, choice: _Choice
) -> bool:
    """Tell whether a candidate fits and no twin with equal progress should run before it."""
    i = choice.candidates[x]
    before = twin[i]
    while before >= 0 and progress[state, before] != progress[state, i]:
        before = twin[before]
    return bool(choice.size[x] <= room and (before < 0 or choice.runs[before]))


@step
def _is_maximal(total: int, room: int, choice: _Choice) -> bool:
    """Tell whether no further candidate fits."""
    x = 0
    while x < total and (choice.chosen[x] or choice.size[x] > room):
        x += 1
    return bool(x == total)


@step
def _add_child(
    count: int,
    bound: int,
    state: int,
    states: _States,
    task: _Task,
    round_index: int,
    choice: _Choice,
    found: tuple[_States, _Table],
) -> int:
    """Add the child in which the chosen requests run, or merge it; return the count, -1 if full."""
    (progress, costs, bounds, parents), table = found
    requests, _, offset, marks, unit = task
    row = choice.row
    key = np.uint64(0)
    cost = states.costs[state]
    for i in range(len(row)):
        row[i] = states.progress[state, i]
        if choice.runs[i]:
            row[i] += 1
            if row[i] == requests.output_lengths[i]:
                cost += round_index - requests.arrival_times[i]
        key ^= marks[offset[i] + row[i]]
    at = _slot(table, key, progress, row)
    child = table.slots[at]
    if child < 0:
        if count == len(progress):
            return -1
        table.slots[at] = count
        table.keys[count] = key
        for i in range(len(row)):
            progress[count, i] = row[i]
        costs[count], bounds[count], parents[count] = cost, bound, state
        return count + 1
    if cost < costs[child]:
        bounds[child] += (cost - costs[child]) * unit
        costs[child] = cost
        parents[child] = state
    return count


@partial(njit, makes_arrays=True)
def expand_states(
    begin: int,
    end: int,
    count: int,
    task: _Task,
    now: _Round,
    states: _States,
    found: tuple[_States, _Table],
) -> int:
    """Add the children of states begin .. end - 1; return their number, or -1 if too many."""
    n = states.progress.shape[1]
    candidates, size, gain, rest = np.zeros((4, n + 1), dtype=np.int64)
    chosen, runs = np.zeros((2, n), dtype=np.bool_)
    row = np.zeros(n, dtype=np.int16)
    choice = _Choice(candidates, size, gain, rest, chosen, runs, row)
    twin, limit = task.twin, task.requests.memory_limit
    r, budget = now.number, now.budget
    for state in range(begin, end):
        total, base = _candidates(state, states, task, now, choice)
        if total < 0:
            continue
        need = base - budget
        depth, room, gained = 0, limit, 0
        while True:
            # Go down: include every candidate that fits, while the gain can still suffice.
            while depth < total and gained + rest[depth] >= need:
                chosen[depth] = _may_run(depth, room, state, states.progress, twin, choice)
                if chosen[depth]:
                    runs[candidates[depth]] = True
                    room -= size[depth]
                    gained += gain[depth]
                depth += 1
            if depth == total and gained >= need and _is_maximal(total, room, choice):
                bound = base - gained
                count = _add_child(count, bound, state, states, task, r, choice, found)
                if count < 0:
                    return -1
            # Go back to the last included candidate, and exclude it.
            depth -= 1
            while depth >= 0 and not chosen[depth]:
                depth -= 1
            if depth < 0:
                break
            chosen[depth] = False
            runs[candidates[depth]] = False
            room += size[depth]
            gained -= gain[depth]
            depth += 1
    return count


@njit
def dominated(
    progress: Progress, spent: IntArray, order: IntArray, window: int, gone: npt.NDArray[np.bool_]
) -> None:
    """Mark states that are dominated by one of the ``window`` cheaper states before them."""
    n = progress.shape[1]
    for position in range(1, len(order)):
        y = order[position]
        for back in range(1, min(window, position) + 1):
            x = order[position - back]
            if gone[x] or spent[x] > spent[y]:
                continue
            i = 0
            while i < n and progress[x, i] >= progress[y, i]:
                i += 1
            if i == n:
                gone[y] = True
                break


class PreemptiveSearch:
    """Exact search under given prices."""

    def __init__(self, instance: Instance, prices: PreemptivePrices) -> None:
        self._instance = instance
        unit, table = prices.denominator, prices.numerators
        prompt, output, arrival, _ = instance.columns
        offset = np.concatenate([[0], np.cumsum(output + 1)[:-1]]).astype(np.int64)
        self._last = table.shape[0] - 1
        # Costs to go after each round, o + 1 entries for each request; 0 when completed.
        self._to_go = np.zeros((self._last + 1, int((output + 1).sum())), dtype=np.int64)
        rows = list(zip(*(one.tolist() for one in (prompt, output, arrival)), strict=True))
        seen: dict[tuple[int, ...], int] = {}
        twin = []
        for i, (request, first) in enumerate(zip(rows, offset.tolist(), strict=True)):
            costs = np.zeros((request[1], self._last + 1), dtype=np.int64)
            costs_to_go(table, np.int64(unit), request, costs)
            self._to_go[:, first : first + len(costs)] = costs.T
            twin.append(seen.get(request, -1))
            seen[request] = i
        heaviest = np.zeros(self._last + 1, dtype=np.int64)
        heaviest_sets(table, instance.columns, heaviest)
        self._tails = np.concatenate([np.cumsum(heaviest[::-1])[::-1][1:], [0]])
        marks = np.random.default_rng(7).integers(0, 2**63, self._to_go.shape[1]).astype(np.uint64)
        self._task = _Task(instance.columns, np.array(twin, dtype=np.int64), offset, marks, unit)

    @property
    def root(self) -> int:
        """Return the bound of the empty schedule, in units of 1 / denominator."""
        return int(self._to_go[0, self._task.offset].sum() - self._tails[0])

    def run(
        self,
        budget: int,
        max_states: int,
        should_stop: Callable[[], bool],
        *,
        window: int = DOMINANCE_WINDOW,
        width: int | None = None,
    ) -> SearchOutcome[PreemptiveSchedule]:
        """Cover every schedule of total latency at most ``budget``.

        Parameters
        ----------
        budget : int
            Largest total latency to search for; lowered to one less than each schedule found.
        max_states : int
            Most states of one round; the run ends if there are more.
        should_stop : Callable[[], bool]
            Polled every few thousand states.
        window : int, default 30
            Number of cheaper states that a state is compared with for dominance; 0 disables it.
        width : int or None, default None
            Most states kept per round, those with the least bounds: a beam search, whose schedules
            are feasible but which proves nothing. None keeps all.
        """
        layers = [_new_states(1, len(self._instance))]
        best: tuple[int, int] | None = None
        status: SearchStatus = "exhausted"
        states = peak = 1
        while len(layers[-1].progress):
            found = self._children(layers, budget, max_states, should_stop)
            if not isinstance(found, _States):
                return SearchOutcome(found, None, states, peak)
            kept = self._not_dominated(found, len(layers), window)
            if width is not None and len(kept) > width:
                kept = kept[np.argpartition(found.bounds[kept], width)[:width]]
            if width is not None and len(kept) < len(found.progress):
                status = "beam"
            layer = found.at(kept)
            layers.append(layer)
            states, peak = states + len(kept), max(peak, len(kept))
            # Without prices in later rounds, a complete state may still exceed the budget.
            is_complete = (layer.progress == self._task.requests.output_lengths).all(axis=1)
            complete = np.flatnonzero(is_complete & (layer.costs <= budget))
            if len(complete):
                # States of equal progress were merged, so there is only one such state.
                budget = int(layer.costs[complete[0]]) - 1
                best = (len(layers) - 1, int(complete[0]))
        schedule = None if best is None else self._read_back(layers, *best)
        return SearchOutcome(status, schedule, states, peak)

    def _children(
        self,
        layers: list[_States],
        budget: int,
        max_states: int,
        should_stop: Callable[[], bool],
    ) -> _States | SearchStatus:
        """Return all children of the last layer, or the reason why there are none."""
        now, last, unit = len(layers), layers[-1], self._task.unit
        tail = int(self._tails[now]) if now <= self._last else 0
        in_round = _Round(now, self._costs_after(now), tail, budget * unit)
        states = len(last.progress)
        room = min(max_states, max(1024, 4 * states))
        while True:
            # Repeat with four times the room until it suffices.
            found = _new_states(room, len(self._instance))
            table = _Table(np.full(2 * room, -1, dtype=np.int64), np.zeros(room, dtype=np.uint64))
            begin = count = 0
            while begin < states and count >= 0:
                if should_stop():
                    return "stopped"
                end = min(begin + SLICE, states)
                count = expand_states(begin, end, count, self._task, in_round, last, (found, table))
                begin = end
            if count >= 0:
                return found.at(slice(count))
            if room == max_states:
                return "states"
            room = min(max_states, 4 * room)

    def _costs_after(self, t: int) -> IntArray:
        """Return costs to go after round t; past the last price a round costs a unit."""
        column: IntArray = self._to_go[min(t, self._last)].copy()
        if t > self._last:
            column += (t - self._last) * self._task.unit
            column[self._task.offset + self._task.requests.output_lengths] = 0
        return column

    def _not_dominated(self, found: _States, r: int, window: int) -> IntArray:
        """Return the indices of the children that no other child dominates."""
        _, output, arrival, _ = self._task.requests
        progress = found.progress
        waiting = (progress < output) & (arrival < r)
        spent = found.costs + (waiting * (r - arrival)).sum(axis=1)
        gone = np.zeros(len(progress), dtype=np.bool_)
        order = np.lexsort((-progress.sum(axis=1, dtype=np.int64), spent))
        if window:
            dominated(progress, spent, order, window, gone)
        return np.flatnonzero(~gone)

    def _read_back(self, layers: list[_States], last: int, at: int) -> PreemptiveSchedule:
        rounds: list[list[int]] = [[] for _ in range(len(self._instance))]
        for r in range(last, 0, -1):
            layer = layers[r]
            parent = int(layer.parents[at])
            for i in np.flatnonzero(layer.progress[at] != layers[r - 1].progress[parent]):
                rounds[i].append(r)
            at = parent
        return PreemptiveSchedule.from_rounds(self._instance, [own[::-1] for own in rounds])


def _new_states(room: int, n: int) -> _States:
    return _States(np.zeros((room, n), dtype=np.int16), *np.zeros((3, room), dtype=np.int64))
