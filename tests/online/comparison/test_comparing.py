"""Comparisons: failures, processes, Ctrl-C, and statistics as intervals."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import textwrap
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from answering_source import Grudge
from process_groups import end, press_ctrl_c, start, wait_until_gone, wait_until_printed

import hindsight
import instances
from instances import Instance, InvalidValueError, MissingParameterError
from online import Decision, Policy, compare, make_policy, register_policy
from online.comparison import (
    ComparisonProgress,
    Interval,
    PolicySpec,
    Trial,
    compare_many,
    records_csv,
    report_markdown,
    summarise,
    summary_table,
)
from online.policies.w25 import batch_builders
from online.policy_interface import Setup, State, VisibleRequest
from online.policy_interface import policy as policy_module
from online.policy_interface.policy import DecisionStoppedError
from online.policy_interface.specs import parameterless_policies, policy_specs

EXAMPLE_1 = Instance.from_arrays(
    [63] + [1] * 21, [1] + [2] * 21, memory_limit=64, name="[W25] Example 1"
)


class Greedy(Policy):
    """Starts whatever arrives, fitting or not."""

    def reset(self, setup: Setup) -> None:
        self.queue: list[int] = []

    def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
        self.queue += [request.index for request in requests]

    def decide(self, state: State) -> Decision:
        started, self.queue = self.queue, []
        return Decision(start=started)


class Idle(Greedy):
    """Never starts anything."""

    def decide(self, state: State) -> Decision:
        return Decision()


class Patient(Greedy):
    """Never decides, as one that solves programs."""

    def decide(self, state: State) -> Decision:
        while not self.should_stop():
            pass
        raise DecisionStoppedError


@pytest.fixture
def scratch_policies() -> Iterator[None]:
    """Forget after a test what it registers."""
    with patch.dict(policy_module._POLICIES):
        yield


def record(total: int | None, lower: int | None, upper: int | None, policy: str = "p") -> Trial:
    """Three requests of five output tokens together."""
    return Trial(
        instance="one",
        digest="d",
        requests=3,
        memory_limit=9,
        policy=policy,
        params={},
        seed=0,
        status="completed" if total is not None else "livelock",
        total_latency=total,
        evictions=0,
        optimum_upper=upper,
        optimum_lower=lower,
        optimum_certified=lower,
        stop_reason="proof" if upper == lower else "time-limit",
        solve_seconds=0.25,
        total_output_length=5,
    )


# --- one instance ------------------------------------------------------------------------------


def test_example_1_of_w25() -> None:
    (found,) = compare(EXAMPLE_1, ["mc-sf"])
    assert (found.instance, found.digest) == (EXAMPLE_1.name, EXAMPLE_1.digest)
    assert (found.requests, found.memory_limit, found.policy) == (22, 64, "mc-sf")
    assert (found.total_latency, found.optimum_lower, found.optimum_upper) == (64, 45, 45)
    assert found.ratio == Interval(Fraction(64, 45), Fraction(64, 45))
    assert (found.waiting, found.optimum_waiting.text(0)) == (64 - 43, "2")
    assert found.waiting_ratio == Interval(Fraction(21, 2), Fraction(21, 2))
    assert found.is_proved
    assert (found.status, found.evictions, found.stop_reason) == ("completed", 0, "proof")
    assert found.optimum_certified <= 45


def test_without_time_no_ratio_falls_below_one() -> None:
    """The policies' own schedules are upper bounds too, better than any list schedule here."""
    drawn = instances.generate("arrival-model-1", 1, n=6)
    solved = hindsight.solve(drawn, time_limit=30)
    optimal = solved.schedule.start_times.tolist()

    class Told(Greedy):
        """Starts each request when it is told to."""

        def decide(self, state: State) -> Decision:
            now = state.round_index
            later = [start for start in optimal if start > now]
            due = [index for index, start in enumerate(optimal) if start == now]
            return Decision(start=due, wake=min(later, default=None))

    told, listed = compare(drawn, [Told, "mc-sf"], time_limit=0)
    assert told.total_latency == told.optimum_upper == solved.upper_bound
    assert not told.is_proved
    assert told.ratio.lower == 1
    assert listed.ratio.lower > 1
    # A schedule that the instance carries is a start too, and its bounds are not believed.
    carried = solved.known_bounds("test").attached_to(drawn)
    (found,) = compare(carried, ["mc-sf"], time_limit=0)
    assert found.optimum_upper == solved.upper_bound
    assert found.optimum_lower < solved.lower_bound


