"""Openings of a solve, by objective: the instance to search, first bounds, and restoring results.

Idle gaps cost rounds but need no decisions. Total latency is minimised without them, with or
without preemption; the makespan depends only on what follows the last of them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from itertools import chain

import numpy as np

from hindsight.exact.horizon import THOROUGH_UP_TO, HorizonProof, proved_horizon
from hindsight.outcomes.goals import Optimum
from hindsight.outcomes.interval import Interval
from hindsight.outcomes.proofs import Proof
from hindsight.prices.idle_gaps import compress
from hindsight.prices.makespan import makespan_lower_bound
from hindsight.prices.state_proofs import StatePrices
from hindsight.prices.volume import fill_by_volume, mean_busy_time_bound
from hindsight.schedules.lists import (
    PRIORITIES,
    best_list_schedule,
    one_after_another,
    prefix_schedule,
    prefix_schedule_within,
)
from instances import Instance, PreemptiveSchedule, Schedule
from instances.arrays import IntArray
from instances.problem.preemptive_schedule import AnySchedule

from .makespan import makespan_schedules

FIRST_LIST_SECONDS = 5.0
"""Seconds that the first list schedule of many requests may take beyond a time limit."""


class Opening(ABC):
    """Part of a solve that depends on the objective.

    Attributes
    ----------
    instance : Instance
        The instance to search.
    offset : int
        Difference between costs in the original instance and in `instance`.
    """

    instance: Instance
    offset: int = 0

    @abstractmethod
    def __init__(self, instance: Instance) -> None: ...

    @abstractmethod
    def begin(self, state: Interval, start: AnySchedule | None) -> HorizonProof | None:
        """Find a first interval, by list schedules, ``start`` and bounds that need no solver."""

    @abstractmethod
    def restore(self, schedule: AnySchedule) -> AnySchedule:
        """Turn a schedule of `instance` into one of the original instance."""

    @abstractmethod
    def horizon(self, state: Interval) -> int:
        """Return a round of the original instance by which every optimal schedule completes."""

    def restored_proof(self, proof: Proof | None) -> Proof | None:
        """Turn prices of `instance`, if any, into prices of the original instance."""
        return None

    def prices_of(self, proof: Proof) -> StatePrices | None:
        """Return prices of `instance` from a proof for the original one, to start an ascent."""
        return None


class LatencyOpening(Opening):
    """Opening of total latency."""

    def __init__(self, instance: Instance) -> None:
        self._compressed = compress(instance)
        self.instance = self._compressed.instance

    def begin(self, state: Interval, start: AnySchedule | None) -> HorizonProof | None:
        """See `Opening`."""
        moved = self._moved(start)
        assert not isinstance(moved, PreemptiveSchedule)
        found = None
        if len(self.instance) > THOROUGH_UP_TO:
            self._first_interval(state, moved)
            found = state.offer
        # If the time is up already, no further list schedule is started.
        known = state.schedule if found is not None and state.clock.must_stop() else None
        proof = proved_horizon(self.instance, known, state.clock.must_stop, found)
        if moved is not None and moved.total_latency < proof.schedule.total_latency:
            proof = proved_horizon(self.instance, moved, state.clock.must_stop)
        state.horizon = proof.horizon
        state.offer(proof.schedule)
        state.prove(proof.lower_bound, "first prices")
        return proof

    def restore(self, schedule: AnySchedule) -> AnySchedule:
        """See `Opening`."""
        return self._compressed.restore(schedule)

    def restored_proof(self, proof: Proof | None) -> Proof | None:
        """See `Opening`."""
        return proof and proof.moved(self.instance.arrival_times, self._compressed.shifts)

    def prices_of(self, proof: Proof) -> StatePrices | None:
        """See `Opening`."""
        prices = proof.steps[0]
        if not isinstance(prices, StatePrices):
            return None
        return prices.without_gaps(self.instance.arrival_times, self._compressed.shifts)

    def horizon(self, state: Interval) -> int:
        """See `Opening`."""
        # No latency of an optimal schedule exceeds the total latency of another schedule.
        proved = state.horizon or int(self.instance.arrival_times.max()) + state.upper_bound
        return proved + int(self._compressed.shifts.max())

    def _first_interval(self, state: Interval, moved: AnySchedule | None) -> None:
        """Compute one list schedule and the volume bound, in seconds even for millions of requests.

        A list schedule that has used up the time limit ends after `FIRST_LIST_SECONDS`.
        """
        instance, clock = self.instance, state.clock
        last = clock.seconds() + FIRST_LIST_SECONDS

        def must_stop() -> bool:
            return clock.must_stop() and (clock.is_interrupted or clock.seconds() > last)

        schedule = moved or prefix_schedule_within(instance, PRIORITIES["output_length"], must_stop)
        state.offer(schedule or one_after_another(instance))
        state.prove(instance.total_output_length, "output lengths")
        state.prove(mean_busy_time_bound(instance, fill_by_volume(instance)), "mean busy times")

    def _moved(self, start: AnySchedule | None) -> AnySchedule | None:
        """Return a schedule without idle gaps, or None if that breaks it."""
        if start is None or not self._compressed.fits(start):
            return None
        return self._compressed.move(start)


class PreemptiveOpening(LatencyOpening):
    """Opening of total latency where requests may be stopped and keep their tokens.

    Mean busy times hold unchanged. The bound (`hindsight.prices.volume`) relaxes a schedule to one
    in which a round serves at most M units of volume, request i owning v_i = sum of s_i + k, and
    adds to its sum of volume-weighted mean rounds what C_i exceeds the mean by. Requests that are
    stopped still hold s_i + k in the round of their k-th token and at most M together, so the first
    part covers them. And C_i less the volume-weighted mean of r_1 < ... < r_o = C_i is least where
    every round is as late as it can be, r_k = C_i - o_i + k: the rounds without preemption, whose
    excess the bound adds.
    """

    def begin(self, state: Interval, start: AnySchedule | None) -> None:
        """See `Opening`."""
        self._first_interval(state, self._moved(start))
        if not state.is_done():
            thorough = len(self.instance) <= THOROUGH_UP_TO
            stop = state.clock.must_stop
            state.offer(best_list_schedule(self.instance, thorough=thorough, should_stop=stop))


class MakespanOpening(Opening):
    """Opening of the makespan: the requests after the last idle gap, moved to round 0, decide it.

    What arrives before such a gap can be complete before it ends whatever happens later
    (`hindsight.prices.idle_gaps`), so the least makespan is that of the last block alone, plus
    `offset`.
    """

    def __init__(self, instance: Instance) -> None:
        shifts = compress(instance).shifts
        is_last = shifts == shifts.max()
        self._original = instance
        self._last, self._earlier = np.flatnonzero(is_last), np.flatnonzero(~is_last)
        self.offset = int(instance.arrival_times[self._last].min())
        self.instance = self._selected(self._last, self.offset)

    def begin(self, state: Interval, start: AnySchedule | None) -> None:
        """See `Opening`."""
        thorough = len(self.instance) <= THOROUGH_UP_TO
        bound = makespan_lower_bound(self.instance)
        schedules = makespan_schedules(self.instance, state.clock.must_stop, thorough=thorough)
        if isinstance(start, Schedule):
            moved = start.start_times[self._last] - self.offset
            schedules = chain([Schedule(self.instance, moved)], schedules)
        for schedule in schedules:
            state.offer(schedule)
            if state.upper_bound == bound:
                break
        state.prove(bound, "last completion")
        state.root_bound = bound

    def restore(self, schedule: AnySchedule) -> Schedule:
        """See `Opening`; earlier blocks are served first come, first served.

        That never idles while anything waits, so it ends before the last block.
        """
        starts = np.zeros(len(self._original), dtype=np.int64)
        starts[self._last] = schedule.start_times + self.offset
        if len(self._earlier):
            before = self._selected(self._earlier, 0)
            served = prefix_schedule(before, PRIORITIES["arrival_time"])
            starts[self._earlier] = served.start_times
        return Schedule(self._original, starts)

    def horizon(self, state: Interval) -> int:
        """See `Opening`."""
        return int(state.upper_bound) + self.offset

    def _selected(self, positions: IntArray, offset: int) -> Instance:
        given = self._original
        requests = [
            replace(given[k], arrival_time=given[k].arrival_time - offset)
            for k in positions.tolist()
        ]
        return Instance(requests, given.memory_limit, given.name, given.metadata)


OPENINGS: dict[Optimum, type[Opening]] = {
    "latency": LatencyOpening,
    "preemptive": PreemptiveOpening,
    "makespan": MakespanOpening,
}
