"""Schedules in seconds of one machine: before each round, batch the requests of least rank.

Before a round, the requests that have arrived are tried in order of their rank. Each of them runs
if memory and a cap on the prompt tokens of the round allow it. The rank of a request is its sort
key, times the machine time that it still needs and times the seconds until its deadline, each to a
power. Prompts make a round longer for all its requests, so a cap on prompt tokens delays prompts
and speeds up running requests.

If a rule *reserves* memory, the machine never preempts a request: a request starts only if it fits
with all running ones for its whole run. Otherwise a request that does not run leaves the KV cache,
and its tokens are swapped out, or recomputed later. Requests that must be late are dropped.

After a round, the same requests run again until a request arrives, completes, fits from then on, or
does not fit any more. Between these events no decision is needed: running lowers the rank of a
request, so running requests stay before all waiting ones. With deadlines, ranks also change with
time, so there is a decision after at most `REVIEW` rounds.

Sources: least remaining time first (Schrage, 1968); rejection of late jobs (Moore, 1968).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from hindsight.runtime.compilation import njit, step
from instances.arrays import FloatArray, IntArray
from instances.batch_time.seconds_schedule import ADVANCES

from .machines import Machine

REVIEW = 4
"""Most rounds between two decisions if requests have deadlines."""

LONGEST = 1 << 40
"""Number of rounds that stands for no limit."""

LENIENT = 1 + 1e-12
"""Factor on deadlines, because times are rounded here. Exact times are computed later."""

RUNNING = -(2.0**52)
"""Under rules that reserve memory, the rank of a running request is this number plus its last
round, so it is smaller than the rank of any waiting request."""


class Rule(NamedTuple):
    """Rule that turns the sort keys of requests into a schedule.

    Attributes
    ----------
    charge, left : float
        Exponents in the rank of a request: of the machine seconds that it still needs (>= 0), and
        of the seconds until its deadline.
    begun : float
        Factor on the rank of requests that have produced a token.
    skips : int
        Most requests that do not fit in memory and are passed over in a round for others.
    prompt_cap : float
        Most prompt tokens of a round; one prompt is always allowed.
    patience : float
        Longest round, as a multiple of the least value, over its requests, of the seconds until the
        deadline divided by the number of tokens left.
    wait : float
        A round does not start if a request arrives within this time, in seconds.
    reserves : bool
        Whether requests are never preempted, because memory is reserved for their whole lives.
    recomputes : bool
        Whether a preempted request recomputes its prompt and tokens when it resumes.
    """

    charge: float
    left: float
    begun: float
    skips: int
    prompt_cap: float
    patience: float
    wait: float
    reserves: bool
    recomputes: bool


class Run(NamedTuple):
    """Data that the simulation of a machine reads and writes.

    Attributes
    ----------
    machine : Machine
        Requests, memory, and seconds of a round.
    rule : Rule
        The rule.
    key : float64 array, shape (n,)
        Sort key of each request, > 0.
    order : int64 array, shape (n,)
        Workspace: requests that have arrived and are neither complete nor dropped, least rank
        first.
    done, last, row : int64 array, shape (n,)
        Workspace: number of output tokens of each request, the last round in which it ran, and the
        table row of its latest stretch.
    due, rank : float64 array, shape (n,)
        Workspace: deadline of the last token in seconds, and rank.
    late : int64 array, shape (n,)
        Output: 1 for requests of the run that are late or dropped, else 0.
    table : int64 array, shape (rows, 6)
        Output: stretches of consecutive rounds of a request, as many as there are rows. The columns
        are `instances.batch_time.seconds_schedule.COLUMNS`.
    """

    machine: Machine
    rule: Rule
    key: FloatArray
    order: IntArray
    done: IntArray
    last: IntArray
    row: IntArray
    due: FloatArray
    rank: FloatArray
    late: IntArray
    table: IntArray


class _Round(NamedTuple):
    """Result of a decision: sums over the requests that run next.

    Attributes
    ----------
    running, tokens, stored : int
        Number of requests, tokens processed, and stored tokens that count for the duration.
    span : int
        Rounds for which the same requests can run.
    written : int
        Number of stretches so far.
    """

    running: int
    tokens: int
    stored: int
    span: int
    written: int


@step
def _tokens(i: int, r: int, run: Run) -> int:
    """Return the tokens that request i would process in round r + 1."""
    done: int = run.done[i]
    if done > 0 and (run.last[i] == r or not run.rule.recomputes):
        return 1
    prompt: int = run.machine.prompt[i]
    return prompt + done


@step
def _charge(i: int, r: int, run: Run) -> float:
    """Return the remaining machine seconds of request i, to the power of the rule."""
    done, output = run.done[i], run.machine.output[i]
    processed = _tokens(i, r, run) + output - done - 1
    held = (output - done) * (run.machine.held[i] + 0.5 * (done + 1 + output))
    charge: float = run.machine.charges[0] * processed + run.machine.charges[1] * held
    return charge if run.rule.charge == 1 else charge**run.rule.charge


@step
def _rank(i: int, r: int, t: float, run: Run) -> float:
    """Return the rank of request i at time t, after round r: infinite if it must be late."""
    machine, rule = run.machine, run.rule
    done, due = run.done[i], run.due[i]
    steps = machine.output[i] - done
    if machine.counts_late:
        prompt = machine.seconds[_tokens(i, r, run)] - machine.seconds[1]
        least = machine.seconds[1] + machine.d2 * (machine.stored[i] + done)
        if t + prompt + steps * least > due:
            return math.inf
    if rule.reserves and done > 0:
        return RUNNING + float(r + steps)
    rank: float = run.key[i]
    if done > 0:
        rank *= rule.begun
    if rule.charge > 0:
        rank *= _charge(i, r, run)
    if rule.left != 0:
        rank *= min(max(due - t, 1e-9), 1e9) ** rule.left
    return rank


@step
def _insert(count: int, request: int, run: Run) -> None:
    """Insert a request into the order of ``count`` others, least rank first."""
    order, rank = run.order, run.rank
    x = count
    while x > 0 and rank[order[x - 1]] > rank[request]:
        order[x] = order[x - 1]
        x -= 1
    order[x] = request


@step
def _wait(i: int, running: int, memory: int, run: Run) -> int:
    """Return 0 if memory holds request i for its whole run, or else the least rounds to wait.

    The ``running`` requests are first in ``order``, by their last rounds. Memory peaks in rounds in
    which a request completes, so only these rounds are compared with the limit.
    """
    machine = run.machine
    steps: int = machine.output[i]
    total, count = memory + machine.held[i] + 1, running + 1
    for y in range(running):
        j = run.order[y]
        rounds: int = machine.output[j] - run.done[j]
        excess: int = total + count * (min(rounds, steps) - 1) - machine.memory_limit
        if rounds >= steps:
            # With a later start up to there, i has all its tokens while these hold no fewer.
            return rounds - steps + 1 if excess > 0 else 0
        if excess > 0:
            # Each round of waiting lowers by one the tokens of i at the completion of j.
            return min(excess, rounds)
        total -= machine.held[j] + run.done[j] + 1
        count -= 1
    return 0


@step
def _enter(x: int, running: int, r: int, run: Run) -> None:
    """Let the request at place x of ``order`` run in round r + 1."""
    i = run.order[x]
    if run.rule.reserves and run.last[i] != r:
        # Running requests come first in ``order``, sorted by their last rounds.
        run.rank[i] = RUNNING + float(r + run.machine.output[i])
        for y in range(x, running, -1):
            run.order[y] = run.order[y - 1]
        _insert(running, i, run)
    run.last[i] = r + 1


@step
def _write(i: int, r: int, tokens: int, written: int, run: Run) -> int:
    """Begin a stretch of request i in round r + 1, unless it runs in round r already.

    Return the number of stretches begun so far.
    """
    if run.last[i] == r and run.done[i] > 0:
        return written
    run.row[i] = written
    if written < len(run.table):
        row = run.table[written]
        row[0], row[1], row[2], row[3] = i, r + 1, 0, ADVANCES
        row[4], row[5] = run.done[i], tokens
    return written + 1


@step
def _choose(r: int, t: float, active: int, written: int, run: Run) -> _Round:
    """Choose the requests that run in round r + 1, which begins at time t, least rank first."""
    machine, rule = run.machine, run.rule
    running = tokens = memory = stored = prompts = refused = x = 0
    span, longest = REVIEW if machine.counts_late else LONGEST, math.inf
    while x < active and refused <= rule.skips:
        i = run.order[x]
        x += 1
        done = run.done[i]
        own = _tokens(i, r, run)
        held = machine.held[i] + done + 1
        if not rule.reserves:
            wait = LONGEST if memory + held > machine.memory_limit else 0
        else:
            wait = 0 if run.last[i] == r else _wait(i, running, memory, run)
        if wait > 0:
            span = min(span, wait)
            refused += 1
            continue
        more = stored + machine.stored[i] + done + 1
        is_above = own > 1 and prompts > 0 and prompts + own > rule.prompt_cap
        if is_above or machine.seconds[tokens + own] + machine.d2 * more > longest:
            # Request i may run in the next round, so decide again then.
            span = 1
            continue
        if machine.counts_late:
            # A longer round would make requests late that are in it already.
            allowed = (run.due[i] - t) / (machine.output[i] - done)
            longest = min(longest, rule.patience * allowed)
        written = _write(i, r, own, written, run)
        _enter(x - 1, running, r, run)
        span = min(span, machine.output[i] - done)
        running += 1
        memory += held
        stored = more
        tokens += own
        prompts += own if own > 1 else 0
    if not rule.reserves:
        span = min(span, (machine.memory_limit - memory) // max(1, running) + 1)
    return _Round(running, tokens, stored, span, written)


@step
def _advance(i: int, r: int, rounds: int, first: float, run: Run) -> None:
    """Let request i run for ``rounds`` rounds after round r; the first one ends at ``first``."""
    machine = run.machine
    if machine.counts_late and run.done[i] == 0:
        decoded = (first + machine.decode[i]) * LENIENT
        is_late = first > machine.first_token[i] * LENIENT
        run.due[i] = -1.0 if is_late else min(run.due[i], decoded)
    run.done[i] += rounds
    run.last[i] = r + rounds
    if run.row[i] < len(run.table):
        run.table[run.row[i], 2] += rounds


@step
def _arrive(i: int, r: int, t: float, active: int, run: Run) -> int:
    """Insert request i into ``order`` after round r at time t; return the length of ``order``.

    A request that cannot be on time is dropped.
    """
    run.rank[i] = _rank(i, r, t, run)
    if run.rank[i] == math.inf:
        return active
    _insert(active, i, run)
    return active + 1


@step
def _last(chosen: _Round, t: float, following: float, machine: Machine) -> tuple[int, float]:
    """Return the number of rounds until the next decision, and the time at which they end.

    The first one ends at t. The last one is the first that ends at ``following`` or later.
    """
    rounds, stored = 1, chosen.stored
    while rounds < chosen.span and t < following:
        rounds += 1
        stored += chosen.running
        t += machine.seconds[chosen.running] + machine.d2 * stored
    return rounds, t


@njit
def serve(run: Run, members: IntArray, bound: float) -> tuple[float, int]:
    """Simulate the requests ``members``, in ascending order, until all are complete or dropped.

    Return the cost and the number of stretches. The run ends early, with an infinite cost, once its
    cost is certain to exceed ``bound``.
    """
    machine, rule, late = run.machine, run.rule, run.late
    active = position = r = written = steps_left = on_time = 0
    t = total = 0.0
    for i in members:
        run.done[i], run.last[i] = 0, -1
        run.due[i] = machine.end[i] * LENIENT
        steps_left += machine.output[i]
        late[i] = 1
    while active > 0 or position < members.size:
        if active == 0:
            t = max(t, machine.arrival[members[position]])
        while position < members.size and machine.arrival[members[position]] <= t:
            total += t - machine.arrival[members[position]]
            active = _arrive(members[position], r, t, active, run)
            position += 1
        following = machine.arrival[members[position]] if position < members.size else math.inf
        if active == 0:
            continue
        if following - t < rule.wait:
            total += active * (following - t)
            t = following
            continue
        chosen = _choose(r, t, active, written, run)
        written = chosen.written
        first = t + machine.seconds[chosen.tokens] + machine.d2 * chosen.stored
        rounds, end = _last(chosen, first, following - rule.wait, machine)
        total += active * (end - t)
        steps_left -= chosen.running * rounds
        t = end
        kept = 0
        for x in range(active):
            # Sort again by insertion, as the order hardly changes.
            i = run.order[x]
            is_other = machine.counts_late or run.last[i] >= r
            if run.last[i] == r + 1:
                _advance(i, r, rounds, first, run)
            if run.done[i] == machine.output[i]:
                late[i] = t > run.due[i]
                on_time += 1 - late[i]
            elif is_other:
                kept = _arrive(i, r + rounds, t, kept, run)
            else:
                _insert(kept, i, run)
                kept += 1
        active = kept
        r += rounds
        least = total + machine.least * steps_left
        if (position - active - on_time if machine.counts_late else least) > bound:
            return math.inf, written
    return (float(position - on_time) if machine.counts_late else total), written