def test_a_failed_run_has_no_ratio_but_an_optimum() -> None:
    found = compare(EXAMPLE_1, [Idle, "mc-sf"])
    assert (found[0].status, found[0].total_latency, found[0].ratio) == ("stalled", None, None)
    assert found[0].optimum_upper == 45
    assert "starts nothing more" in str(found[0].reason)
    idle, served = summarise(found)
    assert (idle.trials, idle.failed, idle.completed, idle.proved) == (1, 1, 0, 0)
    assert str(idle.mean_ratio) == str(idle.max_ratio) == str(idle.ratio_of_totals) == "[?, ?]"
    assert (served.failed, served.proved) == (0, 1)
    assert "1 failed" in summary_table([idle, served]).title


def test_policies_that_refuse_or_take_too_long_fail_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_builders, "LARGEST_TABLE", 5)
    # In either order the second of two equal requests waits for the first.
    pair = Instance.from_arrays([2, 2], [3, 3], memory_limit=5)
    found = compare(pair, ["sorted-f-dp", Patient, "mc-benchmark"], policy_time_limit=0.2)
    assert [record.status for record in found] == ["refused", "time-limit", "completed"]
    assert [record.total_latency for record in found[:2]] == [None, None]
    assert "too large for a dynamic program" in str(found[0].reason)
    assert "its time ran out" in str(found[1].reason)
    assert {record.optimum_upper for record in found} == {9}
    assert [summary.failed for summary in summarise(found)] == [1, 1, 0]


def test_what_goes_wrong_with_a_policy_is_its_own_row() -> None:
    class HasABug(Greedy):
        """Raises what Python raises."""

        def decide(self, state: State) -> Decision:
            return Decision(start=[[][0]])

    pair = Instance.from_arrays([2, 2], [3, 3], memory_limit=5, name="pair")
    # The first breaks the simulator's rules: the two do not fit together.
    found = compare(pair, [Greedy, "mc-sf", HasABug])
    assert [(record.status, record.total_latency) for record in found] == [
        ("failed", None),
        ("completed", 9),
        ("failed", None),
    ]
    assert [record.ratio is None for record in found] == [True, False, True]
    reasons = [record.reason or "" for record in found]
    assert reasons[0].startswith("PolicyError: policy ")
    assert reasons[1] == ""
    assert reasons[2].startswith("IndexError: list index out of range (")
    assert f"{Path(__file__).name}:" in reasons[2]
    assert [one.failed for one in summarise(found)] == [1, 0, 1]
    # Every output says why.
    rows = list(csv.DictReader(io.StringIO(records_csv(found))))
    assert [row["reason"] for row in rows] == reasons
    assert [row["ratio_upper"] for row in rows] == ["", "1.0", ""]
    page = report_markdown(found, summarise(found))
    for record in (found[0], found[2]):
        assert f"| {record.policy} | 1 | {record.status} | {record.reason} |" in page


