"""WAIT and Nested WAIT against a literal rendering of [A25], and the choices it leaves open."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

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
TIME = IterationTime(0.5, 1 / 64)
"""Dyadic numbers, so that sums are exact and arrivals can fall on the end of an iteration."""

Chain = tuple[Sequence[int], Sequence[int]]
"""Of requests that are batched together: thresholds of segments, and the stages that end them."""


def selected(stages: list[list[int]], thresholds: Sequence[int], ends: Sequence[int]) -> Any:
    """Prompts of each stage that advance: in the first segments that all have enough."""
    last, entries = len(ends) - 1, [0, *(end + 1 for end in ends[:-1])]
    depth = 0
    while depth <= last and len(stages[entries[depth]]) >= thresholds[depth]:
        depth += 1
    segments = [next((k for k in range(last) if s <= ends[k]), last) for s in range(len(stages))]
    pairs = zip(stages, segments, strict=True)
    return [queue[: thresholds[k]] if k < depth else [] for queue, k in pairs]


def literal(
    arrivals: list[Arrival], chains: dict[Any, Chain], chain_of: Callable[[Arrival], Any]
) -> tuple[list[float], list[int]]:
    """Completion times and resident tokens of each iteration; the tail is left unserved (inf)."""
    stages: dict[Any, list[list[int]]] = {kind: [[] for _ in range(12)] for kind in chains}
    completion, memory = [NEVER] * len(arrivals), list[int]()
    clock, position = 0.0, 0
    while True:
        while position < len(arrivals) and arrivals[position].time <= clock:
            stages[chain_of(arrivals[position])][0].append(position)
            position += 1
        batch = {kind: selected(stages[kind], *chain) for kind, chain in chains.items()}
        if not any(map(any, batch.values())):
            if position == len(arrivals):
                return completion, memory
            clock = arrivals[position].time
            continue
        tokens = paused = 0
        for kind, queues in stages.items():
            for s, queue in reversed([*enumerate(queues)]):
                moved = batch[kind][s]
                tokens += sum(arrivals[i].prompt_length + s for i in moved)
                if s:
                    paused += sum(arrivals[i].prompt_length + s - 1 for i in queue[len(moved) :])
        memory.append(tokens + paused)
        clock += TIME.d0 + TIME.d1 * tokens
        for kind, queues in stages.items():
            for s, moved in reversed([*enumerate(batch[kind])]):
                queues[s] = queues[s][len(moved) :]
                for i in moved:
                    if arrivals[i].output_length == s:
                        completion[i] = clock
                    else:
                        queues[s + 1].append(i)


def compare(run: online.Run, expected: tuple[list[float], list[int]]) -> None:
    """Nothing is evicted, and all is as expected until the tail is drained."""
    completion, memory = expected
    assert (run.status, run.evictions) == ("completed", 0)
    drained = len(memory) if run.drain_round is None else run.drain_round
    assert drained == len(memory)
    done = [i for i, end in enumerate(completion) if end < NEVER]
    assert [run.completion_times[i] for i in done] == [completion[i] for i in done]
    assert run.memory_profile()[1 : drained + 1].tolist() == memory
    rest = [i for i, end in enumerate(completion) if end == NEVER]
    assert (run.completion_rounds[rest] > drained).all()


@given(
    kinds=st.dictionaries(
        st.tuples(st.integers(1, 4), st.integers(1, 5)), st.integers(1, 3), min_size=1, max_size=3
    ),
    seed=st.integers(0, 10_000),
    gap=st.sampled_from([1, 4, 16]),
)
@settings(max_examples=examples(60))
def test_against_algorithm_1(kinds: dict[tuple[int, int], int], seed: int, gap: int) -> None:
    rng = np.random.default_rng(seed)
    times = np.cumsum(rng.integers(0, gap, 40)) / 8
    lengths, chosen = list(kinds), rng.integers(0, len(kinds), 40)
    arrivals = [Arrival(float(t), *lengths[k]) for t, k in zip(times, chosen, strict=True)]
    chains = {kind: ([n], [kind[1]]) for kind, n in kinds.items()}
    expected = literal(arrivals, chains, lambda one: (one.prompt_length, one.output_length))
    # Residents plus prefills never exceed M_pi.
    limit = sum(n * sum(s + k for k in range(o + 1)) for (s, o), n in kinds.items())
    workload = Workload(*zip(*(one[:3] for one in arrivals), strict=True), memory_limit=limit)
    compare(serve(workload, online.make_policy("wait", thresholds=kinds), TIME), expected)


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
    columns = zip(*(one[:3] for one in arrivals), strict=True)
    run = online.simulate(
        Workload(*columns, memory_limit=10_000, batch_time=TIME),
        online.make_policy("nested-wait", thresholds=thresholds, segment_ends=ends),
        # Lengths are not needed, and not told.
        predictions=IntervalPredictions(1, 50),
        prefill_rounds=1,
    )
    compare(run, literal(arrivals, {None: (thresholds, ends)}, lambda one: None))


def test_a_request_joins_the_smallest_type_that_covers_it() -> None:
    policy = online.make_policy("wait", thresholds={(4, 4): 2, (2, 8): 1, (9, 9): 3})
    workload = Workload([0.0, 0.0], [3, 2], [2, 5], memory_limit=100)
    run = serve(workload, policy, IterationTime(1.0))
    # (3, 2) fits (4, 4), whose threshold 2 is not met before the drain; (2, 5) fits (2, 8).
    assert run.start_times.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(("prompt", "first_start"), [(5, 1), (6, 2)])
def test_a_paused_resident_reserves_its_next_stage(prompt: int, first_start: int) -> None:
    """M = 11: a paused (5, 1) holds 5 and reserves 6, so a prompt of 5 may start beside it.

    A prompt of 6 would fit beside the 5 held; it has to wait for a round.
    """
    workload = Workload([0.0, 0.5], [5, prompt], [1, 4], memory_limit=11)
    policy = online.make_policy("wait", thresholds={(5, 1): 1, (6, 4): 1})
    run = serve(workload, policy, IterationTime(1.0, 1.0))
    assert run.attempts.start_round[run.attempts.request == 1][0] == first_start


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
    workload = Workload([0.0, 0.0, 3.0, 3.0, 6.0, 6.0], [2] * 6, [3] * 6, memory_limit=limit)
    policy = online.make_policy("nested-wait", thresholds=[2, 3], segment_ends=[1, 3])
    run = serve(workload, policy, IterationTime(1.0))
    assert run.memory_profile()[:4].tolist() == [0, 4, 10, third]
    attempts = run.attempts
    gone = attempts.request[~attempts.completed & (attempts.end_round == 2)]
    assert sorted(gone.tolist()) == evicted
    assert run.status == "completed"
