"""The answer agrees with what its parts say when they are asked alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from seconds_cases import drawn_workload, exhaustive_optimum

import hindsight
import instances
import online
from instances import Workload
from online import AffineTime
from online.headroom import Measured, headroom_page, measure_headroom, measuring
from online.headroom.answer import BestPossible, CurvePoint, PolicyRun, carried_over
from online.headroom.cells import per_cent
from online.headroom.records import headroom_record
from online.headroom.tables import CARRIED, notes, sentence, tables
from online.policy_interface.specs import PolicySpec
from online.trials.intervals import Interval, total_of

TIME = AffineTime(0.02, 2e-4, 1e-6)
SPECS = ["fcfs", "mc-sf"]


@pytest.fixture(scope="module", autouse=True)
def short_searches() -> Iterator[None]:
    """Time enough for everything on any machine, and little of it for the searches."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "SEARCH_SHARE", 0.002)
        patch.setattr(measuring, "POINT_SHARE", 0.0001)
        yield


@pytest.fixture(scope="module")
def workload() -> Workload:
    drawn = instances.generate("conversations", 5, n=40, rate=60)
    columns = (drawn.arrival_times, drawn.prompt_lengths, drawn.output_lengths)
    return Workload(*columns, memory_limit=2500, batch_time=TIME)


@pytest.fixture(scope="module")
def found(workload: Workload) -> Any:
    return measure_headroom(workload, SPECS, time_limit=200)


def test_runs_are_those_of_the_policies(workload: Workload, found: Any) -> None:
    assert [(run.policy, run.error) for run in found.runs] == [
        (name, error)
        for error in (0.0, 0.5)
        for name in ("vllm", "vllm(order=shortest-output)", *SPECS)
    ]
    for name in ("vllm", *SPECS):
        run = online.simulate(workload, name)
        mine = found.run(name)
        assert mine.mean_latency == total_of(run.schedule) / len(workload)
        assert mine.latencies.tolist() == run.latencies.tolist()
        told = online.simulate(workload, name, predictions=online.RelativePredictions(0.5))
        other = found.run(name, 0.5)
        assert other.mean_latency == total_of(told.schedule) / len(workload)


def test_proposals_take_over_the_engine_s_settings_but_its_order() -> None:
    workload = Workload([0.0, 0.1, 0.2], [3, 4, 5], [2, 3, 4], memory_limit=20, batch_time=TIME)
    today = PolicySpec("vllm", {"max_num_seqs": 8, "order": "shortest-job", "ageing": 2.0})
    given = {"baseline": today, "time_limit": 30, "error": 0}
    found = measure_headroom(workload, ["fcfs"], **given)
    assert found.challenger == "vllm(max_num_seqs=8, order=shortest-output)"
    asked = measure_headroom(workload, ["fcfs"], challenger="vllm:watermark=0.5", **given)
    assert asked.challenger == "vllm(watermark=0.5)"


def test_the_best_possible_holds_and_is_at_least_as_narrow(workload: Workload, found: Any) -> None:
    interval = found.best.mean_latency
    alone = hindsight.solve(workload, time_limit=0.1, threads=1)
    assert alone.lower_bound / len(workload) <= interval.upper
    assert interval.lower <= alone.upper_bound / len(workload)
    assert all(interval.upper <= run.mean_latency for run in found.completed if run.mean_latency)


def test_shares_are_of_what_could_be_saved(found: Any) -> None:
    saving = found.saving
    best, today = found.best.mean_latency, found.run("vllm")
    assert saving.seconds == Interval(
        today.mean_latency - best.upper, today.mean_latency - best.lower
    )
    assert saving.part(today.mean_latency) == Interval(Fraction(0), Fraction(0))
    assert saving.part(best.upper).upper == 1
    worse = saving.part(2 * today.mean_latency)
    assert worse.lower <= worse.upper < 0


