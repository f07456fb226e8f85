"""WAIT against a literal rendering of [A25] Algorithm 1, and the choices the paper leaves open."""

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
from online import IterationTime

NEVER = float("inf")


def algorithm_1(
    arrivals: list[Arrival], thresholds: dict[tuple[int, int], int], d0: float, d1: float
) -> tuple[list[float], list[int]]:
    """Completion times and resident tokens of each iteration; the tail is left unserved (inf)."""
    queues: dict[tuple[int, int], list[list[int]]] = {
        kind: [[] for _ in range(kind[1] + 1)] for kind in thresholds
    }
    completion = [NEVER] * len(arrivals)
    memory: list[int] = []
    clock, position = 0.0, 0
    while True:
        while position < len(arrivals) and arrivals[position].time <= clock:
            q = arrivals[position]
            queues[q.prompt_length, q.output_length][0].append(position)
            position += 1
        ready = [kind for kind, n in thresholds.items() if len(queues[kind][0]) >= n]
        if not ready:
            if position == len(arrivals):
                return completion, memory
            clock = arrivals[position].time
            continue
        batch = {kind: [stage[: thresholds[kind]] for stage in queues[kind]] for kind in ready}
        tokens = sum(
            len(stage) * (kind[0] + s) for kind in ready for s, stage in enumerate(batch[kind])
        )
        paused = sum(
            len(stage) * (kind[0] + s - 1)
            for kind in thresholds
            if kind not in ready
            for s, stage in enumerate(queues[kind])
            if s
        )
        memory.append(tokens + paused)
        clock += d0 + d1 * tokens
        for kind in ready:
            for s in reversed(range(kind[1] + 1)):
                moved = batch[kind][s]
                queues[kind][s] = queues[kind][s][len(moved) :]
                if s == kind[1]:
                    for i in moved:
                        completion[i] = clock
                else:
                    queues[kind][s + 1] += moved


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
    # Dyadic numbers, so that sums are exact and arrivals can fall on the end of an iteration.
    times = np.cumsum(rng.integers(0, gap, 40)) / 8
    chosen = rng.integers(0, len(kinds), 40)
    lengths = list(kinds)
    arrivals = [Arrival(float(t), *lengths[k]) for t, k in zip(times, chosen, strict=True)]
    columns = zip(*(one[:3] for one in arrivals), strict=True)
    expected, memory = algorithm_1(arrivals, kinds, 0.5, 1 / 64)
    limit = sum(n * sum(s + k for k in range(o + 1)) for (s, o), n in kinds.items())
    run = serve(
        Workload(*columns, memory_limit=limit),
        online.make_policy("wait", thresholds=kinds),
        IterationTime(0.5, 1 / 64),
    )
    assert run.status == "completed"
    # Residents plus prefills never exceed M_pi: nothing is evicted or put off.
    assert run.evictions == 0
    drained = len(memory) if run.drain_round is None else run.drain_round
    assert drained == len(memory)
    done = [i for i, end in enumerate(expected) if end < NEVER]
    assert [run.completion_times[i] for i in done] == [expected[i] for i in done]
    assert run.memory_profile()[1 : drained + 1].tolist() == memory
    rest = [i for i, end in enumerate(expected) if end == NEVER]
    assert (run.completion_rounds[rest] > drained).all()


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
    run = serve(
        Workload([0.0, 0.5], [5, prompt], [1, 4], memory_limit=11),
        online.make_policy("wait", thresholds={(5, 1): 1, (6, 4): 1}),
        IterationTime(1.0, 1.0),
    )
    starts = run.attempts.start_round[run.attempts.request == 1]
    assert starts[0] == first_start
