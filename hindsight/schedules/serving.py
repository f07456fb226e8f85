"""Schedules in seconds of one machine: before each round, batch the requests of least rank.

Before a round, the requests that have arrived are tried in order of their rank. Each of them runs
if memory and the limits of a rule allow it. The rank of a request is its sort key, times the
machine time that it still needs and times the seconds until its deadline, each to a power. Prompts
make a round longer for all its requests. So two limits, on the tokens of a round and on the total
delay that a prompt causes, hold prompts back and speed up running requests. If the seconds per
token rise with the tokens of a round, a rule may also cut prompts into chunks (`Rule.cuts`).

If requests hold large shares of the memory, those of least rank often leave much of it unused. So a
request that does not fit may replace a chosen request that uses less memory (`Rule.fill`).

If a rule *reserves* memory, the machine never preempts a request: a request starts only if it fits
with all running ones for its whole run. Otherwise a request that does not run leaves the KV cache,
and its tokens are swapped out, or recomputed later. Requests that cannot meet their deadlines any
more are dropped.

After a round, the same requests run again until a request arrives, completes, fits from then on, or
does not fit any more. Between these events no decision is needed: running lowers the rank of a
request, so running requests stay before all waiting ones. A request that has replaced another one
also runs until the next event. With deadlines, ranks also change with time, so there is a decision
after at most `REVIEW` rounds.

Sources: least remaining time first (Schrage, 1968); rejection of late jobs (Moore, 1968).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from hindsight.runtime.compilation import njit, step
from instances.arrays import FloatArray, IntArray
from instances.batch_time.seconds_schedule import ADVANCES

from .machines import Machine

REVIEW, LONGEST = 4, 1 << 40
"""`REVIEW`: with deadlines, largest number of rounds until the requests that run are chosen again.
`LONGEST`: a number of rounds that no simulation reaches. It stands for "no limit"."""

LENIENT = 1 + 1e-12
"""Factor on deadlines in the simulation, whose times have rounding errors. The times of the final
schedule are compared exactly."""

RUNNING = -(2.0**52)
"""If `Rule.reserves`, running requests come first: their rank is `RUNNING` + (their last round)."""


class Rule(NamedTuple):
    """Rule that turns the sort keys of the requests on a machine into a schedule.

    Before a round, requests are tried in ascending order of their rank. The rank of a request is
    (its sort key) * (machine seconds that it still needs) ** charge * (seconds until its deadline)
    ** left.

    Attributes
    ----------
    charge, left : float
        The exponents in the rank. ``charge`` is >= 0.
    skips : int
        Largest number of requests that the choice for a round passes over because they do not fit
        in memory. Requests of higher rank are then tried. The choice ends at the next request that
        does not fit.
    token_cap : float
        Largest number of tokens processed in a round with several prompts. Requests are counted in
        ascending order of rank. The first prompt that would exceed the number is the last one that
        is tried, so that shorter prompts of higher rank do not take its place.
    cuts : bool
        Whether this prompt is cut: the round processes its first tokens, up to the cap but at least
        one. A single prompt is then cut too. If ``reserves`` is True, ``cuts`` must be False.
    reserves : bool
        Whether a request starts only if its memory fits, with that of all running requests, in
        every round until it completes. Then no request is ever preempted.
    recomputes : bool
        Whether a preempted request recomputes the KV cache of its prompt and its tokens when it
        resumes.
    fill : float
        If above 0, a request that does not fit in memory may replace a chosen request of smaller
        value. The value of a request is (tokens that it holds) / (its rank) ** ``fill``. The
        smaller ``fill`` is, the less the rank matters. If ``reserves`` is True, ``fill`` must be 0.
    token : float
        Factor on the seconds per processed token in the machine seconds that a request still needs.
        The larger it is, the later long prompts are processed.
    stall : float
        A prompt joins a round only if (seconds that it adds to the round) * (number of requests
        chosen before it) is at most ``stall``. Otherwise it would delay too many requests.
    """

    charge: float = 1.0
    left: float = 0.0
    skips: int = 0
    token_cap: float = math.inf
    cuts: bool = False
    reserves: bool = False
    recomputes: bool = False
    fill: float = 0.0
    token: float = 1.0
    stall: float = math.inf


class Run(NamedTuple):
    """Data that the simulation of a machine reads and writes.

    Attributes
    ----------
    machine : Machine
        All requests, the memory, and the durations of rounds.
    rule : Rule
        The rule by which requests are chosen for a round.
    key : float64 array, shape (n,)
        Sort key of each request, > 0.
    order : int64 array, shape (n,)
        Workspace: requests that have arrived and are neither complete nor dropped because they must
        be late, in ascending order of rank. While a round is chosen, the chosen ones come first.
    done, last, row : int64 array, shape (n,)
        Workspace, for each request: number of output tokens that it has produced, last round in
        which it ran, and row of its latest stretch in ``table``.
    read, part : int64 array, shape (n,)
        Workspace, for each request: number of tokens that it has processed in chunks of its present
        prompt, and number of tokens that it processes if it runs in the next round.
    due, rank, value : float64 array, shape (n,)
        Workspace, for each request: deadline of its last token in seconds, its rank, and its value
        (`Rule.fill`).
    late : int64 array, shape (n,)
        Output: 1 for requests that the simulation served late or dropped, 0 for those on time.
    table : int64 array, shape (rows, 6)
        Output: the schedule, one row per stretch. A stretch is a request and consecutive rounds in
        which it runs. Stretches beyond the last row are not written. The columns are
        `instances.batch_time.seconds_schedule.COLUMNS`.
    """

    machine: Machine
    rule: Rule
    key: FloatArray
    order: IntArray
    done: IntArray
    last: IntArray
    row: IntArray
    read: IntArray
    part: IntArray
    due: FloatArray
    rank: FloatArray
    value: FloatArray
    late: IntArray
    table: IntArray


@step
def _tokens(i: int, r: int, run: Run) -> int:
    """Return the number of tokens that request i processes before its next output token.

    It is 1 if the request has its KV cache after round r. Otherwise the request processes its
    prompt, and recomputes the output tokens that it has produced. Chunks processed before count,
    unless they are lost.
    """
    done, read = run.done[i], run.read[i]
    is_lost = run.rule.recomputes and run.last[i] != r
    if done > 0 and read == 0 and not is_lost:
        return 1
    return int(run.machine.prompt[i] + done - (0 if is_lost else read))


@step
def _rank(i: int, r: int, t: float, run: Run) -> float:
    """Return the rank of request i at time t (in seconds), after round r.

    The rank is the sort key times powers of the machine time that the request needs and of the time
    until its deadline (see `Rule`). Requests of smaller rank are tried first in the choice for a
    round. The rank is infinite if the request cannot meet its deadline any more.

    The machine time is the request's share of the duration of its remaining rounds: a time per
    token that it processes (times `Rule.token`), and a time per token that it holds in each round.
    """
    machine, rule = run.machine, run.rule
    done, due, output = run.done[i], run.due[i], machine.output[i]
    own, steps = _tokens(i, r, run), output - done
    if machine.counts_late:
        prompt = machine.seconds[own] - machine.seconds[1]
        least = machine.seconds[1] + machine.d2 * (machine.stored[i] + done)
        if t + prompt + steps * least > due:
            return math.inf
    if rule.reserves and done > 0:
        return RUNNING + float(r + steps)
    if rule.recomputes and run.read[i] > 0 and run.last[i] == r:
        return 0.0  # Otherwise its chunks might be lost.
    rank: float = run.key[i]
    if rule.charge > 0:
        held = steps * (machine.held[i] + 0.5 * (done + 1 + output))
        token, hold = machine.charges
        charge = rule.token * token * (own + steps - 1) + hold * held
        rank *= charge if rule.charge == 1 else charge**rule.charge
    if rule.left != 0:
        rank *= min(max(due - t, 1e-9), 1e9) ** rule.left
    return rank


@step
def _insert(count: int, request: int, run: Run) -> None:
    """Insert a request into the first ``count`` entries of `Run.order`, which ascend in rank."""
    order, rank = run.order, run.rank
    x = count
    while x > 0 and rank[order[x - 1]] > rank[request]:
        order[x] = order[x - 1]
        x -= 1
    order[x] = request


@step
def _wait(i: int, running: int, memory: int, run: Run) -> int:
    """Return a lower bound on the number of rounds that request i must wait before it starts.

    If request i can start in the next round, so that its memory fits in every round of its run,
    return 0. The first ``running`` requests in `Run.order` are already chosen for the next round.
    They are sorted by their last rounds, and hold ``memory`` tokens in the next round. Memory peaks
    in rounds in which a request completes, so only these rounds are compared with the limit.
    """
    machine = run.machine
    steps: int = machine.output[i]
    total, count = memory + machine.held[i] + 1, running + 1
    for y in range(running):
        j = run.order[y]
        rounds: int = machine.output[j] - run.done[j]
        excess: int = total + count * (min(rounds, steps) - 1) - machine.memory_limit
        if rounds >= steps:
            # Request i completes before request j or in the same round. As long as this is so, a
            # later start does not help: in its last round, request i holds all its tokens, and the
            # later this round is, the more tokens the others hold.
            return rounds - steps + 1 if excess > 0 else 0
        if excess > 0:
            # In the round in which request j completes, memory use is ``excess`` tokens above the
            # limit. For each round that request i waits, it holds one token less in that round: a
            # wait of ``excess`` rounds is enough.
            return min(excess, rounds)
        total -= machine.held[j] + run.done[j] + 1
        count -= 1
    return 0


@step
def _exchange(x: int, running: int, room: int, run: Run) -> int:
    """Replace a chosen request by the request ``run.order[x]``, which does not fit in memory.

    The first ``running`` entries of `Run.order` are the chosen requests. ``room`` is the number of
    tokens that they leave free in memory. Of the chosen requests of smaller `Run.value` whose own
    memory plus ``room`` is enough for the new request, the one of least value is replaced. The two
    requests change places in `Run.order`. Return the change of the free memory in tokens, which is
    0 if no chosen request can be replaced.
    """
    order, i = run.order, run.order[x]
    held: int = run.machine.held[i] + run.done[i]
    place, freed = x, held
    for y in range(running):
        more: int = run.machine.held[order[y]] + run.done[order[y]]
        if run.value[order[y]] < run.value[order[place]] and held <= more + room:
            place, freed = y, more
    order[x], order[place] = order[place], i
    return freed - held


@step
def _choose(r: int, active: int, run: Run) -> tuple[int, int]:
    """Choose the requests that run in round r + 1.

    The first ``active`` requests in `Run.order` are tried, in ascending order of rank. A request is
    chosen if memory and the limits of the rule allow it. The chosen requests then come first in
    `Run.order`. If the rule reserves memory, they are sorted by their last rounds. Return their
    number, and the largest number of rounds in which they run before requests are chosen again.
    """
    machine, rule = run.machine, run.rule
    running = tokens = memory = refused = x = 0
    cap, has_prompt = rule.token_cap, False
    span = REVIEW if machine.counts_late else LONGEST
    while x < active and refused <= rule.skips:
        i = run.order[x]
        x += 1
        done = run.done[i]
        own = part = _tokens(i, r, run)
        if own > 1 and tokens + own > cap and (has_prompt or rule.cuts):
            # No further prompt joins this round, so decide again after one round: ``span`` is the
            # largest number of rounds until the next decision.
            part = max(1, int(cap) - tokens) if rule.cuts and cap > 0 else 0
            cap, span = 0.0, 1
            if part == 0:
                continue
        run.part[i] = part
        delay = machine.seconds[part] - machine.seconds[1] + machine.d2 * machine.stored[i]
        if own > 1 and running * delay > rule.stall:
            continue
        held = machine.held[i] + done + 1
        if rule.fill > 0:
            run.value[i] = held * run.rank[i] ** -rule.fill
        if rule.reserves:
            wait = 0 if run.last[i] == r else _wait(i, running, memory, run)
        else:
            wait = LONGEST if memory + held > machine.memory_limit else 0
        if wait > 0:
            span = min(span, wait)
            refused += 1
            if rule.fill > 0:
                memory -= _exchange(x - 1, running, machine.memory_limit - memory, run)
            continue
        run.order[x - 1], run.order[running] = run.order[running], i
        if rule.reserves and run.last[i] != r:
            # Request i starts. Move it to its place among the chosen ones, sorted by last rounds.
            run.rank[i] = RUNNING + float(r + machine.output[i])
            _insert(running, i, run)
        running += 1
        memory += held
        tokens += part
        has_prompt |= own > 1
    if not rule.reserves:
        span = min(span, (machine.memory_limit - memory) // max(1, running) + 1)
    return running, span


@step
def _advance(i: int, r: int, rounds: int, first: float, written: int, run: Run) -> int:
    """Let request i run in the ``rounds`` rounds after round r. Return the number of stretches.

    If its prompt is cut, it only processes a chunk, in a stretch of its own.

    The first of these rounds ends at time ``first``, in seconds. If it produces the request's first
    token, the deadline of the last token is updated: it may depend on the time of the first token,
    and becomes -1 if the first token is late. A stretch is a request and consecutive rounds in
    which it runs. A new stretch begins unless request i also ran in round r. ``written`` is the
    number of stretches in the schedule before this call. The result is their number after it.
    """
    machine, done, table = run.machine, run.done[i], run.table
    own, part = _tokens(i, r, run), run.part[i]
    if machine.counts_late and done == 0 and part == own:
        decoded = (first + machine.decode[i]) * LENIENT
        is_late = first > machine.first_token[i] * LENIENT
        run.due[i] = -1.0 if is_late else min(run.due[i], decoded)
    if done == 0 or part < own or run.read[i] > 0 or run.last[i] != r:
        run.row[i] = written
        if written < len(table):
            # Assigning the tuple to ``table[written]`` would take longer to compile.
            row, kind = table[written], ADVANCES if part == own else part
            row[0], row[1], row[2], row[3], row[4], row[5] = i, r + 1, 0, kind, done, own
        written += 1
    if run.row[i] < len(table):
        table[run.row[i], 2] += rounds
    run.done[i] += rounds if part == own else 0
    run.read[i] = 0 if part == own else machine.prompt[i] + done - own + part
    run.last[i] = r + rounds
    return written


@step
def _last(
    running: int, span: int, r: int, t: float, following: float, run: Run
) -> tuple[int, float, float]:
    """Count the rounds, from round r + 1 on, until requests are chosen again.

    Round r + 1 begins at time t. The first ``running`` requests in `Run.order` run in each of the
    rounds. Rounds are counted until one of them ends at time ``following``, that of the next
    arrival, or later, or until a request completes. At most ``span`` rounds are counted. Return
    their number, and the ends of the first and of the last of these rounds in seconds.
    """
    machine, rounds = run.machine, 1
    (kernel, square, past), seconds = machine.attention, 0.0
    tokens = stored = prompts = 0
    for x in range(running):
        i = run.order[x]
        own, part = _tokens(i, r, run), run.part[i]
        tokens += part
        if run.last[i] != r or run.read[i] > 0:
            prompts += 1
            seconds += part * (square * part + past * (machine.prompt[i] + run.done[i] - own))
        stored += machine.stored[i] + run.done[i] + (part == own)
        span = min(span, machine.output[i] - run.done[i])
    seconds += kernel if 0 < prompts < running else 0.0
    first = t = t + machine.seconds[tokens] + machine.d2 * stored + seconds
    while rounds < span and t < following:
        rounds += 1
        stored += running
        t += machine.seconds[running] + machine.d2 * stored
    return rounds, first, t


@njit
def serve(run: Run, members: IntArray, bound: float) -> tuple[float, int]:
    """Simulate the requests ``members`` on one machine until all are complete or dropped.

    ``members`` are positions in `Run.machine`, ascending. Return the cost of the schedule, and its
    number of stretches (rows of `Run.table`). A stretch is a request and consecutive rounds in
    which it runs. The cost is the total latency in seconds, or the number of late requests. The
    simulation ends early, with an infinite cost, once the cost is certain to exceed ``bound``.
    """
    machine, late, size = run.machine, run.late, len(members)
    active = running = rounds = position = r = written = steps_left = on_time = 0
    t = first = total = 0.0
    for x in range(size):
        i = members[x]
        run.done[i], run.last[i], run.read[i] = 0, -1, 0
        run.due[i] = machine.end[i] * LENIENT
        steps_left += machine.output[i]
        late[i] = 1
    while True:
        # Sort the requests that are not complete by their new ranks. Insertion sort is fast,
        # because the order hardly changes. Then insert the requests that have arrived.
        kept = x = 0
        while x < active or (position < size and machine.arrival[members[position]] <= t):
            if x < active:
                i = run.order[x]
                if x < running:
                    steps_left += run.done[i]
                    written = _advance(i, r, rounds, first, written, run)
                    steps_left -= run.done[i]
                x += 1
                if run.done[i] == machine.output[i]:
                    late[i] = t > run.due[i]
                    on_time += 1 - late[i]
                    continue
            else:
                i = members[position]
                position += 1
                total += t - machine.arrival[i]
            run.rank[i] = _rank(i, r + rounds, t, run)
            if run.rank[i] < math.inf:  # otherwise drop the request: it must be late
                _insert(kept, i, run)
                kept += 1
        active = kept
        r += rounds
        least = total + machine.least * steps_left
        if (position - active - on_time if machine.counts_late else least) > bound:
            return math.inf, written
        following = machine.arrival[members[position]] if position < size else math.inf
        if active == 0:
            if position == size:
                return (float(position - on_time) if machine.counts_late else total), written
            rounds, t = 0, following
            continue
        running, span = _choose(r, active, run)
        rounds, first, end = _last(running, span, r, t, following, run)
        total += active * (end - t)
        t = end
