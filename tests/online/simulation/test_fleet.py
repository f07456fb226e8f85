"""Fleets: each replica's run is a single run, and routers see what the records say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import online
from instances import Instance, MemoryRule, Request, ServiceLevel, Workload
from online import AffineTime, NoisyPredictions, ReplicaView, Run

CLOCK = AffineTime(0.05, 0.003, 1e-3)
LEVEL = ServiceLevel(latency=9.0)
DELAYS = ("", "(delay=0.0)", "(delay=2.0)")
ROUTERS = [
    name + ("" if name in ("random", "round-robin") else DELAYS[place % 3])
    for place, name in enumerate(online.router_names())
]


def drawn(seed: int, replicas: int, *, in_seconds: bool, count: int = 14) -> Any:
    """A tight fleet whose requests arrive out of order, with ties and, in rounds, weights."""
    rng = np.random.default_rng(seed)
    limit = int(rng.integers(16, 30))
    prompts, outputs = (rng.integers(1, end, count).tolist() for end in (7, 9))
    if in_seconds:
        times = np.where(rng.random(count) < 0.5, 3 * rng.random(count), rng.integers(0, 4, count))
        machines: Any = {"memory_limit": limit, "replicas": replicas, "batch_time": CLOCK}
        return Workload(np.sort(times), prompts, outputs, **machines)
    columns = (rng.integers(0, 13, count).tolist(), prompts, outputs)
    weights = rng.integers(1, 4, count).tolist()
    rows = [Request(*row, weight=w) for *row, w in zip(*columns, weights, strict=True)]
    return Instance(rows, limit, replicas=replicas)


def assert_single_runs(fleet: Any, run: Run, policy: Any, **options: Any) -> None:
    """Each replica's run is that of its requests alone."""
    for replica, found in enumerate(run.runs):
        own = np.flatnonzero(run.replica == replica)
        assert (found is None) == (not len(own))
        if found is not None:
            alone = online.simulate(fleet.alone(own), policy, seed=found.seed, **options)
            np.testing.assert_equal(vars(found), vars(alone))


@pytest.mark.parametrize("in_seconds", [False, True])
@pytest.mark.parametrize("policy", online.policy_names())
def test_replicas_run_like_single_machines(policy: str, in_seconds: bool) -> None:
    """Each policy behind three routers; all routers take their turn."""
    for seed in range(first := online.policy_names().index(policy), first + 3):
        router = ROUTERS[seed % len(ROUTERS)]
        rule = MemoryRule(block_size=1 + seed % 3)
        fleet = drawn(seed, 2 + seed % 2, in_seconds=in_seconds).replaced(memory_rule=rule)
        options: Any = {"max_rounds": 800, "level": LEVEL}
        run = online.simulate(fleet, policy, router=router, seed=seed, **options)
        assert_single_runs(fleet, run, policy, **options)
        if run.keeps_tokens and run.status == "completed" and not in_seconds:
            with pytest.raises(online.NoScheduleError, match="kept their tokens"):
                _ = run.schedule
    again = online.simulate(fleet, policy, router=router, seed=seed, **options)
    assert run.replica.tolist() == again.replica.tolist()


def test_a_replica_in_a_loop_is_caught_where_it_is_alone() -> None:
    # The first replica's requests evict each other for ever; others arrive long after.
    rows = [Request(0, 1, 5), Request(0, 1, 5), *[Request(400, 1, 1) for _ in range(4)]]
    found = []
    for limit in range(7, 10):
        for policy in ("fcfs-greedy", "alpha-protection", "alpha-beta-clearing"):
            fleet = Instance(rows, limit, replicas=2)
            run = online.simulate(fleet, policy, router=Scripted([0, 0, 1, 1, 1, 1]))
            assert_single_runs(fleet, run, policy)
            found.append(run.status)
    assert "livelock" in found


class Scripted(online.Router):
    """Sends requests where it is told, and keeps what it saw."""

    def __init__(self, choices: Sequence[Any], delay: float = 0.1, **options: Any) -> None:
        super().__init__(delay, **options)
        self.choices, self.seen, self.told = list(choices), [], []  # type: ignore[var-annotated]

    def __deepcopy__(self, memo: Any) -> Scripted:
        return self

    def route(self, request: Any, replicas: Sequence[ReplicaView]) -> int:
        self.seen.append([observed(view) for view in replicas])
        self.told.append(request.prediction)
        return self.choices[request.index]


