"""Schedules in seconds in which many requests are on time.

Before each round the requests that can still be on time are tried in ascending priority, and run if
memory and a cap on the prompt tokens of a round allow. The others are dropped. Who does not run
leaves the cache and keeps its tokens. A priority is what is left of a request's machine seconds
over the seconds left, each to a power, times a weight. Single weights then move at random.

Source: least slack first and rejection of late jobs (Moore, 1968), with the memory of each round.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from hindsight.runtime.compilation import njit, step
from hindsight.seconds.order_search import round_seconds
from hindsight.seconds.preemptive_orders import Rounds, machine_seconds
from instances import SecondsSchedule, Workload
from instances.arrays import FloatArray, IntArray
from instances.batch_time.seconds_schedule import ADVANCES, COLUMNS
from instances.problem.memory_translation import relaxed, restricted
from instances.service_level import Limits

SHAPES = ((1.0, 1.0), (0.0, 0.0), (0.0, 1.0), (1.0, 0.0), (1.0, 0.5), (0.5, 1.0))
"""Powers of the machine seconds and of the seconds left in a priority."""

BEGUN = (1.0, 0.1)
"""Factors on the priority of requests that have a token."""

PROMPT_SHARES = (math.inf, 2.0, 0.5)
"""Caps on prompt tokens of a round, in units of those that double the length of a small round."""

PATIENCE = (math.inf, 1.5)
"""Lengths of rounds, in the seconds a token that their requests have left."""

REACH = 1.0
"""Standard deviation of a move, in the logarithm of a weight."""

REJECTED = 0.2
"""Share of moves that have a request not served at all."""

LENIENT = 1 + 1e-12
"""Factor on deadlines on this clock, which is rounded: the schedule's exact times decide."""


class Rule(NamedTuple):
    """Rule that turns weights into a schedule.

    Attributes
    ----------
    charge, left : float
        Powers of machine seconds and of seconds left in a priority.
    begun : float
        Factor on the priority of requests that have a token.
    prompt_cap : float
        Most prompt tokens of a round.
    patience : float
        Most seconds of a round, in the seconds a token that its requests have left.
    """

    charge: float
    left: float
    begun: float
    prompt_cap: float
    patience: float


Weighted = tuple[FloatArray, Rule]
"""Weights of requests, and a rule."""


class _Due(NamedTuple):
    """Deadlines of requests, and tokens that count for durations, shape (n,).

    Attributes
    ----------
    end, first_token : float64 array
        Deadlines of the last and the first token on the clock.
    decode : float64 array
        Most seconds from the first token to the last.
    prompt, slack : int64 array
        Prompt tokens processed, and tokens reserved beyond those stored.
    """

    end: FloatArray
    first_token: FloatArray
    decode: FloatArray
    prompt: IntArray
    slack: IntArray


class _Run(NamedTuple):
    """State of requests: tokens, latest round, row of the latest stretch, deadline, priority."""

    goal: _Due
    done: IntArray
    last: IntArray
    row: IntArray
    due: FloatArray
    priority: FloatArray
    table: IntArray


@step
def _rank(i: int, t: float, rounds: Rounds, weight: float, rule: Rule, run: _Run) -> float:
    """Return the priority of request i at a moment, infinite if it cannot be on time."""
    done, s, o = run.done[i], rounds.prompt[i], rounds.output[i]
    seconds, rest = rounds.seconds, o - done
    token = max(0.0, (seconds[-1] - seconds[1]) / max(1, seconds.size - 2))
    prompt = max(run.goal.prompt[i], 1) if done == 0 else 1
    steps = rest * (seconds[1] + rounds.d2 * (s - run.goal.slack[i] + done))
    if weight == math.inf or t + steps + seconds[prompt] - seconds[1] > run.due[i]:
        return math.inf
    held = rounds.d2 + seconds[1] / rounds.memory_limit
    charge = token * (prompt - 1 + rest) + held * rest * (s + 0.5 * (done + o))
    left = min(max(run.due[i] - t, 1e-9), 1e9)
    share = rule.begun if done > 0 else 1.0
    return float(weight * share * charge**rule.charge * left**rule.left)


