"""`ProblemSource`: every request once, on time, in order, and again after a reset."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from strategies import instances

from instances import Instance, Request
from instances.problem.arrival_source import ArrivalSource, Observation, ProblemSource

RNG = np.random.default_rng(0)


def test_it_is_an_arrival_source_that_never_reacts() -> None:
    source = ProblemSource(Instance([Request(3, 1, 1, "x")], 4, "n"))
    assert isinstance(source, ArrivalSource)
    assert (source.memory_limit, source.name, source.adaptive) == (4, "n", False)
    source.observe(Observation(1, 1.0, started=("x",)))
    assert source.next_arrival() == 3


@given(instances(), st.integers(1, 4))
def test_every_request_is_released_once_and_on_time(instance: Instance, step: int) -> None:
    source = ProblemSource(instance)
    for _ in range(2):  # and once more after a reset
        source.reset(RNG)
        seen = []
        for now in range(0, 14 + step, step):
            announced = source.next_arrival()
            batch = source.release(now)
            assert (announced is not None and announced <= now) == bool(batch)
            assert all(now - step < arrival.time <= now for arrival in batch)
            assert source.release(now) == []
            seen += batch
        assert source.next_arrival() is None
        # In order of arrival, ties in the instance's order; sorted() is stable.
        expected = sorted(instance, key=lambda q: q.arrival_time)
        assert [(a.time, a.prompt_length, a.output_length, a.id) for a in seen] == [
            (q.arrival_time, q.prompt_length, q.output_length, q.id) for q in expected
        ]
        assert [instance[k] for k in instance.order_of_arrival] == expected


def test_many_ties_stay_in_the_order_of_the_instance() -> None:
    # numpy's sort keeps ties in order by itself where there are only a few numbers.
    times = [1, 0] * 200
    instance = Instance.from_arrays([1] * 400, [1] * 400, times, memory_limit=4)
    assert instance.order_of_arrival.tolist() == [*range(1, 400, 2), *range(0, 400, 2)]


def test_reset_in_the_middle_begins_again() -> None:
    source = ProblemSource(Instance([Request(0, 1, 1), Request(5, 1, 1)], 4))
    assert len(source.release(0)) == 1
    source.reset(RNG)
    assert source.next_arrival() == 0
    assert len(source.release(9)) == 2
