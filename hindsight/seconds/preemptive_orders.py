"""Preemptive schedules in seconds: least remaining charges first.

Before each round the requests that have arrived are tried in ascending order of what is left of
their charges (`machine_bounds`), times a weight, and each runs if its tokens fit. A request that
does not run leaves the cache, and keeps its tokens or processes them again. As in `order_search` a
cap on the prompt tokens of a round delays prompts and speeds up the others. Weights are powers of
the charges of whole requests: exponents above 0 favour short requests, also when long ones are
nearly done. Annealing then moves single weights.

Source: least remaining processing time first (Schrage, 1968), with the memory of each round.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from hindsight.prices.minorants import own_seconds
from hindsight.runtime.compilation import njit, step
from instances.arrays import FloatArray, IntArray
from instances.batch_time.seconds_schedule import ADVANCES, COLUMNS

EXPONENTS = (0.25, 0.0, 1.0, -0.3, 0.5)
"""Exponents of the charges of a whole request in its weight."""

FIRST_CYCLE = 500
"""Moves of the first annealing; each later one has twice as many."""

HOT, COOLING = 0.1, 0.05
"""First temperature, in mean latencies, and the last as a share of it."""

REACH = 0.6
"""Standard deviation of a move, in the logarithm of a weight."""


class Rule(NamedTuple):
    """Rule that turns an order into a schedule.

    Attributes
    ----------
    skips : int
        Number of requests that may be skipped in a round.
    prompt_cap : float
        Most prompt tokens of a round.
    """

    skips: int
    prompt_cap: float


class Rounds(NamedTuple):
    """Requests, memory, and seconds of a round: seconds[tokens] + d2 x resident tokens."""

    arrival: FloatArray
    prompt: IntArray
    output: IntArray
    memory_limit: int
    seconds: FloatArray
    d2: float


class Charges(NamedTuple):
    """Machine seconds of requests.

    Attributes
    ----------
    weight : float64 array, shape (n,)
        Factor on what is left.
    token : float
        Of a processed token.
    held : float
        Of a token held in a round.
    recomputes : bool
        Whether who comes back processes prompt and tokens again.
    """

    weight: FloatArray
    token: float
    held: float
    recomputes: bool


class _State(NamedTuple):
    """State of a run.

    Attributes
    ----------
    order : int64 array, shape (n,)
        Requests that have arrived and are not complete, least first.
    done, last, stretch : int64 array, shape (n,)
        Output tokens, latest round, and row of the latest stretch of each request.
    left : float64 array, shape (n,)
        What is left of their charges, weighted.
    written : int64 array, shape (1,)
        Number of stretches.
    table : int64 array, shape (rows, 6)
        Stretches.
    """

    order: IntArray
    done: IntArray
    last: IntArray
    stretch: IntArray
    left: FloatArray
    written: IntArray
    table: IntArray


@step
def _again(i: int, done: int, rounds: Rounds, charges: Charges) -> int:
    """Return the tokens that request i processes in its next round if it is not in the cache."""
    s: int = rounds.prompt[i]
    return s + done if done == 0 or charges.recomputes else 1


@step
def _left(i: int, done: int, tokens: int, rounds: Rounds, charges: Charges) -> float:
    """Return the weighted charges of request i after ``done`` output tokens.

    Its next round processes ``tokens``.
    """
    s, o = rounds.prompt[i], rounds.output[i]
    steps = o - done
    held = steps * (s + 0.5 * (done + 1 + o))
    tokens += steps - 1
    charged: float = charges.weight[i] * (charges.token * tokens + charges.held * held)
    return charged


@step
def _insert(order: IntArray, count: int, left: FloatArray, request: int) -> None:
    """Insert a request into ``count`` others, least first."""
    x = count
    while x > 0 and left[order[x - 1]] > left[request]:
        order[x] = order[x - 1]
        x -= 1
    order[x] = request


@step
def _write(table: IntArray, at: int, i: int, r: int, done: int, tokens: int) -> None:
    """Begin a stretch of request i in round r, if there is room; columns as in `COLUMNS`."""
    if at < len(table):
        table[at, 0] = i
        table[at, 1] = r
        table[at, 2] = 0
        table[at, 3] = ADVANCES
        table[at, 4] = done
        table[at, 5] = tokens


@step
def _serve(
    r: int, active: int, state: _State, charges: Charges, rounds: Rounds, rule: Rule
) -> tuple[int, int]:
    """Let requests advance in round r, least first; return memory and tokens of the round.

    As many advance as memory, the requests that may be skipped and the cap on prompts allow.
    """
    memory = tokens = fresh = refused = tried = 0
    while tried < active and refused <= rule.skips:
        i = state.order[tried]
        tried += 1
        stays = state.last[i] == r - 1
        own = 1 if stays else _again(i, state.done[i], rounds, charges)
        held = rounds.prompt[i] + state.done[i] + 1
        if memory + held > rounds.memory_limit:
            refused += 1
            continue
        if own > 1 and fresh > 0 and tokens + own > rule.prompt_cap:
            continue
        if not stays:
            state.stretch[i] = state.written[0]
            _write(state.table, state.written[0], i, r, state.done[i], own)
            state.written[0] += 1
        if state.stretch[i] < len(state.table):
            state.table[state.stretch[i], 2] += 1
        memory += held
        tokens += own
        fresh += own > 1
        state.done[i] += 1
        state.last[i] = r
    return memory, tokens


@step
def _reorder(
    r: int, active: int, state: _State, charges: Charges, rounds: Rounds
) -> tuple[int, float]:
    """Drop complete requests and order the others; return how many stay, and the sum of a dropped.

    Orders hardly change: those that ran have less left, those that left the cache may have more.
    """
    order, left = state.order, state.left
    kept, arrivals = 0, 0.0
    for x in range(active):
        i = order[x]
        done = state.done[i]
        if done == rounds.output[i]:
            arrivals += rounds.arrival[i]
            continue
        if state.last[i] == r:
            left[i] = _left(i, done, 1, rounds, charges)
        elif state.last[i] == r - 1 and done > 0:
            left[i] = _left(i, done, _again(i, done, rounds, charges), rounds, charges)
        _insert(order, kept, left, i)
        kept += 1
    return kept, arrivals


@partial(njit, makes_arrays=True)
def run_preemptive(
    rounds: Rounds, charges: Charges, rule: Rule, bound: float, table: IntArray
) -> tuple[float, int]:
    """Return the total latency, infinity once above ``bound``, and the number of stretches.

    As many stretches as there is room for are written into ``table``.
    """
    n = rounds.arrival.size
    ints = np.zeros((4, n), np.int64)
    written = np.zeros(1, np.int64)
    state = _State(ints[0], ints[1], ints[2], ints[3], np.empty(n), written, table)
    state.last.fill(-1)
    active = position = completed = r = 0
    t = total = 0.0
    while completed < n:
        if active == 0:
            t = max(t, rounds.arrival[position])
        while position < n and rounds.arrival[position] <= t:
            prompt = rounds.prompt[position]
            state.left[position] = _left(position, 0, prompt, rounds, charges)
            _insert(state.order, active, state.left, position)
            active += 1
            position += 1
        r += 1
        memory, tokens = _serve(r, active, state, charges, rounds, rule)
        t += rounds.seconds[tokens] + rounds.d2 * memory
        kept, arrivals = _reorder(r, active, state, charges, rounds)
        total += (active - kept) * t - arrivals
        completed += active - kept
        active = kept
        if total > bound:
            return math.inf, written[0]
    return total, written[0]


def machine_seconds(rounds: Rounds) -> tuple[float, float]:
    """Return the machine seconds of a processed token, and of a token held in a round."""
    seconds = rounds.seconds
    token = max(0.0, float(seconds[-1] - seconds[1])) / max(1, len(seconds) - 2)
    return token, rounds.d2 + float(seconds[1]) / rounds.memory_limit


class PreemptiveOrders:
    """Search for weights of requests, one for each.

    Parameters
    ----------
    rounds : Rounds
        The requests, memory and seconds of a round.
    recomputes : bool
        Whether a request that leaves the cache processes prompt and tokens again.

    Attributes
    ----------
    total : float
        Total latency of the best schedule so far, seconds.
    """

    def __init__(self, rounds: Rounds, recomputes: bool) -> None:
        self._rounds = rounds
        token, held = machine_seconds(rounds)
        s, o = rounds.prompt, rounds.output
        self._whole = own_seconds(s, o, 0.0, token, held)
        self._best = Charges(np.ones(len(s)), token, held, recomputes), Rule(0, math.inf)
        self._stretches = 0
        self.total = math.inf

    def open(self, rules: Sequence[Rule], should_stop: Callable[[], bool]) -> None:
        """Try weights and rules."""
        for exponent in EXPONENTS:
            charges = self._best[0]._replace(weight=self._whole**exponent)
            for rule in rules:
                if should_stop():
                    return
                self._try(charges, rule, self.total)

    def anneal(
        self, cycle: int, rng: np.random.Generator, should_stop: Callable[[], bool]
    ) -> Iterator[float]:
        """Move single weights, in each cycle longer and colder; yield better and better totals."""
        n, moves = len(self._whole), FIRST_CYCLE << cycle
        (charges, rule), present = self._best, self.total
        weight, hot = charges.weight.copy(), HOT * present / n / (1 + cycle)
        for move in range(moves):
            if should_stop():
                return
            i = int(rng.integers(n))
            old, best = float(weight[i]), self.total
            weight[i] = old * math.exp(rng.normal(0.0, REACH))
            allowed = present + hot * COOLING ** (move / moves) * rng.exponential()
            total = self._try(charges._replace(weight=weight), rule, allowed)
            if total > allowed:
                weight[i] = old
                continue
            present = total
            if total < best:
                yield total

    def table(self) -> IntArray:
        """Return the stretches of the best schedule, see `SecondsSchedule`."""
        table = np.empty((self._stretches, len(COLUMNS)), np.int64)
        run_preemptive(self._rounds, *self._best, math.inf, table)
        return table

    def _try(self, charges: Charges, rule: Rule, bound: float) -> float:
        nothing = np.empty((0, len(COLUMNS)), np.int64)
        total, stretches = run_preemptive(self._rounds, charges, rule, bound, nothing)
        if total < self.total:
            self.total, self._stretches = total, stretches
            self._best = charges._replace(weight=charges.weight.copy()), rule
        return total
