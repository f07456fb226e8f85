"""`SecondsSchedule` and its checker against a replay in fractions, one round at a time."""

from __future__ import annotations

import dataclasses
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from seconds_by_definition import replay

from instances import MemoryRule, SecondsSchedule, Workload
from instances.batch_time import Stretch
from instances.batch_time.seconds_schedule import ADVANCES, COLUMNS
from online import AffineTime, IterationTime

TIME = AffineTime(0.5, 0.25, 0.125)
"""Its seconds, and those of arrivals below, are exact in floats."""

RULES = [
    MemoryRule(),
    MemoryRule(1, "next"),
    MemoryRule(1, "next", "chunks"),
    MemoryRule(2, "now", "chunks"),
    MemoryRule(2, "next", "chunks"),
    MemoryRule(3, "next", "whole"),
]

ONE = Workload([1.0], [3], [2], memory_limit=6, batch_time=TIME)
TWO = Workload([0.0, 0.0], [2, 2], [2, 2], memory_limit=8, batch_time=TIME)


def kinds(schedule: SecondsSchedule) -> set[str]:
    return {one.kind for one in schedule.violations()}


def rows_of(schedule: SecondsSchedule) -> list[Any]:
    columns = (getattr(schedule, name).tolist() for name in COLUMNS)
    return list(zip(*columns, strict=True))


def replayed(schedule: SecondsSchedule) -> tuple[set[str], list[Fraction | None]]:
    workload, time = schedule.workload, schedule.batch_time
    assert isinstance(time, AffineTime)
    return replay(
        [Fraction(one) for one in workload.arrival_times.tolist()],
        workload.prompt_lengths.tolist(),
        workload.output_lengths.tolist(),
        workload.memory_limit,
        rows_of(schedule),
        [Fraction(one) for one in schedule.round_starts.tolist()],
        lambda works: (
            Fraction(time.d0)
            + sum(Fraction(time.d1) * one.tokens + Fraction(time.d2) * one.stored for one in works)
        ),
        rule=dataclasses.astuple(workload.memory_rule),
    )


def test_a_request_in_chunks_held_and_preempted_is_timed_by_hand() -> None:
    schedule = SecondsSchedule(
        ONE,
        [
            Stretch(0, 1, 1, 2),  # two of three prompt tokens, 3 held
            Stretch(0, 2, 1, 0, 0, 1),  # held
            Stretch(0, 3, 1, ADVANCES, 0, 1),  # the last of the prompt, 4 held
            Stretch(0, 5, 1, ADVANCES, 1),  # back after a round: 4 prompt tokens, 5 held
        ],
    )
    assert schedule.violations() == []
    assert schedule.durations.tolist() == [1.375, 0.875, 1.25, 0.5, 2.125]
    assert schedule.round_starts.tolist() == [1.0, 2.375, 3.25, 4.5, 5.0]
    assert schedule.memory_profile().tolist() == [3, 3, 4, 0, 5]
    assert schedule.first_token_times.tolist() == [4.5]
    assert schedule.completion_times.tolist() == [7.125]
    assert schedule.total_latency == schedule.mean_latency == 6.125


def test_an_eviction_loses_the_first_token() -> None:
    schedule = SecondsSchedule(ONE, [Stretch(0, 1, 1), Stretch(0, 3, 2)])
    assert schedule.is_feasible
    assert schedule.first_token_times[0] == schedule.round_ends[2]


def test_what_is_held_costs_no_iteration_time() -> None:
    schedule = SecondsSchedule(
        TWO.replaced(batch_time=IterationTime(0.5, 0.125)),
        [(0, 1, 1), (1, 2, 2), (0, 2, 1, 0, 1, 0), (0, 3, 1, -1, 1, 0)],
    )
    assert schedule.is_feasible
    assert schedule.memory_profile().tolist() == [3, 6, 8]
    assert schedule.durations.tolist() == [0.875, 0.875, 1.5]


@pytest.mark.parametrize(
    ("stretches", "starts", "kind"),
    [
        ([(0, 1, 2)], [0.75, 5.0], "early-start"),
        ([(0, 1, 2)], [1.0, 2.0], "clock"),
        ([(0, 1, 1)], None, "output"),
        ([(0, 1, 3)], None, "output"),
        ([(0, 1, 2), (0, 3, 1, 0, 2, 0)], None, "output"),
        ([(0, 1, 1), (0, 1, 1, 0, 1, 0), (0, 2, 1, -1, 1, 0)], None, "order memory"),
        ([(0, 1, 1), (0, 3, 1, -1, 1, 0)], None, "order"),
        ([(0, 1, 1, 2), (0, 2, 2, -1, 0, 0)], None, "order"),
        ([(0, 1, 1, 4), (0, 2, 2, -1, 0, 3)], None, "prompt"),
        ([(0, 1, 2, 2), (0, 3, 2, -1, 0, 3)], None, "prompt"),
    ],
)
def test_each_broken_rule_of_a_request_is_found(stretches: Any, starts: Any, kind: str) -> None:
    schedule = SecondsSchedule(ONE, stretches, starts)
    assert kinds(schedule) == set(kind.split())
    assert str(schedule.violations()[0]).count("\n") == 0


