"""Which optimum a run is compared with: the preemptive one where it kept preempted tokens."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from preempting import ELEVEN, Yielding

from instances import Instance, InvalidValueError, PreemptiveSchedule, Schedule
from online import compare
from online.comparison import Interval, Trial, compare_many, ratio_confidence, summarise

PREEMPTIVE = "preemptive optimum"


@pytest.fixture(scope="module")
def both() -> list[Trial]:
    """Each policy of `ELEVEN` against the optimum that its run asks for."""
    return compare(ELEVEN, ["fcfs", Yielding])


def test_a_run_that_keeps_tokens_has_a_ratio_to_the_preemptive_optimum(both: list[Trial]) -> None:
    fcfs, yielding = both
    # The long one first, 62 rounds; the six that came meanwhile and the last four one by one:
    # 62 + (53 + 44 + 35 + 26 + 17 + 8) + 4 * 1, if none of those four waits.
    assert (fcfs.total_latency, fcfs.optimum_upper, fcfs.compared_with) == (249, 168, "optimum")
    assert (yielding.total_latency, yielding.status, yielding.reason) == (78, "completed", None)
    assert (yielding.optimum_lower, yielding.optimum_upper) == (78, 78)
    assert yielding.compared_with == PREEMPTIVE
    assert yielding.ratio == Interval(Fraction(1), Fraction(1))


def test_all_can_be_compared_with_the_preemptive_optimum() -> None:
    (found,) = compare(ELEVEN, ["fcfs"], preemptive=True)
    assert (found.optimum_lower, found.optimum_upper) == (78, 78)
    assert found.ratio == Interval(Fraction(249, 78), Fraction(249, 78))
    assert found.compared_with == PREEMPTIVE
    many = compare_many([ELEVEN], ["fcfs"], preemptive=True).records
    assert [replace(one, solve_seconds=None) for one in many] == [
        replace(found, solve_seconds=None)
    ]


def test_what_is_found_without_preemption_bounds_the_preemptive_optimum() -> None:
    """The policy that preempts does far worse, and there is no time to look for anything else."""
    crowded = Instance.from_arrays(
        [3, 1, 1, 1, 2], [5, 3, 1, 2, 4], [3, 2, 3, 0, 3], memory_limit=8
    )
    found = compare(crowded, [Yielding, "mc-sf"], time_limit=0)
    assert [one.preemptive for one in found] == [True, False]
    assert found[0].optimum_upper <= found[1].optimum_upper < found[0].total_latency


def test_the_schedule_of_a_trial_is_of_the_kind_that_its_run_is(both: list[Trial]) -> None:
    fcfs, yielding = both
    assert isinstance(fcfs.schedule, Schedule)
    assert isinstance(yielding.schedule, PreemptiveSchedule)
    assert yielding.preemptive


# --- statistics and tables ---------------------------------------------------------------------


def test_ratios_to_different_optima_are_not_averaged(both: list[Trial]) -> None:
    fcfs, yielding = both
    served = replace(fcfs, policy="yielding", total_latency=252)
    with pytest.raises(InvalidValueError, match="different optima"):
        ratio_confidence([[yielding], [served]])
    lost = replace(yielding, total_latency=None, status="livelock", preemptive=False)
    # Both optima of the instance are known, and all trials of a policy are compared with one.
    (found,) = summarise([lost, yielding, served])
    assert (found.compared_with, found.trials, found.failed) == (PREEMPTIVE, 3, 1)
    assert found.mean_ratio == Interval(*[(1 + Fraction(252, 78)) / 2] * 2)
    alone = replace(served, other={})
    (found,) = summarise([lost, yielding, alone])
    assert found.mean_ratio == Interval((1 + Fraction(252, 168)) / 2, None)
