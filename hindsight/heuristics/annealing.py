"""Upper bounds by simulated annealing on (start order, delays), as a whole or in windows.

Small instances are annealed whole, in cycles of growing length; large ones by sliding windows of
the start order, each annealed with a look-ahead and kept only if the *whole* schedule, decoded
again, gets better. See `hindsight.heuristics.annealing_kernels` for the encoding and why every
schedule is reachable.

Sources: the schedule representation extends the serial generation scheme of Kolisch (1996) by
delays; acceptance and cooling follow Kirkpatrick, Gelatt and Vecchi (1983).

Deterministic: the schedule after k moves depends on the arguments and ``seed`` alone.
"""

from __future__ import annotations

from collections.abc import Generator

import numpy as np

from hindsight.runtime.clock import Slices
from instances import Instance
from instances.arrays import IntArray

from .annealing_kernels import Cooling, Work, anneal
from .schedule_decoder import Encoding, Profile, Span, decode, encode, fit_in_order

WHOLE_LIMIT = 300
"""Number of requests above which annealing works in windows."""

FIRST_CYCLE = 250_000
"""Moves in the first cycle; each later one has twice as many."""

CYCLE_MOVES_PER_REQUEST = 40_000
"""Most moves of a cycle, times n: restarts pay off more than longer cycles."""

HOT, WARM, COLD = 0.8, 0.4, 0.1
"""First and last temperature, in mean output lengths."""

WINDOW = 48
LOOK_AHEAD = 64
WINDOW_MOVES = 4_000
"""Requests in a window, requests decoded behind it, and moves per window."""

UNBOUNDED = 1e300


