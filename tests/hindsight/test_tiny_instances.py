"""Every way to the optimum on 300 random tiny instances, against plain search."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from brute_force import (
    is_feasible_by_definition,
    optimal_total_latency,
    sound_horizon,
    total_latency_by_definition,
)

import hindsight
import online
from instances import Instance, ServiceLevel

COUNT = 300
CHUNKS = 27
QUICK_CHUNKS = 1
"""Of these `make test` runs the first, half of it with arrivals; the rest are slow."""


def tiny_instance(seed: int) -> Instance:
    """n <= 7, M in 4 .. 12; even seeds all at once, odd ones with arrivals in any order."""
    rng = np.random.default_rng([2024, seed])
    n = int(rng.integers(1, 8))
    limit = int(rng.integers(4, 13))
    prompts = [int(s) for s in rng.integers(1, limit, n)]
    longest = 6 if n > 4 else 9
    outputs = [int(rng.integers(1, min(limit - s, longest) + 1)) for s in prompts]
    arrivals = [int(a) for a in rng.integers(0, 9, n)] if seed % 2 else [0] * n
    if n > 2 and seed % 5 == 0:
        # Twins, not adjacent, so that shared columns must find their way back.
        arrivals[-1], prompts[-1], outputs[-1] = arrivals[0], prompts[0], outputs[0]
    return Instance.from_arrays(prompts, outputs, arrivals, memory_limit=limit)


def test_the_sample_is_not_trivial() -> None:
    sample = [tiny_instance(seed) for seed in range(COUNT)]
    assert len({instance.digest for instance in sample}) > 0.95 * COUNT
    assert sum(len(instance) >= 5 for instance in sample) > COUNT // 4
    assert sum(int(instance.arrival_times.max()) > 0 for instance in sample) > COUNT // 3
    unsorted = sum(bool((np.diff(instance.arrival_times) < 0).any()) for instance in sample)
    assert unsorted > COUNT // 4


SEARCHES = (("mip", "dense"), ("mip", "sparse"), ("configurations", "dense"))


@pytest.mark.parametrize(
    "chunk",
    [
        *range(QUICK_CHUNKS),
        *(pytest.param(chunk, marks=pytest.mark.slow) for chunk in range(QUICK_CHUNKS, CHUNKS)),
    ],
)
def test_all_agree(chunk: int) -> None:
    for seed in range(chunk, COUNT, CHUNKS):
        instance = tiny_instance(seed)
        optimum, _ = optimal_total_latency(instance)
        level = ServiceLevel(latency=6)
        names = online.policy_names()
        runs = {name: online.simulate(instance, name, level=level) for name in names}
        # Policies that clear the whole batch may repeat themselves for ever, and say so.
        unfinished = {name for name, run in runs.items() if run.status != "completed"}
        assert unfinished <= {"alpha-protection", "alpha-beta-clearing"}, (seed, unfinished)
        assert all(runs[name].status == "livelock" for name in unfinished), seed
        # Holding a request is no move of the optimum's: it may come out below.
        policies = {
            name: run.total_latency
            for name, run in runs.items()
            if name not in unfinished and not online.make_policy(name).pauses
        }
        assert min(policies.values()) >= optimum, (seed, policies, optimum)
        for method, formulation in SEARCHES:
            result = hindsight.solve(instance, threads=1, method=method, formulation=formulation)
            starts = result.schedule.start_times.tolist()
            where = (seed, method, formulation)
            assert is_feasible_by_definition(instance, starts), where
            assert total_latency_by_definition(instance, starts) == result.upper_bound, where
            assert result.status == "optimal", where
            assert result.upper_bound == result.lower_bound == optimum, where
            assert 0 < result.certified_lower_bound <= optimum, where
            assert result.stop_reason == "proof", where
            if method == "configurations":
                assert result.certified_lower_bound == optimum, where
        # A horizon from another argument than the package's.
        opinion = hindsight.solve_with_cbc(instance, sound_horizon(instance))
        assert opinion.is_optimal, seed
        assert opinion.schedule is not None
        assert is_feasible_by_definition(instance, opinion.schedule.start_times.tolist()), seed
        assert opinion.schedule.total_latency == optimum, seed


@pytest.mark.parametrize("chunk", range(5))
def test_relaxations(chunk: int) -> None:
    for seed in range(chunk, 100, 5):
        instance = tiny_instance(seed)
        optimum, _ = optimal_total_latency(instance)
        sparse = hindsight.relax(instance, "sparse", threads=1)
        dense = hindsight.relax(instance, "dense", threads=1)
        assert sparse.objective <= optimum + 1e-6, seed
        assert dense.objective == pytest.approx(sparse.objective, abs=1e-6), seed
        # The horizon they chose must not bind: twice as many rounds change nothing.
        doubled = hindsight.relax(instance, "sparse", horizon=2 * sparse.horizon, threads=1)
        assert doubled.objective == pytest.approx(sparse.objective, abs=1e-6), seed
        for relaxed in (sparse, dense, doubled):
            assert relaxed.certified_bound <= optimum, seed
            # Exactly evaluated duals lose next to nothing against the floating objective.
            assert relaxed.certified_bound >= relaxed.objective - 1e-3, seed
            for (at, weights), request in zip(relaxed.fractions, instance, strict=True):
                assert weights.sum() == pytest.approx(1, abs=1e-6), seed
                assert int(at.min()) >= request.arrival_time, seed
        cost = sum(
            float(expected) + request.output_length - request.arrival_time
            for expected, request in zip(sparse.expected_start_times, instance, strict=True)
        )
        assert cost == pytest.approx(sparse.objective, abs=1e-5), seed
        twins = itertools.combinations(range(len(instance)), 2)
        for first, second in twins:
            one, two = instance[first], instance[second]
            if (one.arrival_time, one.prompt_length, one.output_length) == (
                two.arrival_time,
                two.prompt_length,
                two.output_length,
            ):
                assert sparse.expected_start_times[first] == pytest.approx(
                    sparse.expected_start_times[second]
                )


@pytest.mark.parametrize("seed", [3, 8, 11])
def test_relaxation_by_linprog(seed: int) -> None:
    """The relaxation written row by row for scipy, over a horizon from another argument."""
    from scipy.optimize import linprog

    instance = tiny_instance(seed)
    horizon = 2 * sound_horizon(instance)
    columns = [
        (i, t)
        for i, request in enumerate(instance)
        for t in range(request.arrival_time, horizon - request.output_length + 1)
    ]
    costs = [t + instance[i].output_length - instance[i].arrival_time for i, t in columns]
    memory = np.zeros((horizon, len(columns)))
    once = np.zeros((len(instance), len(columns)))
    for column, (i, t) in enumerate(columns):
        once[i, column] = 1
        for age in range(1, instance[i].output_length + 1):
            memory[t + age - 1, column] = instance[i].prompt_length + age
    answer = linprog(
        costs,
        A_ub=memory,
        b_ub=np.full(horizon, instance.memory_limit),
        A_eq=once,
        b_eq=np.ones(len(instance)),
    )
    assert hindsight.relax(instance).objective == pytest.approx(answer.fun, abs=1e-6)
