"""The kit for bounds, cuts and strategies: what is valid passes, what is planted is caught."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, cast
from unittest.mock import patch

import pytest
from brute_force import (
    all_feasible_schedules,
    is_feasible_by_definition,
    optimal_makespan,
    optimal_total_latency,
    rows_of,
    sound_horizon,
    total_latency_by_definition,
)
from preemptive_by_definition import preemptive_optimum

import hindsight
from hindsight import CheckError, ScheduleCheckError, check_bound, check_cut, check_strategy
from hindsight.extensions.bounds import BOUNDS, OwnBound
from hindsight.extensions.cuts import Row
from hindsight.strategies.mip import IntegerProgram
from hindsight.testing.cases import drawn_instances
from hindsight.testing.enumeration import fits, optimal_schedules, optimum
from instances import (
    Instance,
    InvalidTypeError,
    InvalidValueError,
    MemoryRule,
    Schedule,
    UnknownNameError,
)
from instances.user_modules import import_source

FEW = 25


@pytest.fixture(autouse=True)
def ends() -> Iterator[None]:
    """Nothing that a check abandons goes on beside the tests that follow."""
    before = set(threading.enumerate())
    yield
    left = set(threading.enumerate()) - before
    for thread in left:
        thread.join(30)
    assert not any(thread.is_alive() for thread in left)


# --- what it enumerates, against the oracles of these tests


def test_optima_are_those_of_the_oracles() -> None:
    for instance in drawn_instances(FEW, 5):
        assert optimum(instance, "total_latency") == optimal_total_latency(instance)[0]
        assert optimum(instance, "makespan") == optimal_makespan(instance)[0]
        if instance.arrival_times.max() < 9:  # that oracle goes round by round
            preempted = preemptive_optimum(rows_of(instance), instance.memory_limit)
            assert optimum(instance, "preemptive_total_latency") == preempted


def test_all_optimal_schedules_are_there() -> None:
    several = 0
    for instance in (case for case in drawn_instances(FEW, 6) if case.arrival_times.max() < 9):
        least, found = optimal_schedules(instance)
        feasible = all_feasible_schedules(instance, sound_horizon(instance))
        cheapest = {s for s in feasible if total_latency_by_definition(instance, s) == least}
        assert set(found) == cheapest
        assert len(found) == len(cheapest)
        several += len(found) > 1
    assert several


def test_feasibility_is_that_of_the_definition() -> None:
    instance = Instance.from_arrays([1, 2], [3, 2], [0, 1], memory_limit=6)
    for starts in ((0, 1), (0, 2), (0, 3), (1, 0), (5, 1)):
        assert fits(instance, starts) == is_feasible_by_definition(instance, starts)


def test_many_drawn_instances_need_more_than_a_list_schedule() -> None:
    """Else whoever calls the first schedule optimal is right."""
    for seed in range(3):
        drawn = list(drawn_instances(40, seed))
        costs = [hindsight.best_list_schedule(one).total_latency for one in drawn]
        optima = [optimum(one, "total_latency") for one in drawn]
        assert sum(map(int.__gt__, costs, optima)) >= 5


# --- bounds


def outputs(instance: Instance) -> int:
    """Nobody is done before all of its output is there."""
    return instance.total_output_length


def bold(instance: Instance) -> Fraction:
    """Off by a token where three requests do not fit together."""
    peaks = sum(one.peak_memory for one in instance)
    return outputs(instance) + Fraction(int(peaks > instance.memory_limit))


def test_a_valid_bound_passes() -> None:
    report = check_bound(outputs, FEW)
    assert report.passed, str(report)
    assert [verdict.checked for verdict in report.verdicts] == [FEW] * 3
    assert "it returns a number, which results call a condition" in report.notes
    assert "ok        valid          exceeds no optimum (25 instances)" in str(report)
    report.raise_for_failures()


@pytest.mark.slow
def test_prices_pass_whatever_they_are() -> None:
    report = check_bound(lambda instance: hindsight.relax(instance).memory_prices, 2)
    assert report.passed
    assert "it returns prices, which are certified" in report.notes


def reproduced(verdict: Any, capsys: pytest.CaptureFixture[str], **named: Any) -> Instance:
    """Run the lines that show a failure; the instance they make."""
    assert verdict.failed > 0
    exec(str(verdict.reproduction), named)
    assert str(verdict.reason) in capsys.readouterr().out
    return cast(Instance, named["instance"])


def test_an_invalid_bound_is_caught_on_a_small_instance(
    capsys: pytest.CaptureFixture[str],
) -> None:
    report = check_bound(bold, FEW)
    assert report["runs"].passed
    found = reproduced(report["valid"], capsys, bold=bold)
    least = optimal_total_latency(found)[0]
    assert len(found) <= 3
    assert bold(found) > least
    assert report["valid"].reason == (
        f"it says {bold(found)}, and the total latency is {least} at best"
    )
    with pytest.raises(CheckError, match="FAILED    valid"):
        report.raise_for_failures()


@pytest.mark.parametrize("prompt", [0, 4])
def test_a_bound_that_is_invalid_of_some_prompts_alone_is_caught(
    prompt: int, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(instance: Instance) -> int:
        there = any(one.prompt_length == prompt == 0 for one in instance)
        there |= any(one.prompt_length >= prompt > 0 for one in instance)
        return outputs(instance) + 1000 * there

    found = reproduced(check_bound(wrong, FEW)["valid"], capsys, wrong=wrong)
    assert found.prompt_lengths.tolist() == [prompt]


@pytest.mark.parametrize("value", [1.5, None])
def test_a_bound_that_is_no_number_is_caught(value: Any) -> None:
    report = check_bound(lambda _: value, 5)
    assert report["runs"].failed == 5
    assert report["valid"].checked == 0


def test_what_enumeration_does_not_count_is_refused() -> None:
    """By blocks of four tokens two of these run at once, by tokens all four."""
    blocks = Instance.from_arrays(
        [1, 1, 1, 1], [1, 1, 1, 1], memory_limit=8, memory_rule=MemoryRule(block_size=4)
    )
    for check, given in ((check_bound, lambda one: 6), (check_strategy, IntegerProgram())):
        with pytest.raises(InvalidValueError, match="not counted in tokens"):
            check(given, [blocks])
    with pytest.raises(InvalidTypeError, match="is not an Instance"):
        check_bound(lambda one: 0, ["one"])  # type: ignore[list-item]


def test_bounds_of_other_goals() -> None:
    assert not check_bound(OwnBound("wrong", outputs, "makespan"), 10).passed
    longest = OwnBound(
        "ends", lambda i: int((i.arrival_times + i.output_lengths).max()), "makespan"
    )
    assert check_bound(longest, 10).passed
    assert check_bound(OwnBound("outputs", outputs, "preemptive_total_latency"), 10).passed


def test_a_bound_that_remembers_is_caught() -> None:
    calls: list[int] = []

    def growing(instance: Instance) -> int:
        calls.append(1)
        return -1_000_000 + len(calls)

    assert check_bound(growing, 3)["repeats"].failed == 3


@patch.dict(BOUNDS, clear=True)
def test_the_reproduction_knows_a_name_by_what_registers_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pasted where nothing is imported; a file that is imported by its name stays a module."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    for file, call in (
        ("registers_by_file.py", "print(hindsight.check_bound('registers_by_file.py:bold',"),
        ("registers_by_name", "import registers_by_name\nprint(hindsight.check_bound('bold',"),
    ):
        Path(file).with_suffix(".py").write_text(
            "import hindsight\n"
            "@hindsight.register_bound('bold')\n"
            "def bold(instance):\n"
            "    return instance.total_output_length + 1\n"
        )
        import_source(file)
        reproduction = check_bound("bold", 3)["valid"].reproduction
        assert reproduction is not None
        assert call in reproduction
        BOUNDS.clear()
        monkeypatch.delitem(sys.modules, file, raising=False)
        exec(reproduction, {})
        BOUNDS.clear()


def test_names() -> None:
    with pytest.raises(UnknownNameError, match="unknown bound 'nobodys'"):
        check_bound("nobodys")


# --- cuts


def one_large(instance: Instance, horizon: int) -> list[Row]:
    """Two requests that hold more than half of M never run together."""
    rows = []
    for r in range(1, horizon + 1):
        row = {
            (i, t): 2
            for i, one in enumerate(instance)
            for t in range(max(one.arrival_time, r - one.output_length), r)
            if t + one.output_length <= horizon
            and 2 * (one.prompt_length + r - t) > instance.memory_limit
        }
        rows.append((row, 3))
    return rows


def shortest_first(instance: Instance, horizon: int) -> list[Row]:
    """Ordered by place where they are equal: it keeps an optimal schedule, and not every one."""
    rows: list[Row] = []
    for i in range(len(instance) - 1):
        one, two = instance[i], instance[i + 1]
        if (one.prompt_length, one.output_length) == (two.prompt_length, two.output_length):
            last = horizon - one.output_length
            row = {(i, t): t for t in range(one.arrival_time, last + 1)}
            row |= {(i + 1, t): -t for t in range(two.arrival_time, last + 1)}
            rows.append((row, 0))
    return rows


def test_a_valid_cut_passes() -> None:
    report = check_cut(one_large, 10)
    assert report.passed, str(report)
    assert report["valid"].checked == 10
    assert report.notes[0].startswith("it raises the linear relaxation on ")


def test_a_cut_that_removes_an_optimal_schedule_is_caught(
    capsys: pytest.CaptureFixture[str],
) -> None:
    valid = check_cut(shortest_first, FEW)["valid"]
    assert len(reproduced(valid, capsys, shortest_first=shortest_first)) == 2
    assert "removes the optimal starts" in str(valid.reason)


def test_a_cut_that_is_none_is_caught() -> None:
    report = check_cut(lambda instance, horizon: [({(0, horizon): 1}, 1)], 5)
    assert report["runs"].failed == 5
    assert "start of request 0 = " in str(report["runs"].reason)
    assert report["valid"].checked == 0


# --- strategies


class Plain:
    """What each planted fault begins from."""

    name = "plain"
    objectives: tuple[str, ...] = ("total_latency",)

    def refusal(self, problem: Any) -> str | None:
        return None

    def run(self, problem: Any, state: Any) -> None:
        pass


def planted(run: Callable[[Any, Any], object]) -> type[Plain]:
    """Return a strategy that does this."""
    return type("Planted", (Plain,), {"run": lambda self, problem, state: run(problem, state)})


def fails(problem: Any, state: Any) -> None:
    raise RuntimeError("planted")


def fails_by_its_own_check(problem: Any, state: Any) -> None:
    """In the words of the package's, which are not its own."""
    raise ScheduleCheckError("infeasible, for it contradicts what it does not hold")


