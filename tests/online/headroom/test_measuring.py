"""The answer agrees with what its parts say when they are asked alone."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import hindsight
import instances
import online
from instances import MemoryRule, ServiceLevel, Workload
from online import AffineTime
from online.headroom import Headroom, Measured, Question, measure_headroom, measuring
from online.headroom.question import Place
from online.headroom.tables import record
from online.headroom.tasks import Enclose
from online.headroom.words import answer_lines, notes
from online.policy_interface.specs import PolicySpec
from online.trials.intervals import Interval, total_of

TIME = AffineTime(0.02, 2e-4, 1e-6)
SPECS = ["fcfs", "mc-sf"]
LEVEL = ServiceLevel(latency=4.0)
SJF = "vllm:order=shortest-job"


@pytest.fixture(scope="module", autouse=True)
def short_searches() -> Iterator[None]:
    """Time enough for everything on any machine, and little of it for the searches."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in ("best", "on time", "place"):
            patch.setitem(measuring.SHARES, kind, 0.0005)
        yield


def conversations(n: int, **machine: Any) -> Workload:
    drawn = instances.generate("conversations", 5, n=n, rate=60)
    columns = (drawn.arrival_times, drawn.prompt_lengths, drawn.output_lengths)
    return Workload(*columns, **{"memory_limit": 2500, "batch_time": TIME, **machine})


@pytest.fixture(scope="module")
def workload() -> Workload:
    return conversations(40)


@pytest.fixture(scope="module")
def found(workload: Workload) -> Headroom:
    return measure_headroom(Question(workload, proposals=SPECS), 200)


@pytest.fixture(scope="module")
def fleet() -> Headroom:
    routers = ["round-robin", "least-tokens"]
    workload = conversations(12, replicas=2)
    question = Question(workload, proposals=["fcfs"], error=0, routers=routers, level=LEVEL)
    return measure_headroom(question, 200)


