"""Compiled loops of the exact search for preemptive schedules (`hindsight.exact.stops`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from hindsight.runtime.compilation import njit, step
from instances.arrays import IntArray, RequestColumns

Progress = npt.NDArray[np.int16]


class Choice(NamedTuple):
    """Workspace: the requests that may run next in a state (candidates), and the set chosen to run.

    A state is the number of tokens that each request has produced after some round. Its child is
    the state after the next round, in which the chosen requests run.

    Attributes
    ----------
    candidates, size, gain : int64 array, shape (n + 1,)
        ``candidates``: indices of the candidates by decreasing gain. ``size``: tokens that each
        holds if it runs. ``gain``: lower bound on total latency if the candidate does not run,
        minus this bound if it runs, in price units (`Task.unit` price units are one round).
    rest : int64 array, shape (n + 1,)
        For each candidate, the sum of the positive gains of it and of all later candidates, in
        price units.
    chosen : bool array, shape (n,)
        Entry j: whether the request ``candidates[j]`` is chosen to run.
    runs : bool array, shape (n,)
        Entry i: whether request i is chosen to run.
    row : int16 array, shape (n,)
        Tokens that each request has produced in the child, after the round.
    """

    candidates: IntArray
    size: IntArray
    gain: IntArray
    rest: IntArray
    chosen: npt.NDArray[np.bool_]
    runs: npt.NDArray[np.bool_]
    row: Progress

    @classmethod
    def room(cls, n: int) -> Choice:
        """Allocate arrays of zeros for n requests."""
        flags = np.zeros((2, n), dtype=np.bool_)
        return cls._make([*np.zeros((4, n + 1), np.int64), *flags, np.zeros(n, np.int16)])


class Task(NamedTuple):
    """Data of the problem, and of the present round of the search for preemptive schedules.

    Attributes
    ----------
    requests : RequestColumns
        The problem.
    twin : int64 array, shape (n,)
        For each request, the last identical one (equal arrival and lengths) with a smaller index,
        or -1 if there is none.
    offset : int64 array, shape (n,)
        Index of the first entry of each request in ``marks`` and ``to_go``. A request with o output
        tokens has o + 1 entries in them, one for each number 0 .. o of produced tokens.
    marks : uint64 array
        Random numbers for the hashes of states: one for each request and number of tokens that it
        may have produced.
    unit : int
        Number of price units that one round of latency costs. All prices and bounds are integers in
        these units.
    choice : Choice
        Workspace.
    round : int
        The round r in which requests are chosen to run, counted from 1.
    to_go : int64 array
        At entry offset[i] + p, for request i with p tokens produced after round r: the least sum of
        its latency and the prices of the memory in its remaining rounds, in price units. It is 0
        for completed requests.
    tail : int
        Sum of the capacities of all rounds after r, in price units. The capacity of a round is the
        largest total price of requests that fit into memory together in this round. The lower bound
        contains the prices that requests pay, minus these capacities.
    budget : int
        Largest total latency to search for, in price units.
    """

    requests: RequestColumns
    twin: IntArray
    offset: IntArray
    marks: npt.NDArray[np.uint64]
    unit: int
    choice: Choice
    round: int
    to_go: IntArray
    tail: int
    budget: int


class States(NamedTuple):
    """States after one round of the search for preemptive schedules.

    The arrays have ``room`` rows, one for each state; rows after the states found so far are free.

    Attributes
    ----------
    progress : int16 array, shape (room, n)
        Tokens that each request has produced.
    costs, bounds, parents : int64 array, shape (room,)
        ``costs``: total latency of the completed requests of each state, in rounds. ``bounds``:
        lower bound on the total latency of schedules through the state, in price units (`Task.unit`
        price units are one round). ``parents``: index of the state after the previous round from
        which the state was reached.
    keys : uint64 array, shape (room,)
        Hash of each state.
    """

    progress: Progress
    costs: IntArray
    bounds: IntArray
    parents: IntArray
    keys: npt.NDArray[np.uint64]

    @classmethod
    def room(cls, room: int, n: int) -> States:
        """Allocate arrays of zeros for ``room`` states of n requests."""
        columns = np.zeros((3, room), dtype=np.int64)
        return cls._make([np.zeros((room, n), np.int16), *columns, np.zeros(room, np.uint64)])

    def at(self, rows: IntArray | slice) -> States:
        """Return the rows ``rows`` of all arrays: the states with these indices."""
        return States._make(column[rows] for column in self)


@step
def _slot(slots: IntArray, key: np.uint64, found: States, row: Progress) -> int:
    """Return the hash table's slot of the state with the produced tokens ``row``, or a free slot.

    ``row`` has the number of tokens that each request has produced, and ``key`` is its hash. The
    hash table ``slots`` holds indices of states in ``found`` plus 1, and 0 in free slots. If no
    state in ``found`` has these tokens, return the free slot in which it belongs.
    """
    size = len(slots)
    at: Any = np.int64(key % np.uint64(size))
    while slots[at] > 0:
        child = slots[at] - 1
        i = 0
        if found.keys[child] == key:
            while i < len(row) and found.progress[child, i] == row[i]:
                i += 1
        if i == len(row):
            break
        at = at + 1 if at + 1 < size else 0
    return int(at)


@step
def _candidates(state: int, states: States, task: Task) -> tuple[int, int]:
    """List the requests that may run next in a state, the candidates, by decreasing gain.

    A state is the number of tokens that each request has produced after a round. The gain of a
    request is the decrease of the lower bound on total latency if the request runs in the next
    round. The function writes the list to ``task.choice``. It returns two numbers: the number of
    candidates (-1 if every request is complete), and the lower bound on total latency if no request
    runs in the next round, in price units (`Task.unit` of them are one round).
    """
    prompt, output, arrival, _ = task.requests
    candidates, size, gain, rest, _, runs, _ = task.choice
    r, unit, to_go = task.round, task.unit, task.to_go
    total = 0
    is_complete = True
    base = states.costs[state] * unit - task.tail
    for i in range(len(output)):
        p = states.progress[state, i]
        runs[i] = False
        if p == output[i]:
            continue
        is_complete = False
        at = task.offset[i] + p
        base += to_go[at]
        if arrival[i] >= r:
            continue
        later = unit * (r - arrival[i]) if p + 1 == output[i] else 0
        own_gain = to_go[at] - to_go[at + 1] - later
        # Insert request i into the list of candidates (requests that may run next) by decreasing
        # gain, the decrease of the lower bound on total latency if the request runs. Of equal
        # gains, the smaller index comes first, so identical requests with equally many tokens stay
        # in order.
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
def _may_run(x: int, room: int, state: int, progress: Progress, task: Task) -> bool:
    """Return whether candidate x may be added to the set of requests that run in the next round.

    Candidates are the requests that may run then. Candidate x must fit in ``room`` tokens of free
    memory. Of identical requests that have produced equally many tokens, those with smaller indices
    run first. So if such a request has a smaller index than the request of candidate x, it must be
    in the set already. ``progress`` has the tokens that each request has produced in each state.
    """
    choice, twin = task.choice, task.twin
    i = choice.candidates[x]
    before = twin[i]
    while before >= 0 and progress[state, before] != progress[state, i]:
        before = twin[before]
    return bool(choice.size[x] <= room and (before < 0 or choice.runs[before]))


@step
def _is_maximal(total: int, room: int, choice: Choice) -> bool:
    """Return whether every candidate that fits in memory with the chosen ones is itself chosen.

    Candidates are the requests that may run in the next round. ``total`` is the number of
    candidates, and ``room`` the memory in tokens that the chosen ones leave free.
    """
    x = 0
    while x < total and (choice.chosen[x] or choice.size[x] > room):
        x += 1
    return bool(x == total)


@step
def _add_child(
    count: int, bound: int, state: int, states: States, task: Task, found: States, slots: IntArray
) -> int:
    """Add the state that is reached if the chosen requests run, or merge it with an equal state.

    A state is the number of tokens that each request has produced after a round. The new state,
    with lower bound ``bound`` on total latency, is written to ``found``. It is reached from the
    state with index ``state`` in ``states``. Of equal states, the one of smaller total latency of
    completed requests is kept. ``slots`` is the hash table of ``found``. ``count`` is the number of
    states in ``found`` before this call. Return their number after the call, or -1 if the arrays
    are full.
    """
    requests, choice, row = task.requests, task.choice, task.choice.row
    key, cost = np.uint64(0), states.costs[state]
    for i in range(len(row)):
        row[i] = states.progress[state, i]
        if choice.runs[i]:
            row[i] += 1
            if row[i] == requests.output_lengths[i]:
                cost += task.round - requests.arrival_times[i]
        key ^= task.marks[task.offset[i] + row[i]]
    at = _slot(slots, key, found, row)
    child = slots[at] - 1
    if child < 0:
        if count == len(found.progress):
            return -1
        slots[at], found.keys[count] = count + 1, key
        for i in range(len(row)):
            found.progress[count, i] = row[i]
        found.costs[count], found.bounds[count], found.parents[count] = cost, bound, state
        return count + 1
    if cost < found.costs[child]:
        found.bounds[child] += (cost - found.costs[child]) * task.unit
        found.costs[child], found.parents[child] = cost, state
    return count


@njit
def expand_states(
    begin: int, end: int, count: int, task: Task, states: States, found: States, slots: IntArray
) -> int:
    """Add the children of the states begin .. end - 1 to ``found``, which has ``count`` children.

    A state is the number of tokens that each request has produced after a round. A child is a state
    after the next round, for one set of requests that run in it. The sets are enumerated depth
    first: each request that may run (candidate) is first included if it fits, then excluded. The
    gain of a candidate is the decrease of the lower bound on total latency if it runs. A branch of
    the enumeration ends if the gains of all remaining candidates cannot reduce this bound to
    ``task.budget``, the largest total latency that is searched, or less. Return the number of
    children in ``found`` after the call, or -1 if the arrays are full.
    """
    candidates, size, gain, rest, chosen, runs, _ = task.choice
    for state in range(begin, min(end, len(states.progress))):
        total, base = _candidates(state, states, task)
        if total < 0:
            continue
        need = base - task.budget
        depth, room, gained = 0, task.requests.memory_limit, 0
        while True:
            # The gain of a candidate, a request that may run next, is the decrease of the lower
            # bound on total latency if it runs. If no request runs, this lower bound is ``base``.
            # The gains must add up to ``need`` or more, so that the lower bound is within the
            # budget. Include each next candidate that fits, while the gains of included and
            # remaining candidates suffice.
            while depth < total and gained + rest[depth] >= need:
                chosen[depth] = _may_run(depth, room, state, states.progress, task)
                if chosen[depth]:
                    runs[candidates[depth]] = True
                    room -= size[depth]
                    gained += gain[depth]
                depth += 1
            if depth == total and gained >= need and _is_maximal(total, room, task.choice):
                bound = base - gained
                count = _add_child(count, bound, state, states, task, found, slots)
                if count < 0:
                    return -1
            # Return to the candidate (request that may run next) that was included last in the set
            # of requests to run, and exclude it.
            depth -= 1
            while depth >= 0 and not chosen[depth]:
                depth -= 1
            if depth < 0:
                break
            chosen[depth] = runs[candidates[depth]] = False
            room += size[depth]
            gained -= gain[depth]
            depth += 1
    return count