def test_curves_have_the_log_among_their_points(workload: Workload, found: Any) -> None:
    assert found.unfinished == ()
    assert [one.memory_limit for one in found.memory_curve] == [2500, 3750, 5000]
    assert [one.faster for one in found.load_curve] == [0.5, 0.75, 1.0, 1.25, 1.5]
    loads = [one.load for one in found.load_curve]
    assert loads == pytest.approx([found.load * one.faster for one in found.load_curve])
    (slow,) = (one for one in found.points if one.faster == 0.5)
    run = online.simulate(workload.faster(0.5), "vllm")
    assert slow.runs[0].mean_latency == total_of(run.schedule) / len(workload)
    for one in found.points:
        interval = one.best.mean_latency
        assert one.best.certified
        assert 0 < interval.lower <= interval.upper
        for mean in (run.mean_latency for run in one.runs):
            assert interval.upper <= mean
    # One line in each picture at each point, and one in each legend.
    drawn = headroom_page(found, {}, "a log").count('class="upright"')
    assert drawn == len(found.memory_curve) + 1 + len(found.load_curve) + 1
    assert CARRIED in notes(found)


def known(
    low: Fraction | int, high: Fraction | int, bound: str = "", schedule: str = "search"
) -> BestPossible:
    return BestPossible(Interval(Fraction(low), Fraction(high)), bound, True, schedule)


@pytest.mark.parametrize("keeps", [True, False], ids=["keep", "recompute"])
@pytest.mark.parametrize("seed", [5, 14, 20, 39, 41, 53, 83, 122])
def test_what_is_carried_encloses_the_exhaustive_optimum(seed: int, keeps: bool) -> None:
    rng = np.random.default_rng(seed)
    drawn = drawn_workload(rng, (2, 4), 4, arrives=True)
    time = AffineTime(0.25, *(int(rng.integers(0, 5)) / 16 for _ in range(2)))
    points = []
    for memory_limit, faster in ((0, 1.0), (2, 1.0), (0, 0.75), (1, 0.5), (2, 3.0)):
        workload = Workload(
            drawn.arrival_times / faster,
            drawn.prompt_lengths,
            drawn.output_lengths,
            memory_limit=drawn.memory_limit + memory_limit,
        )
        total = exhaustive_optimum(workload, time, states=600, keeps=keeps)
        if total is not None:
            mean = total / len(workload)
            best = BestPossible(Interval(mean, mean), "", True)
            points.append(CurvePoint(workload.memory_limit, faster, None, best, ()))
    assert len(points) > 1
    last_arrival = float(drawn.arrival_times[-1])
    for source in points:
        alone = [one if one is source else replace(one, best=None) for one in points]
        for there, carried in zip(points, carried_over(alone, last_arrival), strict=True):
            optimum, interval = there.best.mean_latency.lower, carried.best.mean_latency
            assert interval.lower is None or interval.lower <= optimum
            assert interval.upper is None or optimum <= interval.upper
    # Whatever is known of each, no interval gets wider, and all still enclose the optimum.
    wide = [
        replace(one, best=known(optimum * low, optimum * high))
        for one in points
        for optimum in [one.best.mean_latency.lower]
        for low, high in [(Fraction(rng.random()), 1 + Fraction(rng.random()))]
    ]
    carried_points = carried_over(wide, last_arrival)
    for there, before, after in zip(points, wide, carried_points, strict=True):
        inner, outer = after.best.mean_latency, before.best.mean_latency
        optimum = there.best.mean_latency.lower
        assert outer.lower <= inner.lower <= optimum <= inner.upper <= outer.upper


