"""Schedules in seconds: admission orders with caps per round, improved by annealing.

A list schedule in seconds admits requests before each round: waiting requests are tried in
ascending key, and one is admitted if it fits beside all running ones for its whole life. Fuller
rounds last longer for every request in them, so a cap on the prompt tokens of a round delays
prompts and speeds up running requests; several caps are tried. Then single keys are moved by
simulated annealing (Kirkpatrick, Gelatt and Vecchi, 1983).

Deterministic: the schedule after k moves depends on the arguments and the seed alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from hindsight.runtime.compilation import njit, overwrite, step
from instances import InvalidValueError, SecondsSchedule, Workload
from instances.arrays import FloatArray, IntArray
from instances.batch_time import (
    AffineTime,
    BatchStretch,
    BatchTime,
    IterationTime,
    TiledTime,
)
from instances.problem.memory_translation import restricted

from .preemptive_orders import PreemptiveOrders, Rounds, Rule, machine_seconds

SKIPS = (0, 3, 10)
"""Numbers of waiting requests that may be skipped in a round because they do not fit."""

PROMPT_CAPS = (0.5, 1.0, 1.5, 2.0, 3.0, 6.0, math.inf)
"""Caps on prompt tokens of a round, in units of those that double the length of a small round."""

FIRST_CYCLE = 2_000
"""Moves of the first annealing; each later one has twice as many."""

FRUITLESS = 3
"""Consecutive annealings without a better schedule after which the search ends."""

SLICE_WORK = 400_000
"""Requests times moves between two polls of the clock."""

LONGEST_ROUND = 1e100
"""Seconds of a round that are refused, because sums of them might be infinite."""

HOT, COLD = 0.25, 0.005
"""First and last temperature, in mean latencies of the best list schedule."""

REACH = 0.4
"""Standard deviation of a move, in the logarithm of a key."""


class _Moves(NamedTuple):
    """Moves of an annealing, one a row.

    Attributes
    ----------
    heat : float64 array, shape (k,)
        Temperatures, seconds of total latency.
    draws : float64 array, shape (k, 2)
        Uniform in [0, 1): choose the key that moves, and accept a worse total.
    steps : float64 array, shape (k,)
        Changes of the key.
    """

    heat: FloatArray
    draws: FloatArray
    steps: FloatArray


class _Batch(NamedTuple):
    """Running requests, in ascending order of their last rounds.

    Attributes
    ----------
    end, base, request : int64 array, shape (n,)
        Last round, tokens held less the round's index, and the request.
    """

    end: IntArray
    base: IntArray
    request: IntArray


@step
def _queue(waiting: IntArray, queued: int, key: FloatArray, request: int) -> None:
    """Insert a request into the waiting requests, with the best last."""
    x = queued
    while x > 0 and key[waiting[x - 1]] < key[request]:
        waiting[x] = waiting[x - 1]
        x -= 1
    waiting[x] = request


@step
def _fits(
    batch: _Batch, running: int, base_sum: int, base: int, end: int, r: int, limit: int
) -> bool:
    """Tell whether memory holds one more request from round ``r`` + 1 to its last."""
    held = running + 1
    total = base_sum + base
    fits = total + held * (r + 1) <= limit
    y = 0
    # Memory is largest in rounds in which some request completes.
    while fits and y < running and batch.end[y] < end:
        fits = total + held * batch.end[y] <= limit
        total -= batch.base[y]
        held -= 1
        y += 1
    return fits and total + held * end <= limit


@step
def _admit(batch: _Batch, running: int, request: int, base: int, end: int) -> None:
    """Insert a request into the running requests."""
    y = running
    while y > 0 and batch.end[y - 1] > end:
        batch.end[y] = batch.end[y - 1]
        batch.base[y] = batch.base[y - 1]
        batch.request[y] = batch.request[y - 1]
        y -= 1
    batch.end[y] = end
    batch.base[y] = base
    batch.request[y] = request


@step
def _release(batch: _Batch, completed: int, running: int) -> None:
    """Drop the first ``completed`` requests; ``running`` are left."""
    for y in range(running):
        batch.end[y] = batch.end[y + completed]
        batch.base[y] = batch.base[y + completed]
        batch.request[y] = batch.request[y + completed]


@partial(njit, makes_arrays=True)
def run_order(
    rounds: Rounds, key: FloatArray, rule: Rule, bound: float, start_round: IntArray
) -> float:
    """Return the total latency of admitting in ascending ``key``; infinity once above ``bound``.

    A round admits until ``rule.skips`` requests were skipped or the next prompt would exceed
    ``rule.prompt_cap`` tokens, but one prompt is always allowed. ``start_round[i]`` becomes the
    number of rounds before the first of request i.
    """
    a, s, o = rounds.arrival, rounds.prompt, rounds.output
    M, seconds, d2 = rounds.memory_limit, rounds.seconds, rounds.d2
    skips, prompt_cap = rule.skips, rule.prompt_cap
    n = a.size
    run_end, run_base, run_id = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    batch = _Batch(run_end, run_base, run_id)
    waiting = np.empty(n, np.int64)  # best last
    running = queued = position = r = base_sum = done = 0
    t = 0.0
    total = 0.0
    while done < n:
        # Arrivals: the machine waits for the next one if there is nothing to do.
        if running == 0 and queued == 0:
            t = max(t, a[position])
        while position < n and a[position] <= t:
            _queue(waiting, queued, key, position)
            queued += 1
            position += 1
        # Admissions, best first.
        prompts = fresh = refused = 0
        x = queued - 1
        while x >= 0 and refused <= skips:
            i = waiting[x]
            if fresh > 0 and prompts + s[i] > prompt_cap:
                break
            base, end = s[i] - r, r + o[i]
            if _fits(batch, running, base_sum, base, end, r, M):
                _admit(batch, running, i, base, end)
                running += 1
                base_sum += base
                prompts += s[i]
                fresh += 1
                start_round[i] = r
                for z in range(x, queued - 1):
                    waiting[z] = waiting[z + 1]
                queued -= 1
            else:
                refused += 1
            x -= 1
        # The round.
        r += 1
        t += seconds[prompts + running - fresh] + d2 * (base_sum + running * r)
        # Completions.
        x = 0
        while x < running and run_end[x] == r:
            total += t - a[run_id[x]]
            base_sum -= run_base[x]
            x += 1
        if x:
            done += x
            running -= x
            _release(batch, x, running)
            if total > bound:
                return np.inf
    return total


@njit
def _anneal(
    rounds: Rounds,
    key: FloatArray,
    rule: Rule,
    total: float,
    best: float,
    moves: _Moves,
    start_round: IntArray,
    best_key: FloatArray,
) -> tuple[float, float]:
    """Make all ``moves``; update ``key`` and its total, and ``best_key``, the best so far."""
    for move in range(moves.heat.size):
        i = int(moves.draws[move, 0] * key.size)
        old = key[i]
        key[i] = old + moves.steps[move]
        allowed = total - moves.heat[move] * np.log(1.0 - moves.draws[move, 1])
        value = run_order(rounds, key, rule, allowed, start_round)
        if value > allowed:
            key[i] = old
            continue
        total = value
        if value < best:
            best = value
            overwrite(best_key, key)
    return total, best


def round_seconds(batch_time: BatchTime, most: int) -> tuple[FloatArray, float]:
    """Return seconds of a round by tokens processed, 0 .. ``most``, and by a resident token.

    Other dependencies of the batch time are ignored, because the schedules that use this have their
    durations recomputed.

    Raises
    ------
    InvalidValueError
        A round takes no time, or `LONGEST_ROUND` or more.
    """
    seconds, d2 = _round_seconds(batch_time, np.arange(most + 1))
    if not (seconds.min() > 0 and seconds.max() < LONGEST_ROUND and d2 < LONGEST_ROUND):
        reason = f"are not all above 0 and below {LONGEST_ROUND:g}"
        raise InvalidValueError("batch time", "durations", seconds, reason)
    return seconds, d2


def _round_seconds(batch_time: BatchTime, tokens: IntArray) -> tuple[FloatArray, float]:
    if isinstance(batch_time, AffineTime):
        return batch_time.d0 + batch_time.d1 * tokens.astype(np.float64), batch_time.d2
    if isinstance(batch_time, IterationTime):
        return np.full(len(tokens), batch_time.d0), batch_time.d1
    if isinstance(batch_time, TiledTime):
        table = np.array([batch_time.at(one) for one in tokens.tolist()])
        return table + batch_time.kernel, batch_time.kv_token
    most = int(tokens[-1])
    places = np.unique(np.linspace(1, most, 200).astype(np.int64))

    def seconds(tokens: int, memory: int) -> float:
        return float(batch_time.durations(BatchStretch(1, 1, tokens, 1, memory, 1))[0])

    empty = np.array([seconds(one, one) for one in places.tolist()])
    if most == 1 or not np.isfinite(empty).all():
        return np.interp(tokens, places, empty), 0.0
    middle = most // 2
    d2 = max(0.0, (seconds(middle, most) - seconds(middle, middle)) / (most - middle))
    return np.interp(tokens, places, empty - d2 * places), d2


class SecondsOrders:
    """Search for admission orders of one workload.

    Parameters
    ----------
    workload : Workload
        The requests, with their batch time.
    seed : int
        Seed of the annealing.
    recomputes : bool, default False
        Whether a request that leaves the cache processes prompt and tokens again.

    Attributes
    ----------
    cycle : int
        Number of annealings completed.
    rounds : Rounds
        The requests and seconds of a round, as its schedules count them.
    """

    def __init__(self, workload: Workload, seed: int, recomputes: bool = False) -> None:
        self._workload = workload
        # What is found there fits here too, and is timed here.
        workload = restricted(workload)
        self._rng = np.random.default_rng(seed)
        prompts = np.maximum(workload.prompt_lengths, 1)
        # No round of a list schedule processes more tokens, and M may be much larger. A request
        # that comes back processes all that it held.
        most = int(prompts.sum()) + recomputes * int(workload.output_lengths.sum())
        most = min(workload.memory_limit, most)
        seconds, d2 = round_seconds(workload.require_batch_time(), most)
        self._seconds = seconds
        self.rounds = Rounds(
            workload.arrival_times,
            np.asarray(workload.prompt_lengths),
            np.asarray(workload.output_lengths),
            workload.memory_limit,
            seconds,
            d2,
        )
        # Under another memory rule its tokens are not those of the workload.
        self._preemptive = (
            PreemptiveOrders(self.rounds, recomputes) if workload is self._workload else None
        )
        self._starts = np.zeros(len(workload), dtype=np.int64)
        self._key = self.list_keys()[0]
        self._rule = Rule(SKIPS[0], math.inf)
        self._best = self._scale = math.inf
        self.cycle = 0

    def openings(self, should_stop: Callable[[], bool]) -> SecondsSchedule:
        """Return the best of all orders and caps tried in time; the first is always tried."""
        for key in self.list_keys():
            for rule in self.rules():
                total = self._run(key, rule, self._best)
                if total < self._best:
                    self._best, self._key, self._rule = total, key, rule
                self._scale = self._best / len(self._workload)
                if should_stop():
                    return self._schedule()
        if self._preemptive is not None:
            self._preemptive.open(self.rules(), should_stop)
        return self._schedule()

    def anneal(self, should_stop: Callable[[], bool]) -> Iterator[SecondsSchedule]:
        """Yield better and better schedules; end after `FRUITLESS` cycles without any."""
        fruitless = 0
        while fruitless < FRUITLESS and not should_stop():
            fruitless += 1
            if self._preempts:
                assert self._preemptive is not None
                found: Iterator[float] = self._preemptive.anneal(self.cycle, self._rng, should_stop)
            else:
                found = self._anneal_keys(should_stop)
            for _ in found:
                fruitless = 0
                yield self._schedule()
            if should_stop():
                return
            self.cycle += 1

    def _anneal_keys(self, should_stop: Callable[[], bool]) -> Iterator[float]:
        """Run one annealing of list schedules; yield better and better totals."""
        n = len(self._workload)
        slice_moves = max(1, min(FIRST_CYCLE, SLICE_WORK // n))
        key, total = self._key.copy(), self._best
        moves = FIRST_CYCLE << self.cycle
        hot = HOT * self._scale / (1 + self.cycle)
        for begun in range(0, moves, slice_moves):
            count = min(slice_moves, moves - begun)
            share = (begun + np.arange(count)) / moves
            heat = hot * (COLD / HOT) ** share
            best_key = self._key.copy()
            draws = self._rng.random((count, 2))
            trial = _Moves(heat, draws, self._rng.normal(0.0, REACH, count))
            total, best = _anneal(
                self.rounds, key, self._rule, total, self._best, trial, self._starts, best_key
            )
            if best < self._best:
                self._best, self._key = best, best_key
                yield best
            if should_stop():
                return

    def list_keys(self) -> list[FloatArray]:
        """Return the keys to try, as logarithms: machine seconds, volumes, output lengths."""
        s, o = self.rounds.prompt, self.rounds.output
        volume = o * (s + (o + 1) / 2)
        token, held = machine_seconds(self.rounds)
        machine = token * (s + o) + held * volume
        return [np.log(machine), np.log(volume), np.log(o + s / (s.max() + 1.0))]

    def rules(self) -> list[Rule]:
        """Return the rules to try, which vary the cap on prompt tokens and the skips."""
        seconds = self._seconds
        most = len(seconds) - 1
        doubled = seconds >= 2 * seconds[1]
        unit = int(doubled.argmax()) if doubled.any() else most
        caps = {share * unit if share * unit < most else math.inf for share in PROMPT_CAPS}
        return [Rule(skips, cap) for cap in sorted(caps, reverse=True) for skips in SKIPS]

    def _run(self, key: FloatArray, rule: Rule, bound: float) -> float:
        return run_order(self.rounds, key, rule, bound, self._starts)

    @property
    def _preempts(self) -> bool:
        return self._preemptive is not None and self._preemptive.total < self._best

    def _schedule(self) -> SecondsSchedule:
        if self._preempts:
            assert self._preemptive is not None
            return SecondsSchedule(self._workload, self._preemptive.table())
        self._run(self._key, self._rule, math.inf)
        return SecondsSchedule.from_start_rounds(self._workload, self._starts)
