"""Ruin and recreate: feasible in every state, in regions and threads, until it is stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from brute_force import feasible_total, optimal_total_latency, total_latency_by_definition
from drawn_instances import drawn_instance
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import instances, schedules

from hindsight.runtime.clock import never
from hindsight.schedules.cycles import RuinAndRecreate
from hindsight.schedules.lists import one_after_another
from hindsight.schedules.moves import CycleSettings, Work, ruin_and_recreate, work_space
from hindsight.schedules.timetables import (
    Requests,
    Timetable,
    earliest_fit,
    empty_profiles,
    fit,
    hold,
    requests_of,
    timetable,
)
from instances import FleetSchedule, Instance, MemoryRule, Schedule
from instances.arrays import IntArray


def assert_feasible(instance: Instance, table: Timetable) -> None:
    """By definition, on every machine; and the profiles are the memory that is left."""
    requests, starts, machines = table.requests, table.starts.tolist(), table.machines.tolist()
    blocks = np.zeros_like(table.profiles)
    for i, (start, k) in enumerate(zip(starts, machines, strict=True)):
        if start < 0:
            assert np.isfinite(requests.penalty[i])
            continue
        assert requests.arrival[i] <= start <= requests.last[i]
        for age in range(1, int(requests.output[i]) + 1):
            blocks[k, start + age] += -(-int(requests.prompt[i] + age) // requests.block)
    assert table.profiles.min() >= 0
    assert (table.profiles + blocks == instance.memory_limit // requests.block).all()


class Watched(RuinAndRecreate):
    """Keeps the timetable of the last cycle."""

    def _table(self, starts: IntArray, machines: IntArray, rounds: int) -> Timetable:
        self.table = super()._table(starts, machines, rounds)
        return self.table


def assert_sound(instance: Instance, search: Watched) -> None:
    assert_feasible(instance, search.table)
    best = search.starts
    cost = total_latency_by_definition(instance, best.tolist())
    assert search.cost == cost + int(
        instance.weights @ (instance.arrival_times - instance.output_lengths)
    )
    assert Schedule(instance, best).is_feasible


cycle_settings = st.builds(
    CycleSettings,
    most=st.integers(2, 12),
    reach=st.sampled_from((0.01, 1.0, 10.0, 1e300)),
    weight=st.sampled_from((0.0, 0.5, 1.0, 10.0)),
    hot=st.sampled_from((0.001, 0.1, 10.0)),
    cold=st.sampled_from((0.001, 0.1, 10.0)),
)


@given(st.data())
def test_nothing_but_its_region_matters_to_a_move(data: st.DataObject) -> None:
    """Others write there meanwhile; outputs may be longer than the region is."""
    schedule = data.draw(schedules(instances(min_requests=2, max_requests=9)))
    instance, requests = schedule.instance, requests_of(schedule.instance)
    rounds = schedule.makespan + data.draw(st.integers(1, 12))
    first = data.draw(st.integers(0, rounds))
    last = min(first + data.draw(st.integers(1, 30)), rounds - 1)
    ends = schedule.completion_times
    inside = np.flatnonzero((schedule.start_times >= first) & (ends <= last))
    if not len(inside):
        return
    prices = np.array(data.draw(st.lists(st.integers(0, 3), min_size=rounds, max_size=rounds)))
    sums = np.cumsum(prices / 8.0), np.cumsum(prices / 8.0 * np.arange(rounds, dtype=np.float64))
    cycle = CycleSettings(4, 6.0, 5.0, 0.1, data.draw(st.sampled_from((0.0, 1.0))))
    reached = []
    for strange in (False, True):
        nowhere = np.zeros_like(schedule.start_times)
        profiles = empty_profiles(instance, (1, rounds))
        table = timetable(requests, schedule.start_times, nowhere, profiles)
        starts, profile = table.starts, table.profiles[0]
        outside = np.ones(rounds, dtype=bool)
        outside[first + 1 : last + 1] = False
        if strange:
            profile[outside] = data.draw(st.integers(0, 2 * instance.memory_limit))
        kept = profile[outside].copy()
        region = first, last, inside.copy(), np.array([5], np.int64)
        work = Work(table, work_space(4, 9), *region, *sums, 60, cycle)
        change = ruin_and_recreate(work, 0, 60)
        assert change == instance.weights @ (starts - schedule.start_times)
        assert (profile[outside] == kept).all()
        untouched = np.setdiff1d(np.arange(len(starts)), inside)
        assert (starts[untouched] == schedule.start_times[untouched]).all()
        assert (starts[inside] >= first).all()
        assert (starts[inside] + instance.output_lengths[inside] <= last).all()
        if not strange:
            assert_feasible(instance, table)
        reached.append(starts.tolist())
    assert reached[0] == reached[1]


def crowd(seed: int, n: int = 160, *, longest: int = 40, last_arrival: int = 150) -> Instance:
    rng = np.random.default_rng([89, seed])
    outputs = np.where(rng.random(n) < 0.1, longest, rng.integers(1, 20, n))
    prompts, arrivals = rng.integers(1, 30, n), rng.integers(0, last_arrival + 1, n)
    return Instance.from_arrays(prompts, outputs, arrivals, memory_limit=200 + longest)


def begun(instance: Instance, seed: int = 3, threads: int = 1) -> Watched:
    search = Watched(instance, seed, threads)
    search.offer(one_after_another(instance).start_times)
    return search


class ForcedSlices:
    """Of lengths drawn from a seed, whatever the clock says."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    @contextmanager
    def next(self, most: int) -> Iterator[int]:
        yield min(most, int(self._random.integers(1, 300)))


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_threads_and_slices_change_nothing(threads: int) -> None:
    instance = crowd(1, n=240)
    prices = np.arange(300, 0, -1) / 10_000
    reached = []
    for repeat in range(6):
        search = begun(instance, threads=threads)
        search.moves_between_cuts, search.prices = 700, prices
        if repeat:
            search.slices = lambda repeat=repeat: ForcedSlices(repeat)
        for weight in (1.0, 0.0):
            assert search.cycle(CycleSettings(weight=weight, hot=0.5), 6_000, never)
        assert_sound(instance, search)
        reached.append((search.cost, search.starts.tolist(), search.table.starts.tolist()))
    assert all(one == reached[0] for one in reached)
    other = begun(instance, seed=4, threads=threads)
    other.cycle(CycleSettings(hot=0.5), 6_000, never)
    assert other.starts.tolist() != reached[0][1]