def test_runs_are_those_of_the_policies(workload: Workload, found: Headroom) -> None:
    assert {(one.policy, one.error) for one in found.here} == {
        (name, error) for error in (0.0, 0.5) for name in ("vllm", *SPECS)
    }
    for name in ("vllm", *SPECS):
        for error in (0.0, 0.5):
            predictions = online.RelativePredictions(error) if error else None
            run = online.simulate(workload, name, predictions=predictions)
            mine = found.served(name, error)
            assert mine is not None
            assert mine.mean_latency == total_of(run.schedule) / len(workload)
            columns = run.per_request()
            for figure, column in (("TTFT", "ttft"), ("TPOT", "tpot"), ("latency", "e2el")):
                known = np.sort(columns[column][np.isfinite(columns[column])])
                places = [-(-len(known) * share // 100) - 1 for share in (50, 99)]
                assert mine.figures[figure] == tuple(known[places])


def test_proposals_take_over_the_engine_s_settings_but_its_order(workload: Workload) -> None:
    today = PolicySpec("vllm", {"max_num_seqs": 8, "order": "shortest-output", "ageing": 2.0})
    question = Question(workload, today)
    assert question.proposed == ["vllm(max_num_seqs=8, order=shortest-job)"]
    assert Question(workload, today, ["vllm:watermark=0.5"]).proposed == ["vllm(watermark=0.5)"]
    assert {"mc-sf", "sglang"} < {*question.specs}


def test_the_best_possible_holds_and_is_at_least_as_narrow(
    workload: Workload, found: Headroom
) -> None:
    best = found.best()
    assert best is not None
    interval: Any = best[0].interval
    alone = hindsight.solve(workload, time_limit=0.1, threads=1)
    assert alone.lower_bound / len(workload) <= interval.upper
    assert interval.lower <= alone.upper_bound / len(workload)
    assert all(interval.upper <= it.mean_latency for it in found.here.values())
    today: Any = found.today
    saving = found.saving()
    assert saving == interval.below(today.mean_latency)
    if found.divisible:
        assert found.share(today) == Interval(Fraction(0), Fraction(0))


def test_other_places_have_runs_and_bounds_of_their_own(
    workload: Workload, found: Headroom
) -> None:
    assert (found.unfinished, found.failures) == ((), {})
    places = {one.place for one in found.results if one == Enclose(one.place)}
    loads = {Place(2500, faster) for faster in (0.5, 0.75, 1.0, 1.25, 1.5)}
    assert places == loads | {Place(3750), Place(5000)}
    run = online.simulate(workload.faster(0.5), "vllm")
    slow: Any = found.served("vllm", place=Place(2500, 0.5))
    assert slow.mean_latency == total_of(run.schedule) / len(workload)
    for place in places:
        bounds, _ = found.best(place) or (None, "")
        assert bounds is not None
        assert bounds.certified
        assert 0 < (bounds.interval.lower or 0) <= (bounds.interval.upper or 0)
    assert len(record(found)["places"]) == len(places)


def test_what_the_log_measured_is_not_saved(workload: Workload) -> None:
    log = Measured(np.full(len(workload), 30.0))
    found = measure_headroom(Question(workload, proposals=SPECS, error=0, measured=log), 200)
    today: Any = found.today
    assert found.difference == today.mean_latency / 30 - 1
    assert not found.contradicts
    (saving,) = record(found)["savings"]
    assert saving["mean_latency"] == today.mean_latency
    fast = Measured(np.full(len(workload), 0.001))
    known = dict(found.results)
    refuted = Headroom(Question(workload, proposals=SPECS, error=0, measured=fast), known)
    assert refuted.contradicts
    assert (refuted.saving(), record(refuted)["savings"]) == (None, [])


def test_a_quick_answer_has_no_bounds_and_comes_first_otherwise(workload: Workload) -> None:
    news: list[Any] = []
    question = Question(workload, proposals=SPECS)
    quick = measure_headroom(question, 200, quick=True, progress=news.append)
    assert quick.best() is None
    assert len(quick.results) == 5
    assert [one.first for one in news] == [None] * len(news)
    measure_headroom(question, 200, progress=news.append)
    (first,) = (one.first for one in news if one.first is not None)
    assert {*first.results} == {*quick.results}
    assert [one.done for one in news[6:]] == sorted(one.done for one in news[6:])


def test_a_quick_answer_to_a_long_log_takes_seconds_and_names_its_part() -> None:
    """All requests would take minutes, so the first ones answer, here and before all others."""
    count = 100_000
    lengths = np.random.default_rng(0).integers(50, 800, (2, count))
    arrivals = np.arange(count) / 2
    workload = Workload(arrivals, *lengths, memory_limit=20_000, batch_time=TIME)
    question = Question(workload, proposals=["fcfs"], error=0)
    found = measure_headroom(question, quick=True)
    kept = len(found.question.workload)
    assert 1 <= kept < count
    assert (kept + found.left_out, len(found.results)) == (count, 2)
    held = f"Holds for the first {kept:,} of 100,000 requests (time limit)"
    assert any(line.startswith(held) for line in answer_lines(found))
    news: list[Any] = []
    measure_headroom(question, 4, jobs=1, progress=news.append)
    (first,) = (one.first for one in news if one.first is not None)
    assert (news[0].first, first.best()) == (first, None)


def test_what_time_does_not_suffice_for_is_named(workload: Workload) -> None:
    found = measure_headroom(Question(workload, proposals=SPECS), 0.01)
    assert "best possible at M = 2500, arrivals x1.5" in found.unfinished
    assert any(note.startswith("Not done, time ran out: ") for note in notes(found))
    assert record(found)["unfinished"] == list(found.unfinished)


class Broken(online.PriorityPolicy):
    """Raise an error."""

    name = "broken"

    def priority(self, request: Any) -> float:
        raise RuntimeError("no priority")


def test_what_fails_takes_nothing_else_along(workload: Workload) -> None:
    question = Question(workload, proposals=["fcfs", Broken], error=0)
    found = measure_headroom(question, 200)
    assert [one.name for one in found.failures] == ["broken"]
    assert record(found)["errors"] == ["broken: RuntimeError: no priority"]
    assert found.rival == "fcfs"
    assert found.saving() is not None


def test_a_long_log_is_cut_to_what_there_is_time_for() -> None:
    count = 200_000
    time = AffineTime(0.02, 5e-5, 1e-6)
    machine = {"memory_limit": 10_000, "name": "log.csv", "batch_time": time}
    workload = Workload(np.arange(count) / 2, [100] * count, [50] * count, **machine)
    found = measure_headroom(Question(workload, proposals=["fcfs"], error=0), 5, jobs=1)
    kept = found.question.workload
    assert len(kept) + found.left_out == count
    assert 1 <= len(kept) < count / 10
    run, today = online.simulate(kept, "vllm"), found.today
    assert today is None or float(today.mean_latency) == pytest.approx(run.latencies.mean())


def test_other_processes_find_the_same(workload: Workload) -> None:
    question = Question(workload, proposals=[Broken, "mc-sf"], error=0)
    here, there = (measure_headroom(question, 200, quick=True, jobs=jobs) for jobs in (1, 2))
    means = [{one.name: it.mean_latency for one, it in run.here.items()} for run in (here, there)]
    assert means[0] == means[1]
    assert {one.name for one in here.failures} == {one.name for one in there.failures}


def test_routers_are_simulated_with_today_s_policy(fleet: Headroom) -> None:
    assert fleet.unfinished == ()
    rows = {one["router"]: one["mean_latency"] for one in record(fleet)["routers"]}
    workload = fleet.question.workload
    for name in ("round-robin", "least-tokens"):
        run = online.simulate(workload, "vllm", router=name)
        assert rows.pop(name) == total_of(run.schedule) / len(workload)
    assert rows == {}


def test_requests_on_time_by_number_of_replicas(fleet: Headroom) -> None:
    question, places = fleet.question, fleet.tried()
    assert [one.replicas for one in places][:3] == [1, 2, 3]
    shares, bounds = [], []
    for place in places:
        router = question.router_at(place)
        load = question.at(place)
        run = online.simulate(load, "vllm", router=router)
        served: Any = fleet.served("vllm", place=place)
        assert served.on_time == Fraction(int(run.on_time(LEVEL).sum()), len(load))
        shares.append(served.on_time)
        bounds.append(fleet.attainable(place))
    assert all(one.lower >= share for one, share in zip(bounds, shares, strict=True))
    assert bounds == sorted(bounds, key=lambda one: (one.lower, one.upper))
    # More are tried until they are enough, or change nothing.
    assert shares[-1] >= 0.99 or shares[-1] == shares[-2]
    rows: Any = record(fleet)["service_level"]
    assert [one["replicas"] for one in rows["by_replicas"]] == [one.replicas for one in places]
    alone = hindsight.solve(
        question.at(places[0]), time_limit=1, goal=hindsight.OnTime(LEVEL), threads=1
    )
    low, high = alone.share_interval
    assert low <= bounds[0].upper
    assert bounds[0].lower <= high


def test_the_log_s_own_requests_on_time(workload: Workload) -> None:
    half = np.where(np.arange(40) < 20, 1.0, 9.0)
    level = ServiceLevel(latency=4.0, first_token=0.5)
    question = Question(workload, level=level, measured=Measured(half, half / 4))
    assert question.measured_on_time == 0.5
    # A log without the time to first token tells nothing of a limit on it.
    assert Question(workload, level=level, measured=Measured(half)).measured_on_time is None
    assert Question(workload, level=LEVEL, measured=Measured(half)).measured_on_time == 0.5


@pytest.mark.parametrize(
    ("rule", "load"),
    [
        # 0.5 per token processed, 0.25 + 1 / 10 per token held: 4 and 9, 1 and 2.
        (MemoryRule(), 0.5 * 4 + 0.35 * 9 + 0.5 + 0.35 * 2),
        (MemoryRule(emitted_token="next"), 0.5 * 4 + 0.35 * 7 + 0.5 + 0.35 * 1),
    ],
)
def test_the_load_of_two_requests_by_hand(rule: MemoryRule, load: float) -> None:
    machine: Any = {"memory_limit": 10, "batch_time": AffineTime(1.0, 0.5, 0.25)}
    workload = Workload([5.0, 15.0], [3, 1], [2, 1], memory_rule=rule, **machine)
    assert Question(workload).load == pytest.approx(load / 10)
    assert Question(workload.with_replicas(2)).load == pytest.approx(load / 20)
    at_once = Workload([0.0, 0.0], [3, 1], [2, 1], **machine)
    assert Question(at_once).load is None
