"""Upper bounds: simulated annealing on (start order, delays), in one piece or in windows.

Small instances are annealed whole, in cycles of growing length; large ones by sliding windows of
the start order, each annealed with a look-ahead and kept only if the *whole* schedule, decoded
again, gets better. See `hindsight.heuristics.annealing_kernels` for the encoding and why every
schedule is reachable.

Sources: the schedule representation extends the serial generation scheme of Kolisch (1996) by
delays; acceptance and cooling follow Kirkpatrick, Gelatt and Vecchi (1983).

Deterministic: the schedule after k moves depends on the arguments and ``seed`` alone. A time limit
only decides how many moves are made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass

import numpy as np

from hindsight.runtime.clock import Clock, Slices
from instances import Instance, InvalidValueError, Schedule
from instances.arrays import IntArray
from instances.problem.instance import ALLOW_ZERO_PROMPT_LENGTH

from .annealing_kernels import Cooling, anneal
from .schedule_decoder import Encoding, Profile, Span, decode, encode, first_fit

WHOLE_LIMIT = 300
"""Above this many requests, anneal by windows."""

FIRST_CYCLE = 250_000
"""Moves in the first cycle; later ones double."""

CYCLE_MOVES_PER_REQUEST = 40_000
"""A cycle never gets longer than this, times n: restarts pay more."""

HOT, WARM, COLD = 0.8, 0.4, 0.1
"""Temperatures, in mean output lengths."""

WINDOW = 48
LOOK_AHEAD = 64
WINDOW_MOVES = 4_000
"""Requests in a window and decoded behind it, and moves per window."""

UNBOUNDED = 1e300

Callback = Callable[[IntArray, int], None]
"""Called with the start times and the total latency of each better schedule."""


@dataclass(frozen=True, eq=False)
class SearchResult:
    """The best schedule found so far.

    Attributes
    ----------
    start_times : int64 array, shape (n,)
        Feasible.
    total_latency : int
        Of that schedule, recomputed from the start times.
    moves : int
        Made by the search since it was built.
    runtime : float
        Seconds of the last `LocalSearch.run`.
    history : tuple[tuple[int, float, int], ...]
        (moves, seconds since the search was built, total latency) per improvement.
    """

    start_times: IntArray
    total_latency: int
    moves: int
    runtime: float
    history: tuple[tuple[int, float, int], ...]


class LocalSearch:
    """State of one search. `run` may be called repeatedly; each call goes on from the last.

    Parameters
    ----------
    prompt_lengths, output_lengths : Sequence[int] or int64 array
        Tokens, shape (n,); a prompt length of 0 is admitted.
    arrival_times : Sequence[int] or int64 array or None
        Rounds, shape (n,); None means all at 0.
    memory_limit : int
        M, tokens.
    start_times : Sequence[int] or int64 array or None, default None
        A feasible schedule to begin with; None for the best of several list schedules.
    seed : int, default 0
        Of the moves.
    on_improvement : Callback or None, default None
        Called with each better schedule, the first one included, from within the constructor or
        `run`.

    Attributes
    ----------
    best_starts, best_cost : int64 array
        The best schedule so far and its total latency.
    moves : int
        Made so far.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        What `instances.Instance` refuses, or a first schedule that is not feasible.
    """

    def __init__(
        self,
        prompt_lengths: Sequence[int] | IntArray,
        output_lengths: Sequence[int] | IntArray,
        arrival_times: Sequence[int] | IntArray | None,
        memory_limit: int,
        start_times: Sequence[int] | IntArray | None = None,
        seed: int = 0,
        on_improvement: Callback | None = None,
    ) -> None:
        instance = Instance.from_arrays(
            prompt_lengths,
            output_lengths,
            arrival_times,
            memory_limit=memory_limit,
            metadata={ALLOW_ZERO_PROMPT_LENGTH: True},
        )
        self._requests = instance.columns
        self._prompt, self._output, self._arrival, _ = instance.columns
        self._n = len(instance)
        # Seeds close together give close xorshift states: PCG64 spreads them.
        self._state = np.array([np.random.default_rng(seed).integers(1, 1 << 32)], np.int64)
        self._on_improvement = on_improvement
        self._clock = Clock()
        self._history: list[tuple[int, float, int]] = []
        self.moves = 0
        self.best_starts: IntArray = np.zeros(self._n, np.int64)
        self.best_cost = 1 << 62
        if start_times is None:
            self._first_schedules()
        else:
            violations = Schedule(instance, start_times).violations()
            if violations:
                raise InvalidValueError(
                    None, "start_times", list(start_times), f"is not feasible: {violations[0]}"
                )
            starts = np.array(start_times, np.int64)
            self._make_profile(int((starts + self._output).max()))
            self._offer(starts)
        self._steps = self._whole() if self._n <= WHOLE_LIMIT else self._windows()
        if self._n > 1:
            self._left = next(self._steps)  # up to the first request for moves

    def run(self, move_limit: int | None = None, time_limit: float | None = None) -> SearchResult:
        """Go on until either limit; with neither, until the callback raises.

        Parameters
        ----------
        move_limit : int or None, default None
            Moves of this call.
        time_limit : float or None, default None
            Seconds of this call.
        """
        clock, slices = Clock(time_limit), Slices()
        last = math.inf if move_limit is None else self.moves + move_limit
        while self._n > 1 and self.moves < last and not clock.must_stop():
            with slices.next(int(min(self._left, last - self.moves))) as moves:
                self._left = self._steps.send(moves)
        return SearchResult(
            self.best_starts.copy(),
            int(self.best_cost),
            self.moves,
            clock.seconds(),
            tuple(self._history),
        )

    def offer(self, start_times: IntArray) -> None:
        """Let the next cycle begin from another feasible schedule, shape (n,), if it is better."""
        starts = np.array(start_times, np.int64)
        # A decoding must have room for what it began from.
        makespan = int((starts + self._output).max())
        if makespan >= len(self._work.memory):
            self._make_profile(makespan)
        self._offer(starts)

    # Schedules

    def _make_profile(self, makespan: int) -> None:
        # Room to explore schedules longer than the first; beyond it a decoding is rejected.
        rounds = 2 * makespan + 2 * int(self._output.max()) + 2
        self._work = Profile(np.zeros(rounds, np.int64), np.array([rounds - 1]))

    def _decode(self, order: IntArray, delay: IntArray) -> IntArray | None:
        """The start times that an encoding stands for; None where they exceed the profile."""
        out = np.zeros(self._n, np.int64)
        encoding, whole = Encoding(order, delay, out), Span(self._n, 0.0, 0)
        cost = decode(self._requests, encoding, 0, whole, out, self._work, UNBOUNDED)
        return out if cost >= 0 else None

    def _encode(self, starts: IntArray) -> Encoding:
        order, delay = np.argsort(starts, kind="stable"), np.zeros(self._n, np.int64)
        encoding = Encoding(order, delay, starts.copy())
        encode(self._requests, encoding, self._work)
        return encoding

    def _first_schedules(self) -> None:
        """List schedules without delays: by volume, peak and output length, arrivals first or not.

        And each request at its first fit anywhere, gaps included, which is far better under spread
        arrivals.
        """
        volume = self._prompt * self._output + self._output * (self._output + 1) // 2
        self._make_profile(int(self._arrival.max() + self._output.sum()))
        none = np.zeros(self._n, np.int64)
        for key in (volume, self._prompt + self._output, self._output):
            by_key = np.argsort(key, kind="stable").astype(np.int64)
            for order in (by_key, np.lexsort((key, self._arrival)).astype(np.int64)):
                starts = self._decode(order, none)
                if starts is not None:
                    self._offer(starts)
            self._offer(first_fit(self._requests, by_key, self._work))
        self._make_profile(int((self.best_starts + self._output).max()))

    def _offer(self, starts: IntArray) -> None:
        """Keep a feasible schedule if it is better."""
        cost = int((starts + self._output - self._arrival).sum())
        if cost >= self.best_cost:
            return
        self.best_cost = cost
        self.best_starts = starts.copy()
        self._history.append((self.moves, self._clock.seconds(), cost))
        if self._on_improvement is not None:
            self._on_improvement(self.best_starts.copy(), cost)

    # The two searches, as generators: they yield the moves they can use, and are sent the number

    def _anneal(self, cooling: Cooling) -> Generator[int, int, Encoding]:
        """Anneal a piece of the best schedule in slices; the best encoding found."""
        current = self._encode(self.best_starts)
        best = Encoding(*(column.copy() for column in current))
        cost = UNBOUNDED
        done = 0
        while done < cooling.moves:
            last = done + (yield cooling.moves - done)
            cost = anneal(
                *(self._requests, cooling, current, best, cost, self._work, self._state, done, last)
            )
            self.moves += last - done
            done = last
            if cooling.span.stop == self._n and cooling.low == 0:
                self._offer(best.starts)
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
                    self._offer(starts)


def improve(
    prompt_lengths: Sequence[int] | IntArray,
    output_lengths: Sequence[int] | IntArray,
    arrival_times: Sequence[int] | IntArray | None,
    memory_limit: int,
    start_times: Sequence[int] | IntArray | None = None,
    *,
    seed: int = 0,
    move_limit: int | None = None,
    time_limit: float | None = None,
    on_improvement: Callback | None = None,
) -> SearchResult:
    """Search from ``start_times`` (or from list schedules) until a limit is reached.

    Parameters are those of `LocalSearch` and `LocalSearch.run`.

    Raises
    ------
    InvalidTypeError, InvalidValueError
        What `LocalSearch` refuses; neither a move limit nor a time limit.
    """
    if move_limit is None and time_limit is None:
        raise InvalidValueError(None, "move_limit", None, "and no time_limit: give one of them")
    columns = (prompt_lengths, output_lengths, arrival_times)
    search = LocalSearch(*columns, memory_limit, start_times, seed, on_improvement)
    return search.run(move_limit, time_limit)
