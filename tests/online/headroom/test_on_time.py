"""Requests on time: what carries over, and the answer made of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import instances
import online
from hindsight import Bound, Result, Tail
from hindsight.solver import solve_until
from instances import SecondsSchedule, ServiceLevel, Workload
from instances.batch_time import AffineTime
from online.headroom import Headroom, Measured, headroom_page, measure_headroom, measuring
from online.headroom.on_time import OnTimePoint, carried_on_time, scaled_level
from online.headroom.on_time_tables import on_time_sentences, on_time_tables
from online.headroom.records import headroom_record
from online.headroom.tables import notes, sentence, tables
from online.trials.intervals import Interval

TIME = AffineTime(0.02, 2e-4, 1e-6)
LEVEL = ServiceLevel(latency=1.0, first_token=0.5)
TAIL = {"lower_bound": 0.25, "upper_bound": 99.0}
FOUR = Workload([0.0, 1.0, 2.0, 3.0], [1] * 4, [2] * 4, memory_limit=9)


def point(scale: float, faster: float, lower: int, upper: int) -> OnTimePoint:
    kept = {("search", 0.0): np.arange(4) < lower}
    workload = FOUR.faster(faster) if faster != 1 else FOUR
    level = scaled_level(LEVEL, scale)
    return OnTimePoint(workload, level, scale, faster, upper, kept=kept)


def ends(one: OnTimePoint) -> tuple[int, int]:
    return int(one.best[1].sum()), one.upper


def test_what_is_known_at_one_level_or_load_holds_at_others() -> None:
    points = [
        point(1, 1, 1, 4),
        point(0.5, 1, 2, 3),  # a stricter level: its schedule also counts at longer limits
        point(2, 1, 0, 3),  # and the bound of a longer one at all stricter ones
        point(4, 1, 0, 4),
        point(1, 2, 3, 4),  # twice as fast: as many at half the speed and more than twice the time
        point(1, 0.25, 0, 2),  # a quarter of the speed: as many, at a fifth of the limits
        point(0.2, 1, 1, 4),
    ]
    found = {(one.scale, one.faster): ends(one) for one in carried_on_time(points)}
    assert found == {
        (1, 1): (2, 3),
        (0.5, 1): (2, 3),
        (2, 1): (2, 3),
        (4, 1): (3, 4),
        # The same limits prove nothing between loads.
        (1, 2): (3, 4),
        (1, 0.25): (1, 2),
        (0.2, 1): (1, 2),
    }


def test_rounds_that_end_later_stretch_every_time_alike(workload: Workload) -> None:
    """Rounds that end at twice their time: see the proof in `carried_on_time`."""
    exact = workload.with_batch_time(AffineTime(2**-6, 2**-12, 2**-20))
    before = online.simulate(exact, "vllm").schedule
    starts = 2 * before.round_ends - before.durations
    after = SecondsSchedule(exact.faster(0.5), before._stretches, starts)
    assert after.violations() == []
    assert np.array_equal(after.completion_times, 2 * before.completion_times)
    assert np.array_equal(after.first_token_times, 2 * before.first_token_times)


def standing_in(stop: Any, problem: Workload, time_limit: Any, **options: Any) -> Any:
    """The search for requests on time: one policy's schedule, and a bound that is written here."""
    goal = options.pop("goal", None)
    if isinstance(goal, Tail):
        return SimpleNamespace(**TAIL)
    if goal is None:
        return solve_until(stop, problem, time_limit, **options)
    schedule = online.simulate(problem, "mc-sf").schedule
    on_time = int(schedule.on_time(goal.level).sum())
    late = len(problem) - on_time
    least = {"by hand": Bound(max(0, late - 5), certified=True)}
    return Result(problem, goal, "keep", schedule, late, least, "stalled")


@pytest.fixture(scope="module")
def workload() -> Workload:
    drawn = instances.generate("conversations", 5, n=40, rate=60)
    columns = (drawn.arrival_times, drawn.prompt_lengths, drawn.output_lengths)
    return Workload(*columns, memory_limit=2500, batch_time=TIME)


@pytest.fixture(scope="module")
def found(workload: Workload) -> Iterator[Headroom]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "SEARCH_SHARE", 0.002)
        patch.setattr(measuring, "POINT_SHARE", 0.0001)
        patch.setattr("hindsight.solver.solve_until", standing_in)
        yield measure_headroom(workload, ["fcfs", "mc-sf"], time_limit=100, level=LEVEL, error=0)