def observed(view: ReplicaView) -> tuple[Any, ...]:
    ids = tuple(sorted(request.index for request in view.unfinished))
    counts = (view.waiting, view.running, view.sent, view.work)
    return (*counts, ids, view.tokens, view.waiting_tokens)


def expected(fleet: Any, run: Run, place: int, replica: int, delay: float) -> tuple[Any, ...]:
    """What a router may see before the ``place``-th arrival, by the finished record."""
    order = np.argsort(run.problem.arrival_times, kind="stable").tolist()
    now = run.problem.arrival_times[order[place]] - delay
    sent = [i for i in order[:place] if run.replica[i] == replica]
    left = [i for i in sent if run.completion_times[i] > now]
    prompts, outputs = fleet.prompt_lengths.tolist(), fleet.output_lengths.tolist()
    running: dict[int, int] = {}
    single = run.runs[replica]
    own = np.flatnonzero(run.replica == replica).tolist()
    if single is not None:
        stays = single.attempts
        begins = single.rounds.starts
        for request, start, end, done in zip(
            stays.request.tolist(), stays.start_round, stays.end_round, stays.completed, strict=True
        ):
            clock = single.round_end_times
            first = start if clock is None else begins[start] if start < end else np.inf
            last = end if clock is None else clock[end - 1]
            # What is decided at that very time is not seen; rounds that end then are.
            if start < end and first < now and (now < last or (not done and now == last)):
                ended = end if clock is None else int(np.searchsorted(clock, now, "right"))
                ended = min(ended, int(now)) if clock is None else ended
                running[own[request]] = prompts[own[request]] + min(ended, end) - start
    return (
        len(left) - len(running),
        len(running),
        len(sent),
        sum(prompts[i] + outputs[i] for i in left),
        tuple(sorted(order.index(i) for i in left)),
        sum(running.values()),
        sum(prompts[i] for i in left if i not in running),
    )


@pytest.mark.parametrize("in_seconds", [False, True])
@pytest.mark.parametrize("delay", [0.0, 0.1, 1.0, 3.0])
@pytest.mark.parametrize("policy", ["mc-sf", "fcfs-greedy"])
def test_routers_see_what_the_records_say(policy: str, delay: float, in_seconds: bool) -> None:
    for seed in range(6):
        fleet = drawn(seed, 2, in_seconds=in_seconds)
        rng = np.random.default_rng(seed)
        router = Scripted(rng.integers(0, 2, len(fleet)).tolist(), delay)
        run = online.simulate(fleet, policy, router=router)
        assert run.status == "completed"
        for place, seen in enumerate(router.seen):
            for replica, view in enumerate(seen):
                assert view == expected(fleet, run, place, replica, delay), (seed, place, replica)


def test_what_is_not_known_yet_changes_where_requests_go() -> None:
    # The second replica is done with its short request at 1, the first at 9.
    rows = [Request(0, 1, 9), Request(0, 1, 1), Request(3, 1, 1)]
    fleet = Instance(rows, 30, replicas=2)
    now = online.simulate(fleet, "mc-sf", router="least-requests(delay=0)")
    late = online.simulate(fleet, "mc-sf", router="least-requests(delay=3)")
    assert now.replica.tolist() == [0, 1, 1]
    # What it knows of time 0 is that it sent one request to each.
    assert late.replica.tolist() == [0, 1, 0]


def test_predictions_do_not_depend_on_the_router() -> None:
    for router in (routers := [Scripted([0] * 14), Scripted([0, 1] * 7)]):
        fleet = drawn(1, 2, in_seconds=False)
        online.simulate(fleet, "mc-sf", router=router, predictions=NoisyPredictions(2))
    assert routers[0].told == routers[1].told


@pytest.mark.parametrize("in_seconds", [False, True])
def test_the_fleets_figures_are_those_of_its_schedule(in_seconds: bool) -> None:
    fleet = drawn(2, 3, in_seconds=in_seconds)
    run = online.simulate(fleet, "mc-sf", router="least-requests", level=LEVEL)
    schedule = run.schedule
    assert schedule.total_latency == pytest.approx(run.total_latency, rel=1e-12)
    np.testing.assert_array_equal(schedule.completion_times, run.completion_times)
    np.testing.assert_array_equal(schedule.assignment, run.replica)
    assert run.on_time(LEVEL).tolist() == (run.latencies <= 9).tolist()
    assert run.per_request()["replica"].tolist() == run.replica.tolist()