def leaves(problem: Any, state: Any) -> None:
    raise SystemExit(3)


def overbooks(problem: Any, state: Any) -> None:
    state.offer(Schedule(problem.instance, problem.instance.arrival_times))


def contradicts(problem: Any, state: Any) -> None:
    state.raise_lower(state.upper_bound + 7, certified=False)


def mistakes_a_method(problem: Any, state: Any) -> None:
    """Its error is of the field that a refusal has."""
    hindsight.solve(problem.instance, method="beams", objective="makespan")


def never_stops(problem: Any, state: Any) -> None:
    while len(problem.instance) > 20 and not state.is_proved and not state.clock.seconds() > 3:
        pass


def beaten(problem: Any, state: Any) -> None:
    """Raise a bound above the optimum, and then offer the optimum."""
    if len(problem.instance) > 4:  # where all schedules are too many to list
        return
    found = optimal_schedules(problem.instance)[1][0]
    state.raise_lower(state.upper_bound, certified=True)
    state.offer(Schedule(problem.instance, found))


IMPATIENT = planted(never_stops)


class Overclaims(Plain):
    def run(self, problem: Any, state: Any) -> None:
        state.raise_lower(state.upper_bound, certified=True)


class Refuses(Plain):
    said: Any = "is never in the mood"

    def refusal(self, problem: Any) -> str | None:
        return cast("str | None", self.said)


