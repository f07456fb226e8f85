"""Nested WAIT against a literal rendering of [A25] Algorithm 2, and what the paper leaves open."""

from __future__ import annotations

import numpy as np
import pytest
from answering_source import Arrival
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from iterations import serve

import online
from instances import Workload
from online import IntervalPredictions, IterationTime

NEVER = float("inf")


def algorithm_2(
    arrivals: list[Arrival], thresholds: list[int], ends: list[int], d0: float, d1: float
) -> tuple[list[float], list[int]]:
    """Completion times and resident tokens of each iteration; the tail is left unserved (inf)."""
    last = max(ends[-1], max(a.output_length for a in arrivals))
    segment_of = [
        next((k for k, e in enumerate(ends) if s <= e), len(ends) - 1) for s in range(last + 1)
    ]
    entry = [0, *(end + 1 for end in ends[:-1])]
    stages: list[list[int]] = [[] for _ in range(last + 1)]
    completion = [NEVER] * len(arrivals)
    memory: list[int] = []
    clock, position = 0.0, 0
    while True:
        while position < len(arrivals) and arrivals[position].time <= clock:
            stages[0].append(position)
            position += 1
        depth = 0
        while depth < len(ends) and len(stages[entry[depth]]) >= thresholds[depth]:
            depth += 1
        if not depth:
            if position == len(arrivals):
                return completion, memory
            clock = arrivals[position].time
            continue
        selected = [
            queue[: thresholds[segment_of[s]]] if segment_of[s] < depth else []
            for s, queue in enumerate(stages)
        ]
        batch = sum(arrivals[i].prompt_length + s for s, q in enumerate(selected) for i in q)
        paused = sum(
            arrivals[i].prompt_length + s - 1
            for s, queue in enumerate(stages)
            if s
            for i in queue[len(selected[s]) :]
        )
        memory.append(batch + paused)
        clock += d0 + d1 * batch
        for s in reversed(range(last + 1)):
            stages[s] = stages[s][len(selected[s]) :]
            for i in selected[s]:
                if arrivals[i].output_length == s:
                    completion[i] = clock
                else:
                    stages[s + 1].append(i)


@given(
    thresholds=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    seed=st.integers(0, 10_000),
    gap=st.sampled_from([1, 4, 16]),
)
@settings(max_examples=examples(60))
def test_against_algorithm_2(thresholds: list[int], seed: int, gap: int) -> None:
    rng = np.random.default_rng(seed)
    # Consecutive ends make segments of a single stage.
    ends = sorted(rng.choice(np.arange(1, 8), len(thresholds), replace=False).tolist())
    times = np.cumsum(rng.integers(0, gap, 40)) / 8
    # Outputs that end within segments, at their ends, and beyond the last.
    arrivals = [Arrival(float(t), int(rng.integers(1, 5)), int(rng.integers(1, 10))) for t in times]
    columns, time = zip(*(one[:3] for one in arrivals), strict=True), IterationTime(0.5, 1 / 64)
    expected, memory = algorithm_2(arrivals, thresholds, ends, 0.5, 1 / 64)
    run = online.simulate(
        Workload(*columns, memory_limit=10_000, batch_time=time),
        online.make_policy("nested-wait", thresholds=thresholds, segment_ends=ends),
        # Lengths are not needed, and not told.
        predictions=IntervalPredictions(1, 50),
        prefill_rounds=1,
    )
    assert run.status == "completed"
    assert run.evictions == 0
    drained = len(memory) if run.drain_round is None else run.drain_round
    assert drained == len(memory)
    done = [i for i, end in enumerate(expected) if end < NEVER]
    assert [run.completion_times[i] for i in done] == [expected[i] for i in done]
    assert run.memory_profile()[1 : drained + 1].tolist() == memory


@pytest.mark.parametrize(
    ("limit", "evicted", "third"), [(16, [], 16), (15, [1], 13), (13, [1], 13), (12, [0, 1], 10)]
)
def test_overflow_evicts_who_waits_at_the_boundary(
    limit: int, evicted: list[int], third: int
) -> None:
    """Segments 0..1 and 2..3, thresholds 2 and 3; pairs of (2, 3) at 0, 3 and 6, rounds of 1.

    Third iteration, at 6: prompts 0, 1 wait at the boundary for a third and count what they hold,
    l + s - 1 = 3 each; 2, 3 run stage 1 with 3 each; 4, 5 start with 2 each: 16 tokens. With less,
    the last admitted of those at the boundary go, though others were admitted later.
    """
    run = serve(
        Workload([0.0, 0.0, 3.0, 3.0, 6.0, 6.0], [2] * 6, [3] * 6, memory_limit=limit),
        online.make_policy("nested-wait", thresholds=[2, 3], segment_ends=[1, 3]),
        IterationTime(1.0),
    )
    assert run.memory_profile()[:4].tolist() == [0, 4, 10, third]
    attempts = run.attempts
    gone = attempts.request[~attempts.completed & (attempts.end_round == 2)]
    assert sorted(gone.tolist()) == evicted
    assert run.status == "completed"
