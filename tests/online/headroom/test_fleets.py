"""Several replicas in headroom: losses, replicas of logs, and curves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import hindsight
import instances
import online
from instances import InvalidValueError, RequestLog, ServiceLevel, Workload
from instances.batch_time import AffineTime
from online.headroom import Headroom, Measured, headroom_page, measure_headroom, measuring
from online.headroom.answer import BestPossible, PolicyRun
from online.headroom.log_requests import replicas_of_log
from online.headroom.measuring import CHALLENGER
from online.headroom.records import headroom_record
from online.headroom.tables import fields, sentence, tables
from online.trials.intervals import Interval

TIME = AffineTime(0.02, 2e-4, 1e-6)


@pytest.fixture(scope="module")
def workload() -> Workload:
    drawn = instances.generate("conversations", 5, n=12, rate=60)
    columns = (drawn.arrival_times, drawn.prompt_lengths, drawn.output_lengths)
    return Workload(*columns, memory_limit=2500, replicas=2, batch_time=TIME)


@pytest.fixture(scope="module")
def found(workload: Workload) -> Iterator[Headroom]:
    with pytest.MonkeyPatch.context() as patch:
        # The fewest replicas are proved, so they keep a limit that a busy machine keeps too.
        for share in ("SEARCH", "POINT", "TODAY", "ROUTED"):
            patch.setattr(measuring, f"{share}_SHARE", 0.0003)
        yield measure_headroom(
            workload,
            ["fcfs"],
            error=0,
            time_limit=100,
            routers=["round-robin", "least-tokens"],
            level=ServiceLevel(latency=4.0),
            share=0.9,
        )


def test_runs_are_those_of_the_fleet(workload: Workload, found: Headroom) -> None:
    assert found.unfinished == ()
    assert {(run.router, run.policy) for run in found.routed} == {
        (router, policy)
        for router in ("round-robin", "least-tokens")
        for policy in ("vllm", "vllm(order=shortest-output)", "fcfs")
    }
    for run in found.routed:
        policy = CHALLENGER if "(" in run.policy else run.policy
        alone = online.simulate(workload, policy, router=run.router)
        assert run.assignment.tolist() == alone.replica.tolist()
        assert run.latencies.tolist() == alone.latencies.tolist()
        assert float(run.mean_latency) == pytest.approx(alone.mean_latency)
    assert {run.router for run in found.runs} == {"round-robin"}


def test_losses_are_intervals_that_add_up(workload: Workload, found: Headroom) -> None:
    best = found.best.mean_latency
    assert len(found.blames) == len(found.routed)
    for _, _, blame in found.blames:
        assert blame.best == best
        assert blame.saving.lower <= blame.latency - best.upper
        assert blame.router_loss.upper + blame.scheduler_loss.lower <= blame.saving.upper
        assert blame.router_loss.lower + blame.scheduler_loss.lower <= blame.saving.upper
        assert blame.assigned.upper <= blame.latency
    # Policies behind a blind router have the same requests on each replica.
    blind = {one[2].assigned for one in found.blames if one[1] == "round-robin"}
    assert len(blind) == 1
    run = online.simulate(workload, "vllm", router="round-robin")
    alone = blame(workload, run.replica, run.total_latency, time_limit=0.4, threads=1).mean
    (mine,) = blind
    assert alone.assigned.lower <= mine.upper
    assert mine.lower <= alone.assigned.upper


def test_more_replicas_are_no_worse(found: Headroom) -> None:
    curve = found.replica_curve
    assert [one.replicas for one in curve] == [1, 2, 3, 4]
    ends = [one.best.mean_latency for one in curve]
    assert [one.lower for one in ends] == sorted((one.lower for one in ends), reverse=True)
    assert [one.upper for one in ends] == sorted((one.upper for one in ends), reverse=True)
    assert [one.replicas for one in found.load_curve] == [2] * 5
    assert {one.replicas for one in found.memory_curve} == {2}
    assert curve[1].load == pytest.approx(curve[0].load / 2)
    here = [one for one in found.on_time if one.scale == one.faster == 1]
    assert [one.replicas for one in here] == [1, 2, 3, 4]
    assert [one.upper for one in here] == sorted(one.upper for one in here)


def test_the_fewest_replicas_are_those_of_hindsight(workload: Workload, found: Headroom) -> None:
    alone = hindsight.fewest_replicas(
        workload, hindsight.OnTime(ServiceLevel(latency=4.0)), 0.9, 30, threads=1
    )
    assert alone.lower_bound <= found.capacity.upper_bound
    assert found.capacity.lower_bound <= alone.upper_bound
    assert f"{found.capacity.upper_bound} replicas are enough" in sentence(found)


def test_tables_pictures_and_records_have_all_of_it(found: Headroom) -> None:
    shown = tables(found)
    assert {"routers", "replicas", "fewest"} <= set(shown)
    assert len(shown["routers"].rows) == 6
    assert "on each of 2 replicas" in fields(found, {})["memory limit M"]
    page = headroom_page(found, {}, "a log")
    for name in ("replicas", "fewest"):
        assert f'id="{name}-picture"' in page
    fleet = headroom_record(found)["fleet"]
    assert fleet["replicas"] == 2
    assert len(fleet["losses"]) == 6
    assert fleet["fewest_replicas"]["share"] == 0.9


def answer(assigned: tuple[float, float], best: tuple[float, float], **known: Any) -> Headroom:
    """Two requests that take 10 s each behind round-robin, with these mean latencies known."""
    run = PolicyRun(
        "vllm", 0.0, Fraction(10), latencies=np.array([10.0, 10.0]), router="round-robin"
    )
    run = PolicyRun(**{**vars(run), "assigned": Interval(*map(Fraction, assigned))})
    columns: dict[str, Any] = {"no_best": None, "points": (), "unfinished": (), "error": 0.0}
    return Headroom(
        **columns,
        workload=requests(2).with_replicas(2),
        load=0.5,
        best=BestPossible(Interval(*map(Fraction, best)), "own time", True),
        runs=(run,),
        baseline="vllm",
        challenger="vllm",
        measured=known.pop("measured", None),
        seconds=1.0,
        interrupted=False,
        routers=("round-robin",),
        routed=(run,),
        **known,
    )


def test_what_the_log_measured_is_not_blamed_on_anybody() -> None:
    """The simulated baseline loses what it loses, however slow the log is."""
    found = answer((7, 8), (4, 5))
    logged = replace(found, measured=Measured(np.array([12.0, 12.0])))
    assert [one[2] for one in logged.blames] == [one[2] for one in found.blames]
    assert " s simulated, the router loses " in sentence(logged)


def log_of(workers: list[str | None]) -> RequestLog:
    known: Any = SimpleNamespace(
        ids=[f"r{k}" for k in range(len(workers))], workers=np.array(workers, dtype=object)
    )
    return known


def requests(n: int) -> Workload:
    ids = [f"r{k}" for k in range(n)]
    columns = (np.arange(n), [3] * n, [2] * n)
    return Workload(*columns, memory_limit=20, ids=ids, batch_time=TIME)


def test_replicas_of_a_log() -> None:
    log = log_of(["b", "a", "b", "c"])
    workload, router, facts = replicas_of_log(log, requests(4))
    told = {"replicas": "numbered in the order of their names in the log"}
    assert (workload.replicas, facts) == (3, told)
    named = replicas_of_log(log, requests(4), names=True)[2]
    assert named == {"replicas": "0 is a, 1 is b, 2 is c"}
    run = online.simulate(workload, "fcfs", router=router)
    assert run.replica.tolist() == [1, 0, 1, 2]
    assert replicas_of_log(log, requests(4), 5)[0].replicas == 5
    with pytest.raises(InvalidValueError, match="is less than the 3 workers"):
        replicas_of_log(log, requests(4), 2)


def test_a_log_that_names_some_workers_routes_nothing() -> None:
    workload, router, facts = replicas_of_log(log_of(["a", None, "b"]), requests(3), 2)
    assert (workload.replicas, router) == (2, None)
    assert facts == {"routing of the log": "left out: the log names the worker of 2 of 3 requests"}
