"""Ruin and recreate: feasible in every state, in regions and threads, until it is stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from brute_force import (
    is_feasible_by_definition,
    optimal_total_latency,
    total_latency_by_definition,
)
from drawn_instances import drawn_instance
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import instances, schedules

from hindsight.heuristics import ruin_and_recreate as module
from hindsight.heuristics.ruin_and_recreate import CycleSettings, RuinAndRecreate
from hindsight.heuristics.ruin_and_recreate_kernels import (
    Moves,
    PriceSums,
    Region,
    StartBuckets,
    Timetable,
    fill,
    ruin_and_recreate,
)
from hindsight.outcomes.proofs import MemoryPrices
from hindsight.runtime.clock import never
from hindsight.schedules.lists import one_after_another
from instances import Instance, Schedule
from instances.arrays import IntArray


def assert_feasible(instance: Instance, starts: IntArray, profile: IntArray) -> None:
    """By definition, in as many rounds as they may take; and the profile is their memory."""
    assert (starts >= instance.arrival_times).all()
    memory = np.zeros(len(profile), dtype=np.int64)
    for request, start in zip(instance, starts.tolist(), strict=True):
        end = start + request.output_length
        assert end < len(memory)
        memory[start + 1 : end + 1] += request.prompt_length + np.arange(1, end - start + 1)
    assert memory.max() <= instance.memory_limit
    assert profile.tolist() == memory.tolist()


def requests_in(buckets: StartBuckets) -> dict[int, list[int]]:
    """Of each bucket, read in both directions."""
    found = {}
    for at, head in enumerate(buckets.heads.tolist()):
        forwards, i, before = [], head, -1
        while i >= 0:
            assert buckets.preceding[i] == before
            forwards.append(i)
            assert len(forwards) <= len(buckets.following)
            i, before = int(buckets.following[i]), i
        if forwards:
            found[at] = forwards
    return found


def assert_state(instance: Instance, timetable: Timetable) -> None:
    starts, buckets, profile = timetable
    assert_feasible(instance, starts, profile)
    found = requests_in(buckets)
    assert sorted(i for inside in found.values() for i in inside) == list(range(len(starts)))
    for at, inside in found.items():
        assert (starts[inside] // buckets.width == at).all()


def assert_sound(instance: Instance, search: RuinAndRecreate) -> None:
    assert_state(instance, search._timetable)
    assert search._cost == total_latency_by_definition(instance, search._starts.tolist())
    best = search.best_starts
    assert search.best_cost == total_latency_by_definition(instance, best.tolist())
    assert_feasible(instance, best, Schedule(instance, best).memory_profile())


@contextmanager
def every_request_its_region() -> Iterator[pytest.MonkeyPatch]:
    """As many threads as are asked for, however few requests there are; cuts come soon."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "FEWEST_IN_A_REGION", 1)
        patch.setattr(module, "FEWEST_LIVES_IN_A_REGION", 1e-6)
        patch.setattr(module, "MOVES_BETWEEN_CUTS", 16)
        yield patch


cycle_settings = st.builds(
    CycleSettings,
    most=st.integers(2, 12),
    reach=st.sampled_from((0.01, 1.0, 10.0, 1e300)),
    weight=st.sampled_from((0.0, 0.5, 1.0, 10.0)),
    hot=st.sampled_from((0.001, 0.1, 10.0)),
    cold=st.sampled_from((0.001, 0.1, 10.0)),
    priced_until=st.sampled_from((0.01, 0.8, 2.0)),
    blink=st.sampled_from((0.0, 0.1, 0.9)),
    second=st.sampled_from((0.0, 0.3, 1.0)),
)


@given(st.data())
@settings(max_examples=examples(100, 40))
def test_any_cycles_leave_a_sound_state(data: st.DataObject) -> None:
    schedule = data.draw(schedules(instances(max_requests=9)))
    instance = schedule.instance
    with every_request_its_region():
        threads = data.draw(st.integers(1, 3))
        search = RuinAndRecreate(instance, schedule.start_times, 7, threads)
        reached = schedule.total_latency
        for _ in range(3):
            if data.draw(st.booleans()):
                numerators = data.draw(st.lists(st.integers(0, 9), max_size=60))
                search.use_prices(MemoryPrices(np.array(numerators, dtype=np.int64), 8))
            assert search.cycle(data.draw(cycle_settings), data.draw(st.integers(1, 90)), never)
            assert_sound(instance, search)
            assert search.best_cost <= reached
            reached = search.best_cost
    assert is_feasible_by_definition(instance, search.best_starts.tolist())