def test_an_optimum_that_cannot_be_found_leaves_the_totals(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise hindsight.SolverError("HiGHS failed: no such luck")

    with monkeypatch.context() as patched:
        patched.setattr("hindsight.solver.solve_until", fail)
        (found,) = compare(EXAMPLE_1, ["mc-sf"])
    assert (found.total_latency, found.optimum_upper, found.ratio) == (64, None, None)
    assert found.reason == "no optimum: SolverError: HiGHS failed: no such luck"

    class Own(Exception):  # noqa: N818
        """Of whoever is told."""

    def tell(news: Any) -> None:
        raise Own

    with pytest.raises(Own):
        compare(EXAMPLE_1, ["mc-sf"], progress=tell)


def test_against_an_arrival_source_the_realised_instance_counts() -> None:
    (found,) = compare(Grudge(4), ["mc-sf"])
    assert (found.requests, found.status, found.is_proved) == (2, "completed", True)
    assert found.digest == Instance.from_arrays([1, 2], [2, 3], [0, 6], memory_limit=9).digest


# --- the choice of policies --------------------------------------------------------------------


def test_the_default_is_every_policy_without_parameters(scratch_policies: None) -> None:
    @register_policy("needs-one")
    class NeedsOne(Idle):
        def __init__(self, alpha: float) -> None:
            self.alpha = alpha

    assert {"mc-sf", "fcfs", "mc-benchmark"} <= set(parameterless_policies()) - {"needs-one"}
    assert [spec.name for spec in policy_specs(None)] == parameterless_policies()
    for call in (make_policy, lambda name: policy_specs([name])):
        with pytest.raises(MissingParameterError, match="policy 'needs-one': parameter 'alpha'"):
            call("needs-one")
    spec = PolicySpec("needs-one", {"alpha": 0.5})
    assert policy_specs([spec]) == [spec]
    assert spec.label == "needs-one(alpha=0.5)"


# --- many instances ----------------------------------------------------------------------------


def without_seconds(records: Sequence[Trial]) -> list[Trial]:
    return [replace(one, solve_seconds=None) for one in records]


def test_processes_change_nothing_but_the_time() -> None:
    drawn = [instances.generate("arrival-model-1", seed, n=4) for seed in range(3)]
    alone = compare_many(drawn, ["mc-sf", "fcfs"])
    news: list[ComparisonProgress] = []
    shared = compare_many(drawn, ["mc-sf", "fcfs"], jobs=2, progress=news.append)
    assert without_seconds(alone.records) == without_seconds(shared.records)
    assert [one.instance for one in shared.records[::2]] == [one.name for one in drawn]
    assert (shared.finished, shared.total, shared.interrupted) == (3, 3, False)
    assert max(one.finished for one in news) == 3
    assert {one.instance for one in news} == {one.name for one in drawn}
    assert any(one.gap is not None for one in news)


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_in_a_trial_is_not_swallowed(jobs: int) -> None:
    with pytest.raises(InvalidValueError, match="time_limit = -1"):
        compare_many([EXAMPLE_1, EXAMPLE_1], ["mc-sf"], jobs=jobs, time_limit=-1)


def test_ctrl_c_keeps_what_is_done(monkeypatch: pytest.MonkeyPatch) -> None:

    from online.comparison import comparing

    calls: list[Any] = []

    def stopping(problem: Any, *arguments: Any, **options: Any) -> list[Trial]:
        calls.append(problem)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return compare(problem, *arguments, **options)

    monkeypatch.setattr(comparing, "compare", stopping)
    found = compare_many([EXAMPLE_1] * 3, ["mc-sf"])
    assert (found.finished, found.total, found.interrupted) == (1, 3, True)
    assert [one.total_latency for one in found.records] == [64]


def test_ctrl_c_ends_the_run_of_a_policy() -> None:
    class Presses(Patient):
        """Presses Ctrl-C, and goes on for ever."""

        def decide(self, state: State) -> Decision:
            os.kill(os.getpid(), signal.SIGINT)
            return super().decide(state)

    found = compare_many([EXAMPLE_1] * 3, ["mc-sf", Presses, "fcfs"])
    assert (found.finished, found.interrupted) == (1, True)
    # What was finished stands, against the interval there was no time for; the rest is not begun.
    assert [one.status for one in found.records] == ["completed", "interrupted", "interrupted"]
    assert found.records[0].ratio is not None
    assert found.records[0].stop_reason == "interrupted"


def test_a_worker_that_is_killed_takes_along_its_instance_only(scratch_policies: None) -> None:
    @register_policy("deadly")
    class Deadly(Greedy):
        """Takes its process along where it meets a prompt of 13 tokens."""

        def arrive(self, requests: Sequence[VisibleRequest], state: State) -> None:
            if any(request.prompt_length == 13 for request in requests):
                os.kill(os.getpid(), signal.SIGKILL)
            super().arrive(requests, state)

    problems = [
        Instance.from_arrays([prompt], [2], memory_limit=20, name=f"prompt {prompt}")
        for prompt in (1, 13, 2, 3)
    ]
    found = compare_many(problems, ["deadly", "mc-sf"], jobs=2)
    assert (found.finished, found.total, found.interrupted) == (4, 4, False)
    assert [(one.instance, one.policy, one.status) for one in found.records] == [
        (problem.name, name, "failed" if problem.name == "prompt 13" else "completed")
        for problem in problems
        for name in ("deadly", "mc-sf")
    ]
    assert {one.reason for one in found.records} == {None, "the worker died (signal 9, Killed)"}
    assert {one.digest for one in found.records} == {one.digest for one in problems}


def test_a_policy_that_cannot_be_sent_is_refused(scratch_policies: None) -> None:
    lock = threading.Lock()

    @register_policy("locked")
    class Locked(Greedy):
        """Holds on to what no other process can have."""

        def decide(self, state: State) -> Decision:
            with lock:
                return super().decide(state)

    pair = [Instance.from_arrays([1], [2], memory_limit=5)] * 2
    assert [one.total_latency for one in compare_many(pair, ["locked"]).records] == [2, 2]
    with pytest.raises(InvalidValueError, match="'locked' cannot be sent to other processes"):
        compare_many(pair, ["locked"], jobs=2)


MAIN_PROGRAM = """
    import json
    from instances import Instance
    from online.comparison.comparing import compare_many
    from online.policies.j25.mc_sf import MemoryConstrainedShortestFirst
    from online.policy_interface.policy import DecisionStoppedError, register_policy

    if __name__ == "__main__":
        # As in a notebook: no module has it that a worker could import.
        @register_policy("patient")
        class Patient(MemoryConstrainedShortestFirst):
            def decide(self, state):
                if state.memory_limit == 9:
                    print("at work", flush=True)
                    while not self.should_stop():
                        pass
                    raise DecisionStoppedError
                return super().decide(state)

        pair = [Instance.from_arrays([1, 2], [3, 2], memory_limit=M) for M in (8, 9, 9, 9, 9)]
        found = compare_many(pair, ["patient", "fcfs"], jobs=2)
        rows = [[one.memory_limit, one.status, str(one.ratio)] for one in found.records]
        print(json.dumps([found.finished, found.interrupted, rows]))
"""


@pytest.mark.parametrize(
    "group", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["terminal", "notebook"]
)
def test_ctrl_c_with_several_processes_keeps_what_runs(tmp_path: Path, group: bool) -> None:
    path = tmp_path / "main_program.py"
    path.write_text(textwrap.dedent(MAIN_PROGRAM))
    process = start(path)
    wait_until_printed(process, "at work", "at work")
    press_ctrl_c(process, group=group)
    printed, complained = end(process)
    assert (process.returncode, complained) == (0, "")
    finished, interrupted, rows = json.loads(printed)
    assert interrupted
    # One finished before; of the two under way only the policies' runs are cut short.
    assert finished == 3
    assert rows[0] == [8, "completed", "1.0000"]
    assert [row[:2] for row in rows[2:]] == [[9, "interrupted"], [9, "interrupted"]] * 2
    wait_until_gone(process.pid)


# --- statistics --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("records", "proved", "mean", "largest", "totals", "waitings"),
    [
        # Proved ratios collapse to points.
        ([(12, 10, 10), (30, 20, 20)], 2, ("27/20",), ("3/2",), ("7/5",), ("32/20",)),
        # An unproved optimum makes intervals.
        (
            [(12, 10, 10), (30, 20, 25)],
            1,
            ("6/5", "27/20"),
            ("6/5", "3/2"),
            ("6/5", "7/5"),
            ("32/25", "32/20"),
        ),
        # A largest ratio can be exact although not every optimum is.
        ([(20, 10, 10), (12, 10, 11)], 1, ("17/11", "8/5"), ("2",), ("32/21", "8/5"), None),
        # A missing bound is unknown, not zero.
        ([(12, 10, 10), (12, None, 10)], 1, ("6/5", None), ("6/5", None), ("6/5", None), None),
    ],
)
def test_statistics_of_a_policy(
    records: list[tuple[int, int | None, int]],
    proved: int,
    mean: tuple[str | None, ...],
    largest: tuple[str | None, ...],
    totals: tuple[str | None, ...],
    waitings: tuple[str | None, ...] | None,
) -> None:
    def interval(ends: tuple[str | None, ...]) -> Interval:
        low, high = (None if end is None else Fraction(end) for end in (ends * 2)[:2])
        return Interval(low, high)

    (found,) = summarise([record(*one) for one in records])
    assert (found.trials, found.proved, found.failed) == (2, proved, 0)
    assert (found.mean_ratio, found.max_ratio) == (interval(mean), interval(largest))
    assert found.ratio_of_totals == interval(totals)
    if waitings is not None:
        assert found.ratio_of_waitings == interval(waitings)
    assert ("1 optimum unproved" in summary_table([found]).title) == (proved == 1)
