"""[C25]'s policies against its examples and plain renderings of its pseudocode."""

from __future__ import annotations

import math
from collections.abc import Iterable

from brute_force import rows_of
from hypothesis import given
from hypothesis import strategies as st
from per_round import a_ell, a_min, lookahead_prefix
from strategies import instances

import online
from instances import Instance, Schedule, generate
from online import BucketPredictions, IntervalPredictions, ProportionalPredictions
from online.policy_interface import State, VisibleRequest

EXAMPLE = Instance.from_arrays([1] * 5, [1] * 5, memory_limit=10)
UNIT_TO_FOUR = IntervalPredictions(1, 4)


def test_example_3_2() -> None:
    """[C25] Example 3.2."""
    assert online.simulate(EXAMPLE, "h-sf").total_latency == 5
    assert online.simulate(EXAMPLE, "a-max", predictions=UNIT_TO_FOUR).total_latency == 9


def preserves_order(first: Schedule, second: Schedule) -> bool:
    """Whether no two requests start in opposite orders ([C25] Definition 8.1)."""
    pairs = sorted(zip(first.start_times.tolist(), second.start_times.tolist(), strict=True))
    latest_before, latest, start = -1, -1, None
    for one, other in pairs:
        if one != start:
            start, latest_before = one, latest
        if other < latest_before:
            return False
        latest = max(latest, other)
    return True


def is_delayed(schedule: Schedule, relative_to: Schedule) -> bool:
    """Whether no request starts sooner than in the other schedule ([C25] Definition 8.1)."""
    return bool((schedule.start_times >= relative_to.start_times).all())


def is_optimally_packed(schedule: Schedule) -> bool:
    """Whether no request can move towards the last earlier start ([C25] Definition 8.3).

    For a request that starts at i, with j the last start before i of any request, each of the
    starts j, .., i - 1 must break the memory limit. A request never moves before its arrival.
    """
    starts = schedule.start_times.tolist()
    times = sorted(set(starts))
    for position, start in enumerate(starts):
        earlier = [time for time in times if time < start]
        if not earlier:
            continue
        arrival = schedule.instance[position].arrival_time
        for moved in range(max(earlier[-1], arrival), start):
            trial = [*starts[:position], moved, *starts[position + 1 :]]
            if Schedule(schedule.instance, trial).is_feasible:
                return False
    return True


def test_example_8_2() -> None:
    """[C25] Example 8.2, Definitions 8.1, 8.3."""
    instance = Instance.from_arrays([1] * 4, [1, 2, 3, 4], memory_limit=7)
    first, second, best = (
        Schedule(instance, starts) for starts in ([0, 2, 0, 3], [1, 1, 0, 3], [0, 0, 0, 2])
    )
    assert all(schedule.is_feasible for schedule in (first, second, best))
    for one in (first, second, best):
        for other in (first, second, best):
            assert preserves_order(one, other)
    assert not is_delayed(first, second)
    assert not is_delayed(second, first)
    assert is_delayed(first, best)
    assert is_delayed(second, best)
    assert online.simulate(instance, "h-sf").schedule.start_times.tolist() == [0, 0, 0, 2]
    assert is_optimally_packed(best)
    assert not is_optimally_packed(first)


class FirstIndex(type(online.make_policy("a-min"))):  # type: ignore[misc]
    """A_min with ties by index."""

    name = "a-min"

    def priority(self, request: VisibleRequest) -> tuple[int, float]:
        bound, _ = super().priority(request)
        return bound, 0.0

    def eviction_order(self, state: State) -> Iterable[int]:  # type: ignore[override]
        while True:
            yield min(
                (i for group in self._groups.values() for i in group),
                key=lambda i: (self._bounds[i], i),
            )


@given(instances(max_requests=7, max_memory=14, max_arrival=6), st.sampled_from([0, 1, 2]))
def test_a_min_is_its_pseudocode(instance: Instance, kind: int) -> None:
    """[C25] Algorithms 2, 5."""
    rows = sorted(rows_of(instance))
    instance = Instance.from_arrays(
        [s for _, s, _ in rows],
        [o for _, _, o in rows],
        [a for a, _, _ in rows],
        memory_limit=instance.memory_limit,
    )
    model = [IntervalPredictions(1, 14), BucketPredictions((3, 14)), ProportionalPredictions(0.5)]
    lower = [(1, 1 if o <= 3 else 4, max(1, math.floor(o * 0.5)))[kind] for _, _, o in rows]
    run = online.simulate(instance, FirstIndex(), predictions=model[kind])
    starts, evictions = a_min(rows, instance.memory_limit, lower)
    assert run.start_rounds.tolist() == starts
    found = zip(run.attempts.end_round, run.attempts.request, run.attempts.completed, strict=True)
    assert sorted((int(r), int(i)) for r, i, done in found if not done) == sorted(evictions)


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.integers(1, 3), st.data())
def test_a_ell_is_its_pseudocode(longs: list[bool], lower: int, data: st.DataObject) -> None:
    """[C25] Algorithm 6."""
    upper = data.draw(st.integers(lower + 1, lower + 5))
    prompt = data.draw(st.integers(1, 3))
    limit = data.draw(st.integers(prompt + upper, 3 * (prompt + upper)))
    outputs = [upper if is_long else lower for is_long in longs]
    instance = Instance.from_arrays([prompt] * len(longs), outputs, memory_limit=limit)
    run = online.simulate(instance, "a-ell", predictions=IntervalPredictions(lower, upper))
    assert run.start_rounds.tolist() == a_ell(rows_of(instance), limit, lower, upper)
    assert run.evictions == sum(longs)


@given(instances(max_requests=7, max_memory=14, max_arrival=6))
def test_h_sf_is_its_pseudocode(instance: Instance) -> None:
    """[C25] Algorithm 3."""
    rows = rows_of(instance)
    # Ties go in order of appearance: by arrival, then position.
    order = sorted(range(len(rows)), key=lambda i: (rows[i][0], i))
    place = {i: k for k, i in enumerate(order)}
    starts = lookahead_prefix(rows, instance.memory_limit, lambda i: (rows[i][2], place[i]))
    assert online.simulate(instance, "h-sf").start_rounds.tolist() == starts


def test_the_switch_takes_the_smaller_bound() -> None:
    for upper, name in ((8, "a-ell"), (7, "a-min")):
        lower = 3
        instance = generate(
            "two-point", seed=1, n=60, lower=lower, upper=upper, prompt_length=1, memory_limit=40
        )
        model = IntervalPredictions(lower, upper)
        switched = online.simulate(instance, "two-point-switch", seed=2, predictions=model)
        same = online.simulate(instance, name, seed=2, predictions=model)
        assert switched.start_rounds.tolist() == same.start_rounds.tolist()