class LocalSearch:
    """State of a search; each call of `run` continues from the last.

    Parameters
    ----------
    instance : Instance
        The problem, in tokens; a prompt length of 0 is allowed.
    start_times : int64 array or None, default None
        A feasible schedule to begin with, shape (n,); None for the best of several list schedules.
    seed : int, default 0
        Seed of the moves.

    Attributes
    ----------
    best_starts : int64 array
        The best schedule so far, shape (n,).
    best_cost : int
        Its total latency, rounds.
    moves : int
        Number of moves made.
    """

    def __init__(
        self, instance: Instance, start_times: IntArray | None = None, seed: int = 0
    ) -> None:
        self._requests = instance.columns
        self._prompt, self._output, self._arrival, _ = instance.columns
        self._n = len(instance)
        # Similar seeds give similar xorshift states: PCG64 spreads them.
        self._state = np.array([np.random.default_rng(seed).integers(1, 1 << 32)], np.int64)
        self.moves = 0
        self.best_starts: IntArray = np.zeros(self._n, np.int64)
        self.best_cost = 1 << 62
        if start_times is None:
            self._first_schedules()
        else:
            self._keep_better(np.array(start_times, np.int64))
            self._make_room(self.best_starts)
        if self._n > 1:
            self._begin()

    def _begin(self) -> None:
        self._steps = self._whole() if self._n <= WHOLE_LIMIT else self._windows()
        self._left = next(self._steps)  # run up to the first request for moves

    def run(self, moves: int) -> None:
        """Make ``moves`` further moves; an instance of one request needs none."""
        last, slices = self.moves + moves, Slices()
        while self._n > 1 and self.moves < last:
            with slices.next(min(self._left, last - self.moves)) as length:
                try:
                    self._left = self._steps.send(length)
                except MemoryError:
                    # The generator is over, and a later call needs one.
                    self._begin()
                    raise

    def offer(self, start_times: IntArray) -> None:
        """Let the next cycle start from another feasible schedule, shape (n,), if it is better."""
        starts = np.array(start_times, np.int64)
        # A decoding must have room for the schedule it started from.
        if int((starts + self._output).max()) >= len(self._profile.memory):
            self._make_room(starts)
        self._keep_better(starts)

    def _make_room(self, starts: IntArray) -> None:
        """Allow decodings twice the rounds of a schedule; longer ones are rejected."""
        rounds = 2 * int((starts + self._output).max()) + 2 * int(self._output.max()) + 2
        self._profile = Profile(np.zeros(rounds, np.int64), np.array([rounds - 1]))

    def _decode(self, order: IntArray, delay: IntArray) -> IntArray | None:
        """Return the start times of an encoding, or None if they exceed the profile."""
        out = np.zeros(self._n, np.int64)
        encoding, whole = Encoding(order, delay, out), Span(self._n, 0.0, 0)
        cost = decode(self._requests, encoding, 0, whole, out, self._profile, UNBOUNDED)
        return out if cost >= 0 else None

    def _encode(self, starts: IntArray) -> Encoding:
        order, delay = np.argsort(starts, kind="stable"), np.zeros(self._n, np.int64)
        encoding = Encoding(order, delay, starts.copy())
        encode(self._requests, encoding, self._profile)
        return encoding

    def _first_schedules(self) -> None:
        """Keep the best list schedule by volume, peak and output length, arrivals first or not.

        Besides those without delays, try each request at its first fit anywhere, gaps included;
        under spread arrivals this is far better.
        """
        volume = self._prompt * self._output + self._output * (self._output + 1) // 2
        none = np.zeros(self._n, np.int64)
        self._make_room(self._arrival.max() + np.cumsum(self._output) - self._output)
        for key in (volume, self._prompt + self._output, self._output):
            by_key = np.argsort(key, kind="stable").astype(np.int64)
            for order in (by_key, np.lexsort((key, self._arrival)).astype(np.int64)):
                starts = self._decode(order, none)
                if starts is not None:
                    self._keep_better(starts)
            starts = np.zeros(self._n, np.int64)
            empty = np.zeros_like(self._profile.memory)
            fit_in_order(self._requests, by_key, starts, empty, False)
            self._keep_better(starts)
        self._make_room(self.best_starts)

    def _keep_better(self, starts: IntArray) -> None:
        cost = int((starts + self._output - self._arrival).sum())
        if cost < self.best_cost:
            self.best_starts, self.best_cost = starts, cost

    # The two searches are generators: they yield the moves they can use and receive the number.

    def _anneal(self, cooling: Cooling) -> Generator[int, int, Encoding]:
        """Anneal a piece of the best schedule in slices; return the best encoding found."""
        current = self._encode(self.best_starts)
        best = Encoding(current.order.copy(), current.delay.copy(), current.starts.copy())
        work = Work(current, best, self._profile, self._state)
        cost, done = UNBOUNDED, 0
        while done < cooling.moves:
            last = done + (yield cooling.moves - done)
            cost = anneal(self._requests, cooling, work, cost, done, last)
            self.moves += last - done
            done = last
            if cooling.span.stop == self._n and cooling.low == 0:
                self._keep_better(best.starts.copy())
        return best

    def _whole(self) -> Generator[int, int, None]:
        scale = float(self._output.mean())
        longest = max(FIRST_CYCLE, CYCLE_MOVES_PER_REQUEST * self._n)
        length = FIRST_CYCLE
        cycle = 0
        while True:
            hot = (HOT if cycle % 2 == 0 else WARM) * scale
            whole = Span(self._n, 0.0, 0)
            yield from self._anneal(Cooling(0, self._n, whole, length, hot, COLD * scale))
            cycle += 1
            if cycle % 2 == 0:
                length = min(2 * length, longest)

    def _windows(self) -> Generator[int, int, None]:
        scale = float(self._output.mean())
        while True:
            for low in range(0, self._n, WINDOW // 2):
                high = min(self._n, low + WINDOW)
                stop = min(self._n, high + LOOK_AHEAD)
                span = Span(stop, float(self._n - stop), min(LOOK_AHEAD // 2, stop - high))
                heat = scale * max(1.0, (self._n - low) / 25.0)
                order, delay, _ = yield from self._anneal(
                    Cooling(low, high, span, WINDOW_MOVES, 0.15 * heat, 0.005 * heat)
                )
                starts = self._decode(order, delay)
                if starts is not None:
                    self._keep_better(starts)
