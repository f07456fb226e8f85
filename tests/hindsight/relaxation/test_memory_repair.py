"""Fractional solutions that exceed the memory limit, mended."""

from __future__ import annotations

import numpy as np
import pytest

from hindsight.bounds.cheapest_starts import request_classes
from hindsight.relaxation.memory_repair import ListedStarts, within_memory
from hindsight.runtime import clock as clock_module
from hindsight.runtime.clock import StoppedEarlyError, never
from instances import Instance


def listed(instance: Instance, weights: list[dict[int, float]]) -> ListedStarts:
    """From the weights of each class, starts increasing."""
    return ListedStarts(
        request_classes(instance),
        np.repeat(np.arange(len(weights)), [len(one) for one in weights]),
        np.array([t for one in weights for t in one], dtype=np.int64),
        np.array([w for one in weights for w in one.values()]),
    )


def memory(solution: ListedStarts) -> dict[int, float]:
    """Token by token."""
    c = solution.classes
    used: dict[int, float] = {}
    for k, t, mass in zip(solution.class_of, solution.starts, solution.masses, strict=True):
        for age in range(1, int(c.output_lengths[k]) + 1):
            used[int(t) + age] = used.get(int(t) + age, 0.0) + mass * (c.prompt_lengths[k] + age)
    return used


def assert_fits(instance: Instance, solution: ListedStarts) -> None:
    c = solution.classes
    assert max(memory(solution).values()) <= instance.memory_limit * (1 + 1e-9)
    assert np.bincount(solution.class_of, solution.masses) == pytest.approx(c.counts)
    assert (solution.masses > 0).all()
    assert (solution.starts >= c.arrival_times[solution.class_of]).all()
    pairs = list(zip(solution.class_of.tolist(), solution.starts.tolist(), strict=True))
    assert pairs == sorted(set(pairs))
    own = (c.output_lengths - c.arrival_times)[solution.class_of]
    assert solution.cost() == pytest.approx(float((solution.starts + own) @ solution.masses))


def test_what_exceeds_is_put_behind() -> None:
    """Two requests of peak 4 at once in M = 6: a third of one must wait until the other ends."""
    instance = Instance.from_arrays([2, 2], [2, 2], memory_limit=6)
    solution = listed(instance, [{0: 2.0}])
    assert solution.usage(never).tolist() == [0, 6, 8]
    mended = within_memory(solution, 6, None, never)
    assert mended is not None
    assert_fits(instance, mended)
    # Half a request goes at round 1: 3 x 1.5 + 3 x 0.5 there, and 4 x 0.5 after.
    assert dict(zip(mended.starts.tolist(), mended.masses.tolist(), strict=True)) == pytest.approx(
        {0: 1.5, 2: 0.5}
    )
    assert mended.fractions()[1][1].sum() == pytest.approx(1)
    assert mended.fractions().mean_starts.tolist() == pytest.approx([0.5, 0.5])


def test_the_largest_are_moved_and_earlier_rounds_are_tried_first() -> None:
    """Of a small and a large request that meet, the large one moves, and to before the small."""
    instance = Instance.from_arrays([1, 7], [1, 1], memory_limit=8)
    mended = within_memory(listed(instance, [{1: 1.0}, {1: 1.0}]), 8, None, never)
    assert mended is not None
    assert_fits(instance, mended)
    assert mended.starts.tolist() == [1, 0, 1]
    assert mended.masses == pytest.approx([1.0, 0.25, 0.75])
    assert mended.cost() < listed(instance, [{1: 1.0}, {1: 1.0}]).cost()


def test_nothing_starts_after_the_last_start() -> None:
    instance = Instance.from_arrays([2, 2], [2, 2], memory_limit=4)
    solution = listed(instance, [{0: 2.0}])
    assert within_memory(solution, 4, np.array([1]), never) is None
    mended = within_memory(solution, 4, np.array([2]), never)
    assert mended is not None
    assert mended.starts.tolist() == [0, 2]
    assert_fits(instance, mended)


def test_what_fits_stays() -> None:
    instance = Instance.from_arrays([2, 2], [2, 1], [0, 3], memory_limit=4)
    solution = listed(instance, [{0: 0.5, 2: 0.5}, {4: 1.0}])
    mended = within_memory(solution, 4, None, never)
    assert mended is not None
    assert mended.starts.tolist() == [0, 2, 4]
    assert mended.masses.tolist() == [0.5, 0.5, 1.0]


@pytest.mark.parametrize("seed", range(20))
def test_any_weights_can_be_mended(seed: int) -> None:
    """However far from fitting: many alike, everything at once."""
    rng = np.random.default_rng([7, seed])
    n, limit = 40, int(rng.integers(12, 40))
    prompts, outputs = rng.integers(1, 6, n), rng.integers(1, 7, n)
    instance = Instance.from_arrays(
        prompts, outputs, rng.integers(0, 1 + 10 * (seed % 3), n), memory_limit=limit
    )
    classes = request_classes(instance)
    weights = []
    for k, count in enumerate(classes.counts.tolist()):
        starts = np.unique(classes.arrival_times[k] + rng.integers(0, 8, 4))
        shares = rng.dirichlet(np.ones(len(starts)))
        weights.append(dict(zip(starts.tolist(), (count * shares).tolist(), strict=True)))
    solution = listed(instance, weights)
    assert max(memory(solution).values()) > 1.1 * limit
    told = solution.usage(never)
    assert told == pytest.approx([memory(solution).get(r, 0.0) for r in range(len(told))])
    mended = within_memory(solution, limit, None, never)
    assert mended is not None
    assert_fits(instance, mended)


def test_mending_stops_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock_module, "SLICE_SECONDS", 0.0)
    instance = Instance.from_arrays([2, 2, 3, 4], [2, 3, 2, 2], memory_limit=8)
    solution = listed(instance, [{0: 1.0}, {0: 1.0}, {0: 1.0}, {0: 1.0}])
    with pytest.raises(StoppedEarlyError):
        within_memory(solution, 8, None, lambda: True)