class SaysNothing(Refuses):
    said = ""


class Halves(Refuses):
    """It has two objectives, of which it takes the second."""

    objectives = ("makespan", "total_latency")

    def refusal(self, problem: Any) -> str | None:
        return "not that" if problem.objective == "makespan" else None


def when_large(run: Callable[[Any, Any], None]) -> type[Plain]:
    """Return a strategy that does this on more than four requests alone."""
    return planted(lambda problem, state: len(problem.instance) > 4 and run(problem, state))


def test_a_strategy_of_this_package_passes() -> None:
    report = check_strategy(IntegerProgram(largest_relaxation=300), 4)
    assert report.passed, str(report)
    assert [verdict.checked for verdict in report.verdicts] == [4, 4, 4, 1]
    assert report.notes == ("the interval closed in 4 of 4 solves",)


@pytest.mark.parametrize(
    ("strategy", "check", "reason"),
    [
        (planted(overbooks), "schedules", "infeasible"),
        (Overclaims, "interval", "its certified lower bound is .* at best"),
        (planted(contradicts), "interval", "ScheduleCheckError: .* contradicts"),
        (planted(fails), "runs", "RuntimeError: planted"),
        (planted(fails_by_its_own_check), "runs", "ScheduleCheckError: infeasible, for"),
        (
            planted(mistakes_a_method),
            "runs",
            "InvalidValueError: method = 'beams' does not minimise",
        ),
        (planted(leaves), "runs", "SystemExit: 3"),
        (IMPATIENT, "stops", "it goes on 0.1 seconds after its time limit"),
        (when_large(fails), "stops", "with 30 requests RuntimeError: planted"),
        (when_large(overbooks), "stops", "with 30 requests ScheduleCheckError: .* infeasible"),
        (when_large(contradicts), "stops", "with 30 requests ScheduleCheckError: .* contradicts"),
    ],
)
def test_a_planted_fault_is_caught(strategy: Any, check: str, reason: str) -> None:
    report = check_strategy(strategy, 8, grace=0.1 if strategy is IMPATIENT else 10.0)
    failed = [verdict.name for verdict in report.failures]
    # What raises an error does so with thirty requests too.
    assert failed in ([check], [check, "stops"]), str(report)
    with pytest.raises(CheckError, match=reason):
        report.raise_for_failures()