def test_every_point_has_an_interval_with_its_policies_in_it(
    workload: Workload, found: Headroom
) -> None:
    assert found.unfinished == ()
    places = {(one.scale, one.faster) for one in found.on_time}
    assert places == {(scale, 1) for scale in (0.25, 0.5, 0.75, 1, 1.5, 2, 4)} | {
        (1, faster) for faster in (0.5, 0.75, 1.25, 1.5)
    }
    for one in found.on_time:
        for name in ("vllm", "vllm(order=shortest-output)"):
            run = online.simulate(one.workload, "vllm")
            if name == "vllm":
                on_time = run.schedule.on_time(one.level)
                assert one.kept[name, 0.0].tolist() == on_time.tolist()
            assert one.kept[name, 0.0].sum() <= one.best[1].sum() <= one.upper


def test_the_answer_begins_with_the_requests_on_time(found: Headroom) -> None:
    own = found.on_time_here
    assert own is not None
    assert own.bound == "by hand"
    today, best = int(own.kept["vllm", 0.0].sum()), int(own.best[1].sum())
    first = on_time_sentences(found)[0]
    assert first == (
        f"On time within latency <= 1 s, first token <= 0.5 s, of 40 requests: vllm (simulated) "
        f"has {100 * today / 40:.1f} %, no scheduler can have more than {100 * own.upper / 40:.1f} "
        f"%, and a schedule that has {100 * best / 40:.1f} % is known."
    )
    assert sentence(found).startswith(first)
    # The shortest is that of a policy, the 40th latency of 40.
    tails = {run.policy: run.latencies.max() for run in found.completed}
    assert on_time_sentences(found)[-1] == (
        f"p99 latency: no scheduler is below 0.250 s, a schedule with {min(tails.values()):.3f} s "
        f"is known, vllm (simulated) has {tails['vllm']:.3f} s."
    )
    assert headroom_record(found)["service_level"]["best_possible_p99_latency"][0] == 0.25
    page = headroom_page(found, {}, "a log")
    assert page.count('id="levels-picture"') == page.count('id="loads-picture"') == 1
    policies, *curves = on_time_tables(found).values()
    shown = {row[0]: row[1:] for row in policies.rows}
    part = Interval.of_share(today, Interval.between(best, own.upper))
    text = Interval(*(100 * end for end in (part.lower, part.upper))).text(1)
    assert shown["vllm"] == (f"{100 * today / 40:.1f}", text)
    assert [len(curve.rows) for curve in curves] == [7, 5]


def test_the_record_has_every_point(found: Headroom) -> None:
    record = headroom_record(found)["service_level"]
    assert record["limits"] == {"latency": 1.0, "first_token": 0.5, "time_per_token": None}
    (own,) = (one for one in record["points"] if (one["limits_times"], one["faster"]) == (1, 1))
    (vllm,) = (one for one in own["on_time"] if one["name"] == "vllm")
    low, high = own["attainable"]
    assert vllm["share"] <= low <= high <= 1
    assert vllm["of_attainable"] == pytest.approx([vllm["share"] / high, vllm["share"] / low])
    without = replace(found, on_time=(), level=None)
    assert "service_level" not in headroom_record(without)
    assert on_time_sentences(without) == []
    assert not {"on-time", "levels", "loads"} & set(tables(without))
    assert notes(found)[2:] == notes(without)


def test_a_log_better_than_any_scheduler_contradicts_the_batch_time(found: Headroom) -> None:
    own = found.on_time_here
    assert own is not None
    none = replace(own, upper=3, kept={("search", 0.0): np.arange(40) < 2})
    measured = Measured(np.full(40, 0.5), np.full(40, 0.1))
    log = none.ran("measured", 0.0, measured.latencies, measured.first_tokens)
    answer = replace(found, on_time=(log,), measured=measured)
    (said,) = on_time_sentences(answer)
    assert (
        "the log has 100.0 %, but with this batch time no scheduler can have more than 7.5 %"
        in said
    )
    # What only the latencies are known of tells nothing of first tokens.
    assert none.ran("measured", 0.0, measured.latencies, None) is none