@step
def _serve(
    r: int,
    t: float,
    active: int,
    order: IntArray,
    rounds: Rounds,
    rule: Rule,
    run: _Run,
    written: int,
) -> tuple[float, int]:
    """Let requests advance in round r from t; return its seconds and the number of stretches."""
    memory = resident = tokens = fresh = 0
    longest = math.inf
    for x in range(active):
        i = order[x]
        done, held = run.done[i], rounds.prompt[i] + run.done[i] + 1
        own = max(run.goal.prompt[i], 1) if done == 0 else 1
        stored = resident + held - run.goal.slack[i]
        if memory + held > rounds.memory_limit or (
            done == 0 and fresh > 0 and fresh + own > rule.prompt_cap
        ):
            continue
        # A round that lasts longer makes those late that have been admitted to it.
        if rounds.seconds[tokens + own] + rounds.d2 * stored > longest:
            continue
        longest = min(longest, rule.patience * (run.due[i] - t) / (rounds.output[i] - done))
        if run.last[i] != r - 1 or done == 0:
            run.row[i] = written
            if written < len(run.table):
                row = run.table[written]
                row[0], row[1], row[2], row[3], row[4] = i, r, 0, ADVANCES, done
                row[5] = own
            written += 1
        if run.row[i] < len(run.table):
            run.table[run.row[i], 2] += 1
        memory += held
        resident = stored
        tokens += own
        fresh += own if done == 0 else 0
        run.done[i] += 1
        run.last[i] = r
    return rounds.seconds[tokens] + rounds.d2 * resident, written


@partial(njit, makes_arrays=True)
def _run_due(
    rounds: Rounds, due: _Due, weight: FloatArray, rule: Rule, on_time: IntArray, table: IntArray
) -> tuple[int, int]:
    """Fill ``on_time`` with 1 for requests that are; return their number and that of stretches.

    A request of infinite weight is not served.
    """
    n = rounds.arrival.size
    ints = np.zeros((4, n), np.int64)
    run = _Run(due, ints[0], ints[1], ints[2], due.end.copy(), np.empty(n), table)
    order = ints[3]
    run.last.fill(-1)
    on_time.fill(0)
    active = position = r = count = written = 0
    t = 0.0
    while active > 0 or position < n:
        if active == 0:
            t = max(t, rounds.arrival[position])
        while position < n and rounds.arrival[position] <= t:
            order[active] = position
            active += 1
            position += 1
        kept = 0
        for x in range(active):
            i = order[x]
            rank = _rank(i, t, rounds, weight[i], rule, run)
            if rank == math.inf:
                continue
            run.priority[i] = rank
            y = kept
            while y > 0 and run.priority[order[y - 1]] > rank:
                order[y] = order[y - 1]
                y -= 1
            order[y] = i
            kept += 1
        active = kept
        if active == 0:
            continue
        r += 1
        seconds, written = _serve(r, t, active, order, rounds, rule, run, written)
        t += seconds
        kept = 0
        for x in range(active):
            i = order[x]
            if run.last[i] == r and run.done[i] == 1:
                decoded = (t + due.decode[i]) * LENIENT
                run.due[i] = min(run.due[i], decoded) if t <= due.first_token[i] else -1.0
            if run.done[i] < rounds.output[i]:
                order[kept] = i
                kept += 1
            elif t <= run.due[i]:
                on_time[i] = 1
                count += 1
        active = kept
    return count, written


