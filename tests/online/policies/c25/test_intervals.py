"""[C25]'s policies against its examples and plain renderings of its pseudocode."""

from __future__ import annotations

import math
from collections.abc import Iterable

from brute_force import rows_of
from hypothesis import given
from hypothesis import strategies as st
from per_round import a_ell, a_min
from strategies import instances

import online
from instances import Instance, generate
from online import BucketPredictions, IntervalPredictions, ProportionalPredictions
from online.policy_interface import State, VisibleRequest

EXAMPLE = Instance.from_arrays([1] * 5, [1] * 5, memory_limit=10)
UNIT_TO_FOUR = IntervalPredictions(1, 4)


def test_example_3_2() -> None:
    """[C25] Example 3.2."""
    assert online.simulate(EXAMPLE, "h-sf").total_latency == 5
    assert online.simulate(EXAMPLE, "a-max", predictions=UNIT_TO_FOUR).total_latency == 9


def test_example_8_2() -> None:
    """[C25] Example 8.2."""
    instance = Instance.from_arrays([1] * 4, [1, 2, 3, 4], memory_limit=7)
    assert online.simulate(instance, "h-sf").start_rounds.tolist() == [0, 0, 0, 2]


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
