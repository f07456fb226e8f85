"""The preemptive optimum: idle gaps, starts, parameters, and tables of prices."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from drawn_instances import drawn_instance
from preempting import ELEVEN
from tiny_problems import least_total_latency

import hindsight
from hindsight.rounds import stops
from instances import Instance, MemoryRule, PreemptiveSchedule

SMALL = Instance.from_arrays([1, 8], [9, 1], [0, 1], memory_limit=10)


def tiny(seed: int) -> Instance:
    return drawn_instance([41, seed], (1, 4), (3, 10), outputs=5, last_arrival=4)


def test_a_long_request_that_stops_for_ten_short_ones() -> None:
    """Each of the six that arrive while the long one runs costs somebody a round."""
    result = hindsight.solve(ELEVEN, preemption="keep", time_limit=10)
    assert result.schedule.violations() == []
    assert result.upper_bound == 78
    assert 72 <= result.lower_bound <= 78
    assert result.lower_bound == result.certified_lower_bound


@pytest.mark.parametrize("gap", [0, 7, 10**9])
def test_idle_gaps_cost_no_work(gap: int) -> None:
    """Two copies so far apart that the first is complete before the second begins."""
    for first in map(tiny, range(2)):
        optimum = least_total_latency(first, preemptive=True)
        last = int(first.arrival_times.max() + first.output_lengths.sum())
        columns = (first.prompt_lengths, first.output_lengths)
        later = first.arrival_times + last + gap
        both = Instance.from_arrays(
            *(np.tile(column, 2) for column in columns),
            np.concatenate([first.arrival_times, later]),
            memory_limit=first.memory_limit,
        )
        result = hindsight.solve(both, preemption="keep", time_limit=60)
        assert result.schedule.instance == both
        assert result.schedule.violations() == []
        assert (result.lower_bound, result.upper_bound) == (2 * optimum, 2 * optimum)


def test_the_result_has_what_a_result_has() -> None:
    result = hindsight.solve(SMALL, preemption="keep")
    assert isinstance(result, hindsight.Result)
    assert isinstance(result.schedule, PreemptiveSchedule)
    assert (result.goal, result.preemption) == ("latency", "keep")
    assert hindsight.solve(SMALL).preemption == "never"
    assert result.problem is SMALL
    assert (result.upper_bound, result.lower_bound, result.certified_lower_bound) == (11, 11, 11)
    assert (result.log[-1].upper_bound, result.gap, result.certified_gap) == (11, 0, 0)


def test_it_starts_from_schedules_of_both_kinds() -> None:
    optimum = hindsight.solve(SMALL, preemption="keep").schedule
    whole = hindsight.solve(SMALL).schedule
    for start in (optimum, whole):
        found = hindsight.solve(SMALL, preemption="keep", start=start, progress=lambda _: True)
        assert found.upper_bound == start.total_latency
    # Across an idle gap too.
    far = Instance.from_arrays([1, 8, 1, 8], [9, 1, 9, 1], [0, 1, 900, 901], memory_limit=10)
    both = PreemptiveSchedule(
        far, [[(1, 1), (3, 10)], [(2, 2)], [(901, 901), (903, 910)], [(902, 902)]]
    )
    found = hindsight.solve(far, preemption="keep", start=both, progress=lambda _: True)
    assert found.schedule == both


def test_how_a_solve_ends_by_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    def solved(instance: Instance = ELEVEN, **constants: Any) -> hindsight.Result:
        with monkeypatch.context() as patch:
            for name, value in constants.items():
                patch.setattr(stops, name, value)
            return hindsight.solve(instance, preemption="keep")

    # Neither keys nor prices: what lists, output lengths and mean busy times say.
    result = solved(LARGEST_WORK=0, PreemptiveKeys=None)
    assert (result.stop_reason, result.proof) == ("stalled", None)
    # Prices of a token alone, and as many phases as asked for.
    result = solved(LARGEST_TABLE_WORK=0, CYCLES=0, PreemptiveSearch=None)
    assert result.stop_reason == "stalled"
    assert result.proof is not None
    # A search that may keep one state has no room for another.
    assert solved(MOST_STATES=1, ASCENT=1).stop_reason == "size"
    # What a search of one state leaves open, a larger one of a later phase finds and proves.
    hard = drawn_instance([41, 14], (4, 6), (8, 8), outputs=5, last_arrival=4)
    hard = hard.replaced(memory_rule=MemoryRule(2))
    idle = SimpleNamespace(improve=lambda stop: [], cycle=stops.CYCLES)
    assert solved(hard, STATES=1, ASCENT=1, PreemptiveKeys=lambda *_: idle).status == "optimal"