def test_what_the_log_measured_is_not_saved(workload: Workload) -> None:
    latencies = np.full(len(workload), 30.0)
    found = measure_headroom(workload, SPECS, measured=Measured(latencies), time_limit=200, error=0)
    saving = found.saving
    assert saving.mean_latency == found.run("vllm").mean_latency
    assert found.difference == saving.mean_latency / 30 - 1
    (row,) = (row for row in tables(found)["policies"].rows if row[0] == "vllm")
    assert row[3] == "0.0"
    said = sentence(found)
    assert said.startswith("The log has a mean latency of 30.000 s, and vllm simulated is ")
    # Heading, bars, table and record have the same two numbers.
    page = headroom_page(found, {}, "a log")
    today, best = f"{float(saving.mean_latency):.3f}", found.best.mean_latency.text(3)
    assert tables(found)["savings"].rows[0][1:3] == (today, best)
    assert f"<b>{today} s</b>" in page
    assert headroom_record(found)["savings"][0]["mean_latency"] == float(saving.mean_latency)
    assert "measured in the log" not in page
    # Policies get a share of what could be saved of the simulation.
    rival = min(run.mean_latency for run in found.completed if run.mean_latency is not None)
    low, high = (end.strip("[]") for end in per_cent(saving.part(rival)).split(", "))
    saved = saving.mean_latency - rival
    share = f"{float(100 * saved / saving.mean_latency):.1f} %"
    part = f"between {low} and {high} % of what could be saved, "
    assert f" saves {float(saved):.3f} s ({share}), {part}" in said


def test_what_time_does_not_suffice_for_is_named(workload: Workload) -> None:
    found = measure_headroom(workload, SPECS, time_limit=0.01)
    assert "best possible at M = 2500, arrivals x1.5" in found.unfinished
    assert "policies at M = 2500, arrivals x1.5" in found.unfinished
    assert any(note.startswith("Not done, time ran out: ") for note in notes(found))
    assert headroom_record(found)["unfinished"] == list(found.unfinished)


@pytest.mark.parametrize("fails", [True, False])
def test_what_fails_takes_nothing_else_along(
    workload: Workload, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    enclose = measuring.point

    def point(task: measuring.Task, stop: Callable[[], bool]) -> CurvePoint | str:
        if not task.specs:
            return enclose(task, stop)
        if fails:
            raise RuntimeError("no point")
        run = PolicyRun("vllm", 0, None, "stopped")
        return CurvePoint(task.workload.memory_limit, task.faster, None, None, (run,))

    monkeypatch.setattr(measuring, "point", point)
    found = measure_headroom(workload, SPECS, time_limit=200, error=0)
    # An exception is an error, and nothing else is.
    named, others = (found.errors, found.unfinished)[:: 1 if fails else -1]
    why = "RuntimeError: no point" if fails else "vllm"
    assert f"policies at M = 2500, arrivals x1.5: {why}" in named
    assert (len(named), len(others)) == (6, 0)
    assert any(note.startswith("Error in policies at M = ") for note in notes(found)) == fails
    assert any("time ran out" in note for note in notes(found)) != fails
    assert headroom_record(found)["errors"] == list(found.errors)
    assert len(found.completed) == 4
    # An interval needs no policy beside it.
    assert len(found.points) == 6
    assert all(None not in one.best.mean_latency.ends for one in found.points)


def test_progress_is_told(workload: Workload) -> None:
    told: list[Any] = []
    measure_headroom(workload, SPECS, time_limit=200, error=0, progress=told.append)
    assert any(news.text.startswith("best possible in [") for news in told)
    assert [news.done for news in told] == sorted(news.done for news in told)
    assert told[-1].total >= told[-1].done


def test_a_long_log_is_cut_to_what_there_is_time_for() -> None:
    count = 200_000
    machine = {
        "memory_limit": 10_000,
        "name": "log.csv",
        "batch_time": AffineTime(0.02, 5e-5, 1e-6),
    }
    workload = Workload(np.arange(count) / 2, [100] * count, [50] * count, **machine)
    found: Any = measure_headroom(workload, ["fcfs"], time_limit=5, error=0)
    kept = len(found.workload)
    assert kept + found.left_out == count
    assert 1 <= kept < count / 10
    assert found.seconds < 15
    run = online.simulate(found.workload, "vllm")
    assert float(found.run("vllm").mean_latency) == pytest.approx(run.latencies.mean())
