"""The worker: its batch, its memory and its clock."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

import numpy as np

from .batch_time import BatchStretch, BatchTime, FloatArray
from .policy import RunningRequest, State, VisibleRequest
from .service_model import ServiceModel

LONGEST_TIMED_STRETCH = 256
"""Rounds whose durations are computed at once: more would be wasted when an arrival cuts in."""

TimedStretch = tuple[int, int, int, int, int, "FloatArray | None"]
"""(first round, rounds, memory of the first round, growth, batch size, round end times)."""


class MemoryOverflowError(RuntimeError):
    """The batch a policy chose does not fit in memory; the message names policy and round."""


class Machine:
    """Executes rounds; knows the true output lengths, which policies never see.

    Attributes
    ----------
    running : requests in the batch by index, in order of admission.
    state : the view of the machine handed to policies.
    held_ever : whether any request was ever held midway.
    """

    def __init__(
        self, memory_limit: int, service_model: ServiceModel, batch_time: BatchTime | None
    ) -> None:
        self.running: dict[int, RunningRequest] = {}
        self.state = State(memory_limit, self.running)
        self.service_model = service_model
        self.batch_time = batch_time
        self.held_ever = False
        self._output_lengths: list[int] = []
        # (end round, index); entries of evicted or held requests go stale and are skipped.
        self._ends: list[tuple[int, int]] = []
        self._end_of: dict[int, int] = {}
        self._new_requests = 0
        self._new_prompt_tokens = 0

    def know(self, output_length: int) -> None:
        """Register the true output length of the next request by order of appearance."""
        self._output_lengths.append(output_length)

    def start(self, request: VisibleRequest) -> None:
        """Put a request into the batch."""
        state, index = self.state, request.index
        self.running[index] = RunningRequest(request, state.round_index)
        state.memory += self.service_model.base(request.prompt_length)
        self._set_end(index, state.round_index + self._rounds(index))
        self._new_requests += 1
        self._new_prompt_tokens += request.prompt_length

    def evict(self, index: int) -> None:
        """Take a request out of the batch, its work lost."""
        running = self.running.pop(index)
        del self._end_of[index]
        self.state.memory -= self._held_tokens(running)

    def idle_until(self, time: float) -> None:
        """Let time pass with an empty batch; idle rounds count in the round model only."""
        state = self.state
        if self.batch_time is None:
            state.round_index = max(state.round_index, math.ceil(time))
            state.time = state.round_index
        else:
            state.time = max(state.time, time)

    def advance(
        self,
        hold: Sequence[int],
        wake: int | None,
        next_arrival: float | None,
        max_rounds: int | None,
        policy_name: str,
    ) -> tuple[list[TimedStretch], list[int]]:
        """Run rounds up to the next epoch; returns what ran and which requests completed.

        Raises
        ------
        MemoryOverflowError: the very next round would hold more than M.
        """
        state = self.state
        held = set(hold)
        growth = len(self.running) - len(held)
        free = state.memory_limit - state.memory
        if growth > free:
            raise MemoryOverflowError(
                f"policy {policy_name!r}, round {state.round_index + 1}: the batch holds "
                f"{state.memory + growth} tokens, {growth - free} above memory_limit"
            )
        limits = [self._next_end(held) - state.round_index]
        if growth:
            limits.append(free // growth)
        if wake is not None:
            limits.append(max(1, wake - state.round_index))
        elif not growth:
            # Everything is held and nobody asked to be woken: look again after one round.
            limits.append(1)
        if max_rounds is not None:
            limits.append(max(1, max_rounds - state.round_index))
        if next_arrival is not None and self.batch_time is None:
            limits.append(max(1, math.ceil(next_arrival) - state.round_index))
        rounds = min(limits)
        stretches = self._run(rounds, growth, next_arrival)
        if held:
            self.held_ever = True
            ran = sum(stretch[1] for stretch in stretches)
            for index in held:
                self.running[index].rounds_held += ran
                self._set_end(index, self._end_of[index] + ran)
        return stretches, self._collect_finished()

    def _run(self, rounds: int, growth: int, next_arrival: float | None) -> list[TimedStretch]:
        state = self.state
        stretches: list[TimedStretch] = []
        remaining = rounds
        while remaining:
            block = remaining
            ends: FloatArray | None = None
            if self.batch_time is not None:
                block = min(block, LONGEST_TIMED_STRETCH)
                stretch = BatchStretch(
                    block,
                    growth,
                    self._new_prompt_tokens,
                    self._new_requests,
                    state.memory + growth,
                    growth,
                )
                ends = state.time + np.cumsum(self.batch_time.durations(stretch))
                if next_arrival is not None:
                    block = min(block, int(np.searchsorted(ends, next_arrival, "left")) + 1)
                    ends = ends[:block]
            first_round = state.round_index + 1
            memory = state.memory + growth
            stretches.append((first_round, block, memory, growth, growth, ends))
            state.round_index += block
            state.memory += growth * block
            state.time = state.round_index if ends is None else float(ends[-1])
            self._new_requests = self._new_prompt_tokens = 0
            remaining -= block
            if ends is not None and next_arrival is not None and state.time >= next_arrival:
                break
        return stretches

    def _collect_finished(self) -> list[int]:
        finished: list[int] = []
        while self._ends and self._ends[0][0] <= self.state.round_index:
            end, index = heapq.heappop(self._ends)
            if self._end_of.get(index) != end:
                continue
            del self._end_of[index]
            self.state.memory -= self._held_tokens(self.running.pop(index))
            finished.append(index)
        return finished

    def _next_end(self, held: set[int]) -> int:
        if held:
            ends = [end for index, end in self._end_of.items() if index not in held]
            return min(ends, default=self.state.round_index + 1)
        while self._end_of.get(self._ends[0][1]) != self._ends[0][0]:
            heapq.heappop(self._ends)
        return self._ends[0][0]

    def _set_end(self, index: int, end: int) -> None:
        self._end_of[index] = end
        heapq.heappush(self._ends, (end, index))

    def _rounds(self, index: int) -> int:
        return self.service_model.rounds(self._output_lengths[index])

    def _held_tokens(self, running: RunningRequest) -> int:
        return self.service_model.base(running.request.prompt_length) + running.rounds_run(
            self.state.round_index
        )
