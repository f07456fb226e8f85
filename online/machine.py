"""The worker: its batch, its memory and its clock."""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence

import numpy as np

from .batch_time import BatchStretch, BatchTime, FloatArray
from .policy import Meters, PolicyError, RunningRequest, State, VisibleRequest
from .service_model import ServiceModel

LONGEST_TIMED_STRETCH = 256
"""Rounds whose durations are computed at once: more would be wasted when an arrival cuts in."""

TimedStretch = tuple[int, int, int, int, int, "FloatArray | None"]
"""(first round, rounds, memory of the first round, growth, batch size, round end times)."""


class Machine:
    """Executes rounds; knows the true output lengths, which policies never see.

    Attributes
    ----------
    running : requests in the batch by index, in order of admission.
    meters : clock, round and memory.
    state : the read-only view of the machine handed to policies.
    held_ever : whether any request was ever held midway.
    """

    def __init__(
        self, memory_limit: int, service_model: ServiceModel, batch_time: BatchTime | None
    ) -> None:
        self.running: dict[int, RunningRequest] = {}
        self.meters = Meters()
        self.state = State(memory_limit, self.running, self.meters)
        self.service_model = service_model
        self.batch_time = batch_time
        self.held_ever = False
        self._output_lengths: list[int] = []
        # (end round, index); entries of evicted or held requests go stale and are skipped.
        self._ends: list[tuple[int, int]] = []
        self._end_of: dict[int, int] = {}
        # Prompt lengths of the requests in the batch that have not advanced yet.
        self._fresh: dict[int, int] = {}
        self._first_token_delays: dict[int, int] = {}

    def know(self, output_length: int) -> None:
        """Register the true output length of the next request by order of appearance."""
        self._output_lengths.append(output_length)

    def start(self, request: VisibleRequest) -> None:
        """Put a request into the batch."""
        meters, index = self.meters, request.index
        self.running[index] = RunningRequest(request, meters.round_index)
        meters.memory += self.service_model.base(request.prompt_length)
        self._set_end(index, meters.round_index + self._rounds(index))
        self._fresh[index] = request.prompt_length
        self._first_token_delays[index] = 0

    def evict(self, index: int) -> None:
        """Take a request out of the batch, its work lost."""
        running = self.running.pop(index)
        del self._end_of[index]
        self._fresh.pop(index, None)
        self.meters.memory -= self._held_tokens(running)

    def rounds_to_first_token(self, index: int) -> int:
        """Rounds from the last start of a request to its first token, held ones included."""
        return 1 + self.service_model.prefill_rounds + self._first_token_delays[index]

    def idle_until(self, time: float) -> None:
        """Let time pass with an empty batch; idle rounds count in the round model only."""
        meters = self.meters
        if self.batch_time is None:
            meters.round_index = max(meters.round_index, math.ceil(time))
            meters.time = meters.round_index
        else:
            meters.time = max(meters.time, time)

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
        PolicyError: the very next round would hold more than M.
        """
        state = self.state
        held = set(hold)
        growth = len(self.running) - len(held)
        free = state.memory_limit - state.memory
        if growth > free:
            latest = next(reversed(self.running.values())).request
            raise PolicyError(
                f"policy {policy_name!r}, round {state.round_index + 1}: the batch holds "
                f"{state.memory + growth} tokens, {growth - free} above memory_limit; "
                f"request {latest.id!r} was the last to join"
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
        fresh = {index: length for index, length in self._fresh.items() if index not in held}
        held_memory = sum(self._held_tokens(self.running[index]) for index in held)
        stretches = self._run(rounds, growth, next_arrival, fresh, held_memory)
        for index in fresh:
            del self._fresh[index]
        if held:
            self._extend(held, sum(stretch[1] for stretch in stretches))
        return stretches, self._collect_finished()

    def _extend(self, held: set[int], rounds: int) -> None:
        """Put off the ends of requests that were held while ``rounds`` rounds ran."""
        self.held_ever = True
        before_first_token = 1 + self.service_model.prefill_rounds
        for index in held:
            running = self.running[index]
            if running.rounds_run(self.meters.round_index) - rounds < before_first_token:
                self._first_token_delays[index] += rounds
            running.rounds_held += rounds
            self._set_end(index, self._end_of[index] + rounds)

    def _run(
        self,
        rounds: int,
        growth: int,
        next_arrival: float | None,
        fresh: dict[int, int],
        held_memory: int,
    ) -> list[TimedStretch]:
        meters = self.meters
        new_requests, new_prompt_tokens = len(fresh), sum(fresh.values())
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
                    new_prompt_tokens,
                    new_requests,
                    meters.memory + growth,
                    growth,
                    held_memory,
                )
                ends = meters.time + np.cumsum(self.batch_time.durations(stretch))
                if next_arrival is not None:
                    block = min(block, int(np.searchsorted(ends, next_arrival, "left")) + 1)
                    ends = ends[:block]
            first_round = meters.round_index + 1
            memory = meters.memory + growth
            stretches.append((first_round, block, memory, growth, growth, ends))
            meters.round_index += block
            meters.memory += growth * block
            meters.time = meters.round_index if ends is None else float(ends[-1])
            new_requests = new_prompt_tokens = 0
            remaining -= block
            if ends is not None and next_arrival is not None and meters.time >= next_arrival:
                break
        return stretches

    def _collect_finished(self) -> list[int]:
        finished: list[int] = []
        while self._ends and self._ends[0][0] <= self.state.round_index:
            end, index = heapq.heappop(self._ends)
            if self._end_of.get(index) != end:
                continue
            del self._end_of[index]
            self.meters.memory -= self._held_tokens(self.running.pop(index))
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