def test_a_schedule_that_beats_a_bound_is_no_fault_of_the_schedule() -> None:
    waits = Instance.from_arrays([6, 6], [5, 1], [0, 1], memory_limit=11)
    report = check_strategy(planted(beaten), [waits])
    assert report["schedules"].passed
    assert "contradicts a lower bound" in str(report["interval"].reason)


def test_what_no_check_has_seen_is_not_counted() -> None:
    """An error leaves neither a schedule nor bounds."""
    report = check_strategy(planted(fails), 5)
    assert [verdict.checked for verdict in report.verdicts] == [5, 0, 0, 1]


def test_the_reproduction_has_the_patience_that_was_asked_for() -> None:
    impatient, patient = (check_strategy(Overclaims, 8, grace=grace) for grace in (5.0, 10.0))
    calls = [one.failures[0].reproduction for one in (impatient, patient)]
    assert calls[0] is not None
    assert calls[0].endswith("check_strategy(Overclaims, [instance], grace=5.0))")
    assert calls[1] is not None
    assert calls[1].endswith("check_strategy(Overclaims, [instance]))")


@pytest.mark.parametrize("strategy", [Refuses, SaysNothing])
def test_a_strategy_that_refuses_everything_has_shown_nothing(strategy: Any) -> None:
    report = check_strategy(strategy(), 3)
    assert [verdict.checked for verdict in report.verdicts] == [0, 0, 0, 0]
    assert str(report).splitlines() == [
        "strategy 'plain': 0 of 4 checks passed, 3 had no case",
        "FAILED    runs           raises no error: nothing was tried",
        "no case   schedules      offers feasible schedules (0 instances)",
        "no case   interval       its bounds hold the optimum (0 instances)",
        "no case   stops          ends when it is told to (0 instances)",
        f"note      it refuses 3 of 3 solves: {strategy.said!r}",
    ]
    with pytest.raises(CheckError, match="nothing was tried"):
        report.raise_for_failures()


def test_what_is_refused_of_one_objective_is_tried_of_the_other() -> None:
    report = check_strategy(Halves(), 3)
    assert report.passed
    assert [verdict.checked for verdict in report.verdicts] == [3, 3, 3, 1]
    assert "it refuses 3 of 6 solves: 'not that'" in report.notes