def test_memory_and_requests_that_are_never_served_are_found() -> None:
    tight = Workload([0.0, 0.0], [2, 2], [2, 2], memory_limit=7, batch_time=TIME)
    crowded = SecondsSchedule(tight, [(0, 1, 2), (1, 1, 2)]).violations()
    assert [(one.kind, one.round_index, one.amount) for one in crowded] == [("memory", 2, 1.0)]
    silent = SecondsSchedule(TWO, [(0, 1, 2)]).violations()
    assert [(one.kind, one.request_id, one.amount) for one in silent] == [("output", 1, 2.0)]


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_violations_and_completions_are_those_of_the_replay(data: st.DataObject) -> None:
    n = data.draw(st.integers(1, 3))
    small = st.integers(1, 3)
    s, o = ([data.draw(small) for _ in range(n)] for _ in range(2))
    arrivals = sorted(data.draw(st.integers(0, 8)) / 4 for _ in range(n))
    rule = data.draw(st.sampled_from(RULES))
    limit = max(x + y for x, y in zip(s, o, strict=True)) + data.draw(st.integers(0, 4))
    limit += 3 * (rule.block_size - 1)
    workload = Workload(arrivals, s, o, memory_limit=limit, memory_rule=rule, batch_time=TIME)
    odd = ["odd"] if rule == MemoryRule() else []
    rows = []
    for i in range(n):
        now, emitted, left = data.draw(st.integers(1, 3)), 0, s[i]
        while emitted < o[i] and now < 12:
            deed = data.draw(
                st.sampled_from(["go", "go", "go", "chunk", "hold", "out", "lost", *odd])
            )
            if deed == "go":
                count = data.draw(st.integers(1, o[i] - emitted))
                rows.append((i, now, count, ADVANCES, emitted, left))
                now, emitted, left = now + count, emitted + count, 0
            elif deed == "chunk" and left:
                size = data.draw(st.integers(1, left))
                rows.append((i, now, 1, size, emitted, left))
                now, left = now + 1, left - size
            elif deed == "hold":
                rows.append((i, now, 1, 0, emitted, left))
                now += 1
            elif deed in {"out", "lost"}:
                now += data.draw(st.integers(0, 1))
                emitted = emitted if deed == "out" else 0
                left = s[i] + emitted
            elif deed == "odd":
                left = data.draw(st.integers(0, 5))
    if not rows:
        rows = [(0, 1, 1, ADVANCES, 0, s[0])]
    starts = None
    if data.draw(st.booleans()):
        starts = np.cumsum([data.draw(st.integers(0, 12)) / 4 for _ in range(20)]).tolist()
    schedule = SecondsSchedule(workload, np.array(rows, dtype=np.int64), starts)
    broken, completion = replayed(schedule)
    assert kinds(schedule) == broken
    if not broken:
        assert [Fraction(one) for one in schedule.completion_times.tolist()] == completion
        assert schedule.total_latency == pytest.approx(
            float(sum(completion) - sum(map(Fraction, arrivals)))  # type: ignore[arg-type]
        )


def test_blocks_of_a_prompt_in_chunks_and_of_a_request_that_is_held_by_hand() -> None:
    rule = MemoryRule(2, "next", "chunks")
    workload = Workload([0.0], [5], [3], memory_limit=9, memory_rule=rule, batch_time=TIME)
    # Three tokens of the prompt, held, the other two and a token, held, two tokens.
    deeds: list[Any] = [(0, 1, 1, 3), (0, 2, 1, 0, 0, 2), (0, 3, 1, -1, 0, 2), (0, 4, 1, 0, 1, 0)]
    schedule = SecondsSchedule(workload, [*deeds, (0, 5, 2, -1, 1, 0)])
    assert [one.memory for one in schedule.batches()] == [3, 3, 5, 5, 6, 7]
    assert schedule.memory_profile().tolist() == [4, 4, 6, 6, 6, 8]
    assert schedule.is_feasible
    whole = workload.replaced(memory_rule=MemoryRule(2, "next"))
    schedule = SecondsSchedule(whole, [*deeds, (0, 5, 2, -1, 1, 0)])
    assert schedule.memory_profile().tolist() == [6, 6, 6, 6, 6, 8]


def test_equality_and_pickling_keep_the_schedule() -> None:
    rows = [(0, 1, 2), (1, 2, 2)]
    schedule = SecondsSchedule(TWO, rows)
    again = pickle.loads(pickle.dumps(schedule))  # noqa: S301 (our own bytes)
    assert again == schedule
    assert hash(again) == hash(schedule)
    assert not again.round_starts.flags.writeable
    assert again != SecondsSchedule(TWO, [(0, 2, 2), (1, 1, 2)])
    assert again != SecondsSchedule(TWO.replaced(batch_time=AffineTime(0.5, 0.25, 0.0)), rows)