@given(st.data())
def test_nothing_but_its_region_matters_to_a_move(data: st.DataObject) -> None:
    """Others write there meanwhile; outputs may be longer than the region is."""
    schedule = data.draw(schedules(instances(min_requests=2, max_requests=9)))
    instance, requests = schedule.instance, schedule.instance.columns
    width = data.draw(st.integers(1, 3))
    rounds = schedule.makespan + data.draw(st.integers(1, 12))
    first = width * data.draw(st.integers(0, rounds // width))
    last = min(first + width * data.draw(st.integers(1, 10)), rounds - 1)
    ends = schedule.completion_times
    inside = np.flatnonzero((schedule.start_times >= first) & (ends <= last))
    if not len(inside):
        return
    prices = np.array(data.draw(st.lists(st.integers(0, 3), min_size=rounds, max_size=rounds)))
    sums = PriceSums(
        np.cumsum(prices / 8.0),
        np.cumsum(prices / 8.0 * np.arange(rounds, dtype=np.float64)),
        instance.weights,
    )
    moves = Moves(60, 5.0, 0.1, 4, 6.0, data.draw(st.sampled_from((0.0, 1.0))), 0.8, 0.1, 0.5)
    reached = []
    for strange in (False, True):
        starts = schedule.start_times.copy()
        heads = np.full(rounds // width + 1, -1, np.int64)
        buckets = StartBuckets(width, heads, *np.full((2, len(starts)), -1, np.int64))
        profile = np.zeros(rounds, np.int64)
        timetable = Timetable(starts, buckets, profile)
        fill(requests, timetable)
        outside = np.ones(rounds, dtype=bool)
        outside[first + 1 : last + 1] = False
        elsewhere = np.ones(len(buckets.heads), dtype=bool)
        elsewhere[first // width : -(-last // width)] = False
        if strange:
            profile[outside] = data.draw(st.integers(0, 2 * instance.memory_limit))
            buckets.heads[elsewhere] = -7
        kept = profile[outside].copy(), buckets.heads[elsewhere].copy()
        region = Region(first, last, inside, np.array([5], np.int64))
        change = ruin_and_recreate(requests, sums, region, moves, 0, 60, timetable)
        assert change == int((starts - schedule.start_times).sum())
        assert (profile[outside] == kept[0]).all()
        assert (buckets.heads[elsewhere] == kept[1]).all()
        untouched = np.setdiff1d(np.arange(len(starts)), inside)
        assert (starts[untouched] == schedule.start_times[untouched]).all()
        assert (starts[inside] >= first).all()
        assert (starts[inside] + instance.output_lengths[inside] <= last).all()
        if not strange:
            assert_state(instance, timetable)
        reached.append(starts.tolist())
    assert reached[0] == reached[1]


def crowd(seed: int, n: int = 160, *, longest: int = 40, last_arrival: int = 150) -> Instance:
    rng = np.random.default_rng([89, seed])
    outputs = np.where(rng.random(n) < 0.1, longest, rng.integers(1, 20, n))
    prompts, arrivals = rng.integers(1, 30, n), rng.integers(0, last_arrival + 1, n)
    return Instance.from_arrays(prompts, outputs, arrivals, memory_limit=200 + longest)


def begun(instance: Instance, seed: int = 3, threads: int = 1) -> RuinAndRecreate:
    return RuinAndRecreate(instance, one_after_another(instance).start_times, seed, threads)


class ForcedSlices:
    """Of lengths drawn from a seed, whatever the clock says."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)

    @contextmanager
    def next(self, most: int) -> Iterator[int]:
        yield min(most, int(self._random.integers(1, 300)))


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_threads_and_slices_change_nothing(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    instance = crowd(1, n=240)
    monkeypatch.setattr(module, "MOVES_BETWEEN_CUTS", 700)
    prices = MemoryPrices(np.arange(300, 0, -1), 10_000)
    reached = []
    for repeat in range(6):
        if repeat:
            monkeypatch.setattr(module, "Slices", lambda repeat=repeat: ForcedSlices(repeat))
        search = begun(instance, threads=threads)
        search.use_prices(prices)
        for weight in (1.0, 0.0):
            assert search.cycle(CycleSettings(weight=weight, hot=0.5), 6_000, never)
        assert_sound(instance, search)
        reached.append((search.best_cost, search.best_starts.tolist(), search._starts.tolist()))
    assert all(one == reached[0] for one in reached)
    other = begun(instance, seed=4, threads=threads)
    other.cycle(CycleSettings(hot=0.5), 6_000, never)
    assert other.best_starts.tolist() != reached[0][1]


def test_a_stopped_cycle_keeps_what_it_found(monkeypatch: pytest.MonkeyPatch) -> None:
    instance = crowd(4)
    monkeypatch.setattr(module, "Slices", lambda: ForcedSlices(1))
    polls = iter([False] * 9)
    search = begun(instance)
    before = search.best_cost
    assert not search.cycle(CycleSettings(), 10**9, lambda: next(polls, True))
    # Before the first cut, when nothing but the stop makes it look.
    assert 9 <= search.moves < module.MOVES_BETWEEN_CUTS
    assert search.best_cost < before
    assert_sound(instance, search)
    made, reached = search.moves, search.best_cost
    assert not search.cycle(CycleSettings(), 10**9, lambda: True)
    assert (search.moves, search.best_cost) == (made, reached)


def tiny(seed: int) -> Instance:
    last = 6 if seed % 2 else None
    return drawn_instance([59, seed], (5, 5), (6, 11), prompts=(1, 3), outputs=7, last_arrival=last)


def test_small_optima_are_reached() -> None:
    reached = 0
    for seed in range(40):
        instance = tiny(seed)
        search = begun(instance)
        for cycle in (CycleSettings(20, 10.0, second=0.0), CycleSettings(hot=0.03)):
            search.cycle(cycle, 2_000, never)
        assert Schedule(instance, search.best_starts).is_feasible
        optimum = optimal_total_latency(instance)[0]
        assert search.best_cost >= optimum
        reached += search.best_cost == optimum
    assert reached >= 36