class DeadlineOrders:
    """Search for weights of requests with many requests on time.

    Parameters
    ----------
    workload : Workload
        The requests, with their batch time.
    limits : Limits
        Limits of each request.
    seed : int
        Seed of the moves.

    Attributes
    ----------
    count : int
        Requests on time in the best run so far, by the kernel's clock.
    on_time : int64 array, shape (n,)
        1 for these requests.
    rule : Rule
        The rule of that run.
    """

    def __init__(self, workload: Workload, limits: Limits, seed: int) -> None:
        self._workload, self._limits = workload, limits
        self._rng = np.random.default_rng(seed)
        inner = restricted(workload)
        a, s = inner.arrival_times, np.asarray(inner.prompt_lengths)
        o = np.asarray(inner.output_lengths)
        prompts, stored = np.asarray(workload.prompt_lengths), relaxed(workload).prompt_lengths
        most = min(inner.memory_limit, int(np.maximum(prompts, 1).sum()))
        seconds, d2 = round_seconds(workload.require_batch_time(), most)
        self._rounds = Rounds(a, s, o, inner.memory_limit, seconds, d2)
        end, first = ((a + one) * LENIENT for one in (limits.latency, limits.first_token))
        self._due = _Due(end, first, limits.decode(o), prompts, s - stored)
        token, held = machine_seconds(self._rounds)
        self._charge = token * (s + o) + held * o * (s + (o + 1) / 2)
        self._weight, self.rule = np.ones(len(workload)), Rule(1.0, -1.0, 1.0, math.inf, math.inf)
        self.on_time = np.zeros(len(workload), dtype=np.int64)
        self.count = -1

    def rules(self) -> list[Weighted]:
        """Return weights and rules to open with; the first ones differ most."""
        seconds = self._rounds.seconds
        doubled = seconds >= 2 * seconds[1]
        unit = int(doubled.argmax()) if doubled.any() else len(seconds) - 1
        return [
            (self._charge**power, Rule(charge, -left, begun, share * unit, patience))
            for begun in BEGUN
            for share in PROMPT_SHARES
            for power in (0.0, 1.0)
            for patience in PATIENCE
            for charge, left in SHAPES
        ]

    def offer(self, weight: FloatArray, rule: Rule) -> int:
        """Run; remember weights and rule if no other had more on time. Return how many were."""
        count, on_time = self.run(weight, rule)
        if count > self.count:
            self.count, self.rule, self.on_time = count, rule, on_time
            self._weight = weight.copy()
        return count

    def run(self, weight: FloatArray, rule: Rule) -> tuple[int, IntArray]:
        """Return how many are on time, and which."""
        on_time = np.empty(len(weight), dtype=np.int64)
        nothing = np.empty((0, len(COLUMNS)), np.int64)
        count, _ = _run_due(self._rounds, self._due, weight, rule, on_time, nothing)
        return count, on_time

    def reject(self) -> None:
        """Serve nobody who is late: that leaves time for others; then try those again."""
        while True:
            before = self.count
            weight = np.where(self.on_time > 0, self._weight, math.inf)
            self.offer(weight, self.rule)
            if self.count == before:
                return

    def move(self, weight: FloatArray, present: int) -> int:
        """Move one weight, in place; return how many are on time, if it is undone ``present``."""
        late = np.flatnonzero(self.on_time == 0)
        pool = late if len(late) and self._rng.random() < 0.5 else np.arange(len(weight))
        i = int(self._rng.choice(pool))
        old = weight[i]
        fresh = math.exp(self._rng.normal(0.0, REACH))
        weight[i] = (old if np.isfinite(old) else self.typical) * fresh
        if np.isfinite(old) and self._rng.random() < REJECTED:
            weight[i] = math.inf
        count = self.offer(weight, self.rule)
        if count >= present:
            return count
        weight[i] = old
        return present

    def begin(self) -> FloatArray:
        """Return the best weights so far, to move."""
        return self._weight.copy()

    def schedule(self) -> tuple[SecondsSchedule, IntArray] | None:
        """Return a schedule of the requests on time alone, and their positions; None for none."""
        chosen, on_time = self.on_time > 0, np.empty_like(self.on_time)
        nothing = np.empty((0, len(COLUMNS)), np.int64)
        while chosen.any():
            weight = np.where(chosen, self._weight, math.inf)
            count, rows = _run_due(self._rounds, self._due, weight, self.rule, on_time, nothing)
            if count == chosen.sum():
                table = np.empty((rows, len(COLUMNS)), np.int64)
                _run_due(self._rounds, self._due, weight, self.rule, on_time, table)
                served = np.flatnonzero(chosen)
                begins = table[:, 4] == 0
                table[:, 5] = np.where(begins, self._workload.prompt_lengths[table[:, 0]], 1)
                table[:, 0] = np.searchsorted(served, table[:, 0])
                schedule = SecondsSchedule(self._workload.of(served), table)
                kept = schedule.keeps(self._limits.of(served))
                if kept.all():
                    return schedule, served
                on_time[served[~kept]] = 0
            # Without the others some may be late after all.
            chosen = on_time > 0
        return None

    @property
    def typical(self) -> float:
        """Return the median weight of the best run so far."""
        finite = self._weight[np.isfinite(self._weight)]
        return float(np.median(finite)) if len(finite) else 1.0