def test_a_stopped_cycle_keeps_what_it_found() -> None:
    instance = crowd(4)
    polls = iter([False] * 9)
    search = begun(instance)
    search.slices = lambda: ForcedSlices(1)
    before = search.cost
    assert not search.cycle(CycleSettings(), 10**9, lambda: next(polls, True))
    # Before the first cut, when nothing but the stop makes it look.
    assert 9 <= search.moves < search.moves_between_cuts
    assert search.cost < before
    assert_sound(instance, search)
    made, reached = search.moves, search.cost
    assert not search.cycle(CycleSettings(), 10**9, lambda: True)
    assert (search.moves, search.cost) == (made, reached)


def test_small_optima_are_reached() -> None:
    reached = 0
    for seed in range(40):
        last = 6 if seed % 2 else None
        instance = drawn_instance(
            [59, seed], (5, 5), (6, 11), prompts=(1, 3), outputs=7, last_arrival=last
        )
        search = begun(instance)
        for cycle in (CycleSettings(20, 10.0), CycleSettings(hot=0.03)):
            search.cycle(cycle, 2_000, never)
        found = feasible_total(instance, search.starts.tolist())
        reached += found == optimal_total_latency(instance)[0]
    assert reached >= 36


@given(st.data())
@settings(max_examples=examples(100, 40))
def test_the_first_fit_is_the_first_start_that_fits(data: st.DataObject) -> None:
    block = data.draw(st.integers(1, 4))
    profile = np.array(data.draw(st.lists(st.integers(0, 9), min_size=4, max_size=20)))
    begin, prompt = data.draw(st.integers(0, 6)), data.draw(st.integers(0, 9))
    output, limit = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 14))

    none = np.zeros(1, np.int64)
    lengths = none + prompt, none + output
    requests = Requests(*lengths, none, none, none, np.zeros(1), block)

    def fits(start: int) -> bool:
        alone = np.zeros_like(profile)
        hold(Timetable(requests, none, none, alone[None]), 0, start, 0, -1)
        held = [-(-(prompt + age) // block) for age in range(1, output + 1)]
        assert alone[start + 1 : start + output + 1].tolist() == held
        return bool((profile + alone)[alone > 0].max() <= limit)

    starts = range(begin, len(profile) - output)
    first = next((start for start in starts if fits(start)), -1)
    assert earliest_fit(limit - profile, begin, prompt, output, block) == first


@given(st.data())
@settings(max_examples=examples(100, 40))
def test_any_axes_leave_a_sound_state(data: st.DataObject) -> None:
    schedule = data.draw(schedules(instances(max_requests=7)))
    last = None
    if data.draw(st.booleans()):
        waits = data.draw(st.lists(st.integers(0, 6), min_size=len(schedule.instance)))
        last = schedule.instance.arrival_times + np.array(waits[: len(schedule.instance)])
    rule = MemoryRule(block_size=data.draw(st.sampled_from((1, 2))))
    loose = Instance(schedule.instance.requests, 2 * schedule.instance.memory_limit + 4)
    instance = loose.replaced(memory_rule=rule).replaced(replicas=data.draw(st.integers(1, 3)))
    threads = data.draw(st.integers(1, 3)) if last is None and instance.replicas == 1 else 1
    search = Watched(instance, 7, threads, last=last)
    # As many threads as are asked for, however few requests there are; cuts come soon.
    search.fewest_in_a_region, search.fewest_lives_in_a_region = 1, 1e-6
    search.moves_between_cuts = 16
    search.place(np.array(data.draw(st.permutations(range(len(instance))))))
    for _ in range(2):
        before = search.cost
        if data.draw(st.booleans()) and threads == 1 == instance.replicas and last is None:
            numerators = data.draw(st.lists(st.integers(0, 9), max_size=60))
            search.prices = np.array(numerators) / 8
        if search.cost:
            search.cycle(data.draw(cycle_settings), data.draw(st.integers(1, 90)), never)
        assert_feasible(instance, search.table)
        search.offer(*search.shift_left(search.starts, search.machines, never))
        assert_feasible(instance, search.table)
        assert search.cost <= before
    if last is None:
        found = search.schedule
        assert found.is_feasible
        assert isinstance(found, FleetSchedule if instance.replicas > 1 else Schedule)
    else:
        assert search.cost == (search.starts < 0).sum()
        # Whoever is left out has no start beside the others.
        table = search.table
        for i in np.flatnonzero(table.starts < 0).tolist():
            begin, size = int(instance.arrival_times[i]), table.profiles.shape[1]
            assert fit(search.requests, table.profiles, i, begin, 0, size)[0] < 0
