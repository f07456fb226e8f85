"""The answer agrees with what its parts say when they are asked alone."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import hindsight
import instances
import online
from instances import MemoryRule, ServiceLevel, Workload
from instances.ctrl_c import Interruption
from online import AffineTime
from online.headroom import Headroom, Question, measure_headroom
from online.headroom.measuring import SHARES, Measurement, next_replicas
from online.headroom.tables import record
from online.headroom.tasks import Enclose
from online.headroom.words import answer_lines, remarks
from online.policy_interface.specs import PolicySpec
from online.trials.intervals import total_of

TIME = AffineTime(0.02, 2e-4, 1e-6)
SPECS = ["fcfs", "mc-sf"]
LEVEL = ServiceLevel(latency=4.0)


BRIEF = {**SHARES, "bounds": 0.002}


def measured(question: Question, limit: float = 200, **given: Any) -> Headroom:
    """Time enough for everything on any machine, and little of it for the searches."""
    given = {"jobs": None, "progress": lambda *_: None, "shares": BRIEF, **given}
    with Interruption(math.inf) as pressed:
        return Measurement(question, pressed=pressed, **given).run(limit, False)


def conversations(n: int, **machine: Any) -> Workload:
    drawn = instances.generate("conversations", 5, n=n, rate=60)
    columns = (drawn.arrival_times, drawn.prompt_lengths, drawn.output_lengths)
    return Workload(*columns, **{"memory_limit": 2500, "batch_time": TIME, **machine})


@pytest.fixture(scope="module")
def workload() -> Workload:
    return conversations(40)


@pytest.fixture(scope="module")
def found(workload: Workload) -> Headroom:
    return measured(Question(workload, proposals=SPECS))


@pytest.fixture(scope="module")
def fleet() -> Headroom:
    workload = conversations(12, replicas=2)
    question = Question(workload, proposals=["fcfs"], error=0, router="round-robin", level=LEVEL)
    return measured(question)


def test_runs_are_those_of_the_policies(workload: Workload, found: Headroom) -> None:
    assert {(one.policy, one.error) for one in found.simulations} == {
        (name, error) for error in (0.0, 0.5) for name in ("vllm", *SPECS)
    }
    for task, mine in found.simulations.items():
        predictions = online.RelativePredictions(task.error) if task.error else None
        run = online.simulate(workload, task.policy, predictions=predictions)
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


def test_the_best_possible_is_that_of_a_solve(workload: Workload, found: Headroom) -> None:
    assert (found.unfinished, found.failures) == ((), {})
    assert found.best is not None
    interval: Any = found.best[0].interval
    alone = hindsight.solve(workload, time_limit=0.1, threads=1)
    assert alone.lower_bound / len(workload) <= interval.upper
    assert interval.lower <= alone.upper_bound / len(workload)
    assert all(interval.upper <= it.mean_latency for it in found.simulations.values())
    today: Any = found.today
    assert record(found)["saving"] == interval.below(today.mean_latency)


def test_what_the_log_measured_is_not_saved(workload: Workload, found: Headroom) -> None:
    slow, fast = (
        Headroom(Question(workload, proposals=SPECS, measured=log), found.results)
        for log in (np.full(40, 30.0), np.full(40, 0.001))
    )
    today: Any = found.today
    assert slow.difference == today.mean_latency / 30 - 1
    assert (slow.contradicts, record(slow)["saving"]) == (False, record(found)["saving"])
    assert record(slow)["today"]["mean_latency"] == today.mean_latency
    assert (fast.contradicts, record(fast)["saving"]) == (True, None)


def test_a_quick_answer_has_no_bounds_and_comes_first_otherwise(workload: Workload) -> None:
    news: list[Any] = []
    question = Question(workload, proposals=SPECS)
    quick = measure_headroom(question, 200, quick=True, progress=lambda *one: news.append(one))
    assert (quick.best, len(quick.results)) == (None, 5)
    assert [one[3] for one in news] == [None] * len(news)
    measured(question, progress=lambda *one: news.append(one))
    (first,) = (one[3] for one in news if one[3] is not None)
    assert {*first.results} == {*quick.results}
    assert [one[0] for one in news[6:]] == sorted(one[0] for one in news[6:])


def test_of_a_long_log_the_first_requests_answer() -> None:
    """All requests would take minutes, so the first ones answer, here and before all others."""
    count = 100_000
    lengths = np.random.default_rng(0).integers(50, 800, (2, count))
    arrivals = np.arange(count) / 2
    workload = Workload(arrivals, *lengths, memory_limit=20_000, batch_time=TIME)
    question = Question(workload, proposals=["fcfs"], error=0, measured=np.full(count, 5.0))
    news: list[Any] = []
    found = measured(question, 4, jobs=1, progress=lambda *one: news.append(one))
    # A slow machine has no first answer in time.
    firsts = [one[3] for one in news if one[3] is not None]
    assert [one.best for one in firsts] in ([], [None])
    for one in (found, *firsts):
        kept = one.question.workload
        assert 1 <= len(kept) < count / 10
        assert len(kept) + one.left_out == count
        said = f"Log       the first {len(kept):,} of 100,000 requests in "
        assert answer_lines(one)[0].startswith(said)
        if one.today is not None:
            run = online.simulate(kept, "vllm")
            assert float(one.today.mean_latency) == pytest.approx(run.latencies.mean())
            # The log is compared over the same requests.
            assert one.difference == one.today.mean_latency / 5 - 1


def test_what_has_no_time_is_named_and_fails_nothing(workload: Workload) -> None:
    hurried = measure_headroom(Question(workload, proposals=SPECS), 0.01)
    assert "best possible" in hurried.unfinished == (*record(hurried)["unfinished"],)
    assert any(one.endswith(": time ran out.") for one in remarks(hurried))
    found = measured(Question(workload), patience=0, shares={**BRIEF, "policy": 1e-9})
    assert found.best is not None
    simulated = {"vllm", "vllm(order=shortest-job)"}
    assert {one.policy for one in found.failures} == {*found.question.specs} - simulated
    *_, said = remarks(found, details=False)
    assert said.endswith("takes longer than 2e-07 s.")
    assert len(record(found)["refused"]) == len(found.failures)
    assert not any(it.is_error for it in found.failures.values())


class Broken(online.PriorityPolicy):
    """Raise an error."""

    name = "broken"

    def priority(self, request: Any) -> float:
        raise RuntimeError("no priority")


@pytest.mark.parametrize("jobs", [1, 2])
def test_what_fails_takes_nothing_else_along(
    workload: Workload, found: Headroom, jobs: int
) -> None:
    question = Question(workload, proposals=[Broken, "mc-sf"], error=0)
    broken = measured(question, jobs=jobs)
    assert record(broken)["errors"] == ["broken: RuntimeError: no priority"]
    assert [*remarks(broken, details=False)][1:] == [
        "No result of broken: RuntimeError: no priority."
    ]
    assert broken.rival == "mc-sf"
    for name in ("vllm", "mc-sf"):
        mine, other = broken.served(name), found.served(name)
        assert mine is not None
        assert other is not None
        assert mine.mean_latency == other.mean_latency


def test_requests_on_time_by_number_of_replicas(fleet: Headroom) -> None:
    question, rows = fleet.question, record(fleet)["service_level"]["by_replicas"]
    assert [one["replicas"] for one in rows][:2] == [2, 3]
    for row in rows:
        load = question.workload.replaced(replicas=row["replicas"])
        run = online.simulate(load, "vllm", router=question.router_of(row["replicas"]))
        assert row["on_time"] == Fraction(int(run.on_time(LEVEL).sum()), len(load))
        assert row["on_time"] <= row["attainable"].lower
        assert row["figures"] == fleet.by_replicas[row["replicas"]].figures
    ends = [(one["attainable"].lower, one["attainable"].upper) for one in rows]
    assert ends == sorted(ends)
    few, enough = fleet.fewest
    # What is not known of one replica fewer was asked.
    assert few == enough or Enclose(enough - 1, on_time=True) in fleet.results
    least, most = map(float, ends[0])
    goal = hindsight.OnTime(LEVEL)
    best = hindsight.solve(question.workload, time_limit=1, goal=goal, threads=1)
    assert best.share_interval[0] <= most
    assert least <= best.share_interval[1]


@pytest.mark.parametrize(
    ("first", "least", "most", "tried"),
    [
        # From, fewest that suffice, most that help.
        (1, 1, 9, [1]),
        (1, 3, 9, [1, 2, 3]),
        (1, 99, 2, [1, 2, 3]),
        (3, 2, 9, [3, 1, 2]),
        (3, 99, 3, [3, 4]),
        (20, 13, 99, [20, 10, 15, 12, 13]),
        (20, 33, 99, [20, 25, 31, 38, 34, 32, 33]),
    ],
)
def test_fewest_replicas_are_searched(first: int, least: int, most: int, tried: list[int]) -> None:
    """Shares rise up to a number of replicas, and 99 % are reached at another."""
    shares: dict[int, Fraction] = {}
    wanted: int | None = first
    while wanted is not None:
        shares[wanted] = Fraction(99 if wanted >= least else min(wanted, most), 100)
        wanted = next_replicas(shares, Fraction(99, 100))
    assert [*shares] == tried


def test_the_log_s_own_requests_on_time(workload: Workload) -> None:
    half = np.where(np.arange(40) < 23, 1.0, 9.0)
    level = ServiceLevel(latency=4.0, first_token=0.5)
    # A log without the time to first token tells nothing of a limit on it.
    for limits, log, share in [
        (level, (half, half / 4), Fraction(23, 40)),
        (level, (half, None), None),
        (LEVEL, (half, None), Fraction(23, 40)),
    ]:
        asked = Question(workload, level=limits, measured=log[0], measured_first=log[1])
        found = Headroom(asked, {})
        assert found.question.measured_on_time == share
        said = "Measured in the log: 57.5 % on time."
        assert [*remarks(found, details=False)][1:] == ([said] if share else [])


@pytest.mark.parametrize(
    # 0.5 per token processed, 0.25 + 1 / 10 per token held.
    ("rule", "held"),
    [(MemoryRule(), 9 + 2), (MemoryRule(emitted_token="next"), 7 + 1)],
)
def test_the_load_of_two_requests_by_hand(rule: MemoryRule, held: int) -> None:
    machine: Any = {"memory_limit": 10, "batch_time": AffineTime(1.0, 0.5, 0.25)}
    workload = Workload([5.0, 15.0], [3, 1], [2, 1], memory_rule=rule, **machine)
    for count in (1, 2):
        load = (0.5 * (4 + 1) + 0.35 * held) / 10 / count
        assert Question(workload.replaced(replicas=count)).load == pytest.approx(load)
    assert Question(Workload([0.0, 0.0], [3, 1], [2, 1], **machine)).load is None
