"""Exact search for preemptive schedules, round by round, pruned by prices.

A *state* after round t is what each request has produced: p_i tokens of o_i. Its *cost so far* is
J = sum of C_i - a_i over the completed plus sum of t - a_i over the others that have arrived. From
round to round a set of arrived, unfinished requests runs whose sum of s_i + p_i + 1 is at most M.
The search goes through all states of a round before the next, and leaves out:

* **bound**: with prices q and their K_r (`hindsight.preemption.prices`), every completion of a
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
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from hindsight.preemption.prices import PreemptivePrices
from hindsight.runtime.compilation import njit
from instances import Instance, PreemptiveSchedule
from instances.arrays import IntArray

from .prices import costs_to_go, heaviest_sets

SearchStatus = Literal["exhausted", "beam", "states", "stopped"]

SLICE = 2_000
"""States expanded between two questions whether to stop."""

DOMINANCE_WINDOW = 30
"""Cheaper states that a state is compared with."""

Progress = npt.NDArray[np.int16]


@njit
def _slot(
    slots: IntArray, keys: npt.NDArray[np.uint64], key: np.uint64, children: Progress, row: Progress
) -> int:
    """Where a state of this progress is, or the empty slot for it."""
    size = len(slots)
    at: Any = np.int64(key % np.uint64(size))
    while slots[at] >= 0:
        child = slots[at]
        if keys[child] == key:
            same = True
            for i in range(len(row)):
                if children[child, i] != row[i]:
                    same = False
                    break
            if same:
                return int(at)
        at = at + 1 if at + 1 < size else 0
    return int(at)


@njit
def expand_states(
    progress: Progress,
    costs: IntArray,
    begin: int,
    end: int,
    count: int,
    round_index: int,
    arrival: IntArray,
    prompt: IntArray,
    output: IntArray,
    twin: IntArray,
    limit: int,
    unit: int,
    to_go: IntArray,
    offset: IntArray,
    tail: int,
    budget: int,
    marks: npt.NDArray[np.uint64],
    slots: IntArray,
    keys: npt.NDArray[np.uint64],
    children: Progress,
    child_costs: IntArray,
    child_bounds: IntArray,
    parents: IntArray,
) -> int:
    """Children of states ``begin`` .. ``end - 1``; the number of children so far, -1 if too many.

    ``costs`` are latencies of completed requests. ``to_go[offset[i] + p]`` is h_i(p, round_index),
    the last entry of each request being 0. ``twin[i]`` is the previous request alike, or -1.
    """
    n = progress.shape[1]
    candidates = np.empty(n, dtype=np.int64)
    size = np.empty(n, dtype=np.int64)
    gain = np.empty(n, dtype=np.int64)
    rest = np.empty(n + 1, dtype=np.int64)
    chosen = np.zeros(n, dtype=np.bool_)
    in_set = np.zeros(n, dtype=np.bool_)
    row = np.empty(n, dtype=progress.dtype)
    for state in range(begin, end):
        total = 0
        unfinished = 0
        base = costs[state] * unit - tail
        for i in range(n):
            p = progress[state, i]
            in_set[i] = False
            if p == output[i]:
                continue
            unfinished += 1
            base += to_go[offset[i] + p]
            if arrival[i] >= round_index:
                continue
            later = unit * (round_index - arrival[i]) if p + 1 == output[i] else 0
            candidates[total] = i
            size[total] = prompt[i] + p + 1
            gain[total] = to_go[offset[i] + p] - to_go[offset[i] + p + 1] - later
            total += 1
        if unfinished == 0:
            continue
        # Largest gain first; ties by index, so that twins stand in order.
        for x in range(1, total):
            y = x
            while y > 0 and gain[y] > gain[y - 1]:
                gain[y], gain[y - 1] = gain[y - 1], gain[y]
                size[y], size[y - 1] = size[y - 1], size[y]
                candidates[y], candidates[y - 1] = candidates[y - 1], candidates[y]
                y -= 1
        rest[total] = 0
        for x in range(total - 1, -1, -1):
            rest[x] = rest[x + 1] + max(0, gain[x])
        need = base - budget
        # Depth first over candidates: chosen[x] says whether candidate x is in.
        depth = 0
        room = limit
        gained = 0
        going_down = True
        while True:
            if going_down and depth < total and gained + rest[depth] >= need:
                i = candidates[depth]
                allowed = size[depth] <= room
                before = twin[i]
                while allowed and before >= 0:
                    if progress[state, before] == progress[state, i]:
                        allowed = in_set[before]
                        break
                    before = twin[before]
                if allowed:
                    chosen[depth] = True
                    in_set[i] = True
                    room -= size[depth]
                    gained += gain[depth]
                else:
                    chosen[depth] = False
                depth += 1
                continue
            if going_down and depth == total and gained >= need:
                maximal = True
                for x in range(total):
                    if not chosen[x] and size[x] <= room:
                        maximal = False
                        break
                if maximal:
                    key = np.uint64(0)
                    cost = costs[state]
                    for i in range(n):
                        row[i] = progress[state, i]
                    for x in range(total):
                        if chosen[x]:
                            i = candidates[x]
                            row[i] += 1
                            if row[i] == output[i]:
                                cost += round_index - arrival[i]
                    for i in range(n):
                        key ^= marks[offset[i] + row[i]]
                    at = _slot(slots, keys, key, children, row)
                    child = slots[at]
                    if child < 0:
                        if count == len(children):
                            return -1
                        child = count
                        count += 1
                        slots[at] = child
                        keys[child] = key
                        children[child, :] = row
                        child_costs[child] = cost
                        child_bounds[child] = base - gained
                        parents[child] = state
                    elif cost < child_costs[child]:
                        child_bounds[child] += (cost - child_costs[child]) * unit
                        child_costs[child] = cost
                        parents[child] = state
            # Back to the last candidate that is in, and leave it out.
            going_down = True
            depth -= 1
            while depth >= 0 and not chosen[depth]:
                depth -= 1
            if depth < 0:
                break
            chosen[depth] = False
            in_set[candidates[depth]] = False
            room += size[depth]
            gained -= gain[depth]
            depth += 1
    return count


@njit
def dominated(
    progress: Progress, spent: IntArray, order: IntArray, window: int, gone: npt.NDArray[np.bool_]
) -> None:
    """Mark states that one of the ``window`` cheaper ones before them dominates."""
    n = progress.shape[1]
    for position in range(1, len(order)):
        y = order[position]
        for back in range(1, min(window, position) + 1):
            x = order[position - back]
            if gone[x] or spent[x] > spent[y]:
                continue
            ahead = True
            for i in range(n):
                if progress[x, i] < progress[y, i]:
                    ahead = False
                    break
            if ahead:
                gone[y] = True
                break


@dataclass(frozen=True, eq=False)
class PreemptiveOutcome:
    """What a run of `PreemptiveSearch` found.

    Attributes
    ----------
    status : SearchStatus
        ``"exhausted"``: every schedule within the budget was covered, a proof; ``"beam"``: states
        were dropped for ``width``; ``"states"``: too many; ``"stopped"``: the caller said so.
    schedule : PreemptiveSchedule or None
        The cheapest found within the budget, or None.
    states, peak : int
        Kept over all rounds, and in one round at most.
    """

    status: SearchStatus
    schedule: PreemptiveSchedule | None
    states: int
    peak: int


class _Layer(NamedTuple):
    """States of one round, and the state of the round before that each came from."""

    progress: Progress
    parents: IntArray


class _Children:
    """Room for the children of a round, and a hash table of their progress."""

    def __init__(self, n: int, room: int) -> None:
        self.slots = np.full(2 * room, -1, dtype=np.int64)
        self.keys = np.zeros(room, dtype=np.uint64)
        self.progress = np.zeros((room, n), dtype=np.int16)
        self.costs, self.bounds, self.parents = np.zeros((3, room), dtype=np.int64)

    @property
    def columns(self) -> tuple[npt.NDArray[Any], ...]:
        """As `expand_states` takes them."""
        return self.slots, self.keys, self.progress, self.costs, self.bounds, self.parents


class PreemptiveSearch:
    """Exact search under given prices."""

    def __init__(self, instance: Instance, prices: PreemptivePrices) -> None:
        self._instance = instance
        self._unit = prices.denominator
        self._columns = (
            instance.arrival_times,
            instance.prompt_lengths,
            instance.output_lengths,
        )
        arrival, prompt, output = self._columns
        self._offset = np.concatenate([[0], np.cumsum(output + 1)[:-1]]).astype(np.int64)
        table = prices.numerators
        self._last = table.shape[0] - 1
        # Costs to go after each round, one block of o + 1 entries a request; 0 when completed.
        self._to_go = np.zeros((self._last + 1, int((output + 1).sum())), dtype=np.int64)
        for i in range(len(instance)):
            costs = np.zeros((int(output[i]), self._last + 1), dtype=np.int64)
            costs_to_go(table, np.int64(self._unit), arrival[i], prompt[i], output[i], costs)
            first = self._offset[i]
            self._to_go[:, first : first + int(output[i])] = costs.T
        heaviest = np.zeros(self._last + 1, dtype=np.int64)
        heaviest_sets(table, *self._columns, instance.memory_limit, heaviest)
        self._tails = np.concatenate([np.cumsum(heaviest[::-1])[::-1][1:], [0]])
        rng = np.random.default_rng(7)
        self._marks = rng.integers(0, 2**63, self._to_go.shape[1]).astype(np.uint64)
        seen: dict[tuple[int, ...], int] = {}
        twin = []
        for i, row in enumerate(zip(*(column.tolist() for column in self._columns), strict=True)):
            twin.append(seen.get(row, -1))
            seen[row] = i
        self._twin = np.array(twin, dtype=np.int64)

    @property
    def root(self) -> int:
        """Bound of the empty schedule, in units of 1 / denominator."""
        return int(self._to_go[0, self._offset].sum() - self._tails[0])

    def _costs_after(self, t: int) -> IntArray:
        """Costs to go after round t, which may lie beyond the prices: then a round costs a unit."""
        if t <= self._last:
            column: IntArray = self._to_go[t]
            return column
        beyond: IntArray = self._to_go[self._last] + (t - self._last) * self._unit
        ends = self._offset + self._columns[2]
        beyond[ends] = 0
        return beyond

    def run(
        self,
        budget: int,
        max_states: int,
        should_stop: Callable[[], bool],
        *,
        window: int = DOMINANCE_WINDOW,
        width: int | None = None,
    ) -> PreemptiveOutcome:
        """Cover every schedule of total latency at most ``budget``.

        Parameters
        ----------
        budget : int
            Rounds of total latency; lowered to one less than each schedule found.
        max_states : int
            States of one round, above which the run ends.
        should_stop : Callable[[], bool]
            Asked every few thousand states.
        window : int, default 30
            Cheaper states that a state is compared with for dominance; 0 switches it off.
        width : int or None, default None
            Keep only that many states a round, those of the least bounds: a beam search, whose
            schedules are feasible but which proves nothing.
        """
        instance = self._instance
        arrival, prompt, output = self._columns
        n = len(instance)
        progress = np.zeros((1, n), dtype=np.int16)
        costs, parents = np.zeros((2, 1), dtype=np.int64)
        layers = [_Layer(progress, parents)]
        best: tuple[int, int] | None = None
        status: SearchStatus = "exhausted"
        states = peak = 1
        while len(progress):
            r = len(layers)
            to_go = self._costs_after(r)
            tail = int(self._tails[r]) if r <= self._last else 0
            room = min(max_states, max(1024, 4 * len(progress)))
            count = -1
            while count < 0:
                found = _Children(n, room)
                count = 0
                for begin in range(0, len(progress), SLICE):
                    if should_stop():
                        return PreemptiveOutcome("stopped", None, states, peak)
                    count = expand_states(
                        *(progress, costs, begin, min(begin + SLICE, len(progress)), count, r),
                        *(arrival, prompt, output, self._twin, instance.memory_limit),
                        *(self._unit, to_go, self._offset, tail, budget * self._unit),
                        *(self._marks, *found.columns),
                    )
                    if count < 0:
                        break
                if count < 0 and room == max_states:
                    return PreemptiveOutcome("states", None, states, peak)
                room = min(max_states, 4 * room)
            kept = self._kept(found, count, r, window, width)
            if width is not None and len(kept) < count:
                status = "beam"
            progress, costs, parents = (
                found.progress[kept],
                found.costs[kept],
                found.parents[kept],
            )
            layers.append(_Layer(progress, parents))
            states += len(progress)
            peak = max(peak, len(progress))
            # Prices of later rounds may leave an end in that is dearer than the budget.
            complete = np.flatnonzero((progress == output).all(axis=1) & (costs <= budget))
            if len(complete):
                # Equal progress was merged, so there is one such state.
                budget = int(costs[complete[0]]) - 1
                best = (r, int(complete[0]))
        schedule = None if best is None else self._read_back(layers, *best)
        return PreemptiveOutcome(status, schedule, states, peak)

    def _kept(
        self, found: _Children, count: int, r: int, window: int, width: int | None
    ) -> IntArray:
        """Indices of the children that are not dominated and, in a beam, among the best."""
        arrival, _, output = self._columns
        progress = found.progress[:count]
        waiting = (progress < output) & (arrival < r)
        spent = found.costs[:count] + (waiting * (r - arrival)).sum(axis=1)
        gone = np.zeros(count, dtype=np.bool_)
        order = np.lexsort((-progress.sum(axis=1, dtype=np.int64), spent))
        if window:
            dominated(progress, spent, order, window, gone)
        kept = np.flatnonzero(~gone)
        if width is not None and len(kept) > width:
            kept = kept[np.argpartition(found.bounds[kept], width)[:width]]
        return kept

    def _read_back(self, layers: list[_Layer], last: int, at: int) -> PreemptiveSchedule:
        rounds: list[list[int]] = [[] for _ in range(len(self._instance))]
        for r in range(last, 0, -1):
            layer = layers[r]
            parent = int(layer.parents[at])
            for i in np.flatnonzero(layer.progress[at] != layers[r - 1].progress[parent]):
                rounds[i].append(r)
            at = parent
        return PreemptiveSchedule.from_rounds(self._instance, [own[::-1] for own in rounds])
