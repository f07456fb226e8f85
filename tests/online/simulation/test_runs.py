"""Whatever a run reports twice agrees, and agrees with its decisions carried out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from answering_source import Grudge
from brute_force import is_feasible_by_definition
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from per_round_decisions import Log, Rounds, carry_out
from strategies import instances

import online
from instances import Instance, PreemptiveSchedule, Request, ServiceLevel, Workload
from instances.problem.arrival_source import in_seconds
from online import AffineTime, Decision, Policy, PriorityPolicy
from online.pictures.memory import stays_of
from online.policy_interface import VisibleRequest
from online.simulation import metrics

# Dyadic numbers: sums are exact in any order.
CLOCK = AffineTime(0.5, 0.125, 0.0625)


def check(run: online.Run, instance: Instance, log: Log) -> None:
    """The record, what is computed from it, and the decisions one round at a time."""
    clock, silent = run.round_end_times, run.prefill_rounds
    rows = [(q.arrival_time, q.prompt_length, q.output_length) for q in instance]
    limit = instance.memory_limit
    rounds = carry_out(rows, log, run.rounds_run, limit, silent=silent, timed=clock is not None)
    wanted = rounds.requests
    ends = np.array([one.end for one in wanted])
    assert (run.status == "completed") == (ends >= 0).all()
    assert run.completion_rounds.tolist() == ends.tolist()
    assert run.start_rounds.tolist() == [one.stays[-1][0] if one.stays else -1 for one in wanted]
    assert run.eviction_counts.tolist() == [one.sent_back for one in wanted]
    assert run.attempts.start_round.tolist() == sorted(run.attempts.start_round)
    stays = np.array(run.attempts[1:5]).T
    for i, one in enumerate(wanted):
        assert stays[run.attempts.request == i].tolist() == one.stays
    assert run.keeps_tokens == any(stay[3] for one in wanted for stay in one.stays)
    assert run.pauses == rounds.paused
    assert run.memory_profile().tolist() == [0, *rounds.memory]
    owners, emitted = run.token_rounds
    tokens = [(i, r) for i, one in enumerate(wanted) if one.end >= 0 for r in one.tokens]
    assert list(zip(owners.tolist(), emitted.tolist(), strict=True)) == tokens
    times = np.arange(run.rounds_run + 1.0) if clock is None else np.append(0.0, clock)
    # Index -1, of what has not happened, finds the last.
    times = np.append(times, np.nan)
    first_tokens = [one.tokens[0] if one.tokens else -1 for one in wanted]
    np.testing.assert_array_equal(run.first_token_times, times[first_tokens])
    np.testing.assert_array_equal(run.completion_times, times[ends])
    if clock is not None:
        pairs = zip(rounds.processed, rounds.memory, strict=True)
        seconds = [CLOCK.d0 + CLOCK.d1 * work + CLOCK.d2 * held for work, held in pairs]
        # Idle time is no round.
        assert (np.diff(clock, prepend=0.0) >= seconds).all()
    check_metrics(run, rounds, times[ends] - [row[0] for row in rows])
    if run.status == "completed":
        check_schedules(run, instance, rounds)
        return
    for figure in ("total_latency", "mean_latency", "schedule", "preemptive_schedule"):
        with pytest.raises(online.IncompleteRunError):
            getattr(run, figure)


def check_metrics(run: online.Run, rounds: Rounds, latencies: Any) -> None:
    wanted, record = rounds.requests, metrics.summarize(run)
    np.testing.assert_array_equal(run.per_request()["e2el"], latencies)
    restarts = [max(0, len(one.stays) - 1) for one in wanted]
    assert run.per_request()["restarts"].tolist() == restarts
    assert record["evictions"] == sum(one.sent_back for one in wanted)
    assert record["completed"] == sum(one.end >= 0 for one in wanted)
    assert record["peak_memory"] == max(rounds.memory, default=0)
    assert record["peak_batch_size"] == max(rounds.batch_size, default=0)
    if run.instance is not None and run.status == "completed":
        assert record["mean_e2el"] == pytest.approx(np.mean(latencies))
        span = record["duration"]
        assert record["mean_memory"] * span == pytest.approx(sum(rounds.memory))
        assert record["mean_batch_size"] * span == pytest.approx(sum(rounds.batch_size))
    if run.status == "completed":
        weights = np.ones(len(wanted)) if run.instance is None else run.instance.weights
        assert run.total_latency == sum(weights * latencies)
        assert isinstance(run.total_latency, int) == (run.instance is not None)
        assert run.mean_latency == run.total_latency / sum(weights)
    with (
        pytest.raises(ValueError, match="held requests midway") if rounds.paused else nullcontext()
    ):
        stays_of(run)


def check_schedules(run: online.Run, instance: Instance, rounds: Rounds) -> None:
    """Those of the model of the run have its completions; others do not exist."""
    silent, wanted = run.prefill_rounds, rounds.requests
    reasons = {"schedule": "", "preemptive_schedule": ""}
    if run.instance is None:
        reasons = {"schedule": "prefill rounds" * silent, "preemptive_schedule": "unequal length"}
    elif run.keeps_tokens:
        reasons = {"schedule": "and kept their", "preemptive_schedule": "prefill rounds" * silent}
    for name, reason in reasons.items():
        if reason:
            with pytest.raises(online.NoScheduleError, match=reason):
                getattr(run, name)
    if run.instance is not None and not run.keeps_tokens:
        # Pauses gain nothing: the same completions without them fit into memory. With prefill
        # rounds a request takes as many rounds, and holds as much, as a longer output would.
        schedule = run.schedule
        served = list(instance)
        for i, q in enumerate(served if silent else ()):
            lengths = (q.prompt_length - silent, q.output_length + silent)
            served[i] = Request(q.arrival_time, *lengths, q.id, q.weight)
        assert list(schedule.instance) == served
        starts = [one.end - q.output_length for one, q in zip(wanted, served, strict=True)]
        assert is_feasible_by_definition(schedule.instance, starts)
        if not rounds.paused:
            assert starts == [one.stays[-1][0] for one in wanted]
        assert schedule.start_times.tolist() == starts
        assert schedule.total_latency == run.total_latency
        assert run.preemptive_schedule == PreemptiveSchedule.from_schedule(schedule)
    elif not reasons["preemptive_schedule"]:
        preemptive = run.preemptive_schedule
        assert [
            [r for first, last in own for r in range(first, last + 1)]
            for own in preemptive.stretches
        ] == [one.tokens for one in wanted]
        assert preemptive.total_latency == run.total_latency
        held = np.zeros(run.rounds_run + 1, dtype=np.int64)
        for q, one in zip(instance, wanted, strict=True):
            assert one.tokens[0] > q.arrival_time
            held[one.tokens] += q.prompt_length + np.arange(1, q.output_length + 1)
        assert (held <= run.memory_profile()).all()


class Erratic(Policy):
    """Evicts, preempts, holds and cuts prompts at random; from some decision on one by one.

    With ``keeps`` False it never preempts.
    """

    name = "erratic"

    def __init__(self, seed: int, *, keeps: bool) -> None:
        self.seed, self.keeps = seed, keeps

    def reset(self, setup: Any) -> None:
        self.rng, self.silent = np.random.default_rng(self.seed), setup.prefill_rounds
        self.waiting: list[int] = []
        self.kept: dict[int, int] = {}
        self.calls = 0

    def arrive(self, requests: Sequence[Any], state: Any) -> None:
        self.waiting += [request.index for request in requests]

    def happens(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def decide(self, state: Any) -> Decision:
        assert list(state.waiting) == self.waiting
        now, running = state.round_index, state.running
        held = {
            i: one.request.prompt_length - self.silent + one.rounds_run(now)
            for i, one in running.items()
        }
        free = state.memory_limit - sum(held.values())
        assert (state.memory, state.free) == (sum(held.values()), free - len(running))
        self.calls += 1
        starting = [] if running else self.waiting[:1]
        if self.calls > 25:
            self.waiting = [i for i in self.waiting if i not in starting]
            return Decision(start=starting, evict=list(running)[1:], wake=now + 1)
        evict = [i for i in running if self.happens(0.06)]
        preempt = [i for i in running if self.keeps and i not in evict and self.happens(0.12)]
        for index in preempt:
            one = running[index]
            self.kept[index] = max(one.tokens_kept, one.rounds_run(now) - self.silent)
        free += sum(held[i] for i in (*evict, *preempt))
        left = {i: running[i].prompt_left for i in running if i not in (*evict, *preempt)}
        starting = []
        for index, request in state.waiting.items():
            prompt = request.prompt_length + self.kept.get(index, 0)
            # A token of room keeps a whole batch from being stuck at M.
            if prompt - self.silent < free and self.happens(0.7):
                self.kept.pop(index, None)
                starting.append(index)
                left[index] = prompt
                free -= prompt - self.silent
        self.waiting = [i for i in self.waiting if i not in starting]
        hold, prefill = [], {}
        for index in self.rng.permutation([*left]).tolist():
            if not free or self.happens(0.2):
                hold.append(index)
            elif left[index] and self.happens(0.5):
                prefill[index] = int(self.rng.integers(0, left[index] + 1))
                free -= prefill[index] == left[index]
            else:
                free -= 1
        if hold and free and not prefill and len(hold) == len(left):
            # On a clock of seconds nothing would ever move again.
            hold.pop()
        wake = None if self.happens(0.3) else now + int(self.rng.integers(1, 4))
        return Decision(starting, evict, hold, wake, prefill, preempt)


@given(
    instance=instances(max_requests=5, max_memory=14, max_arrival=6),
    seed=st.integers(0, 10**6),
    keeps=st.booleans(),
    silent=st.sampled_from([0, 1]),
    clock=st.sampled_from([None, CLOCK]),
    rounds=st.sampled_from([None, None, 6]),
)
@settings(max_examples=examples(400, 150))
def test_a_policy_that_does_everything(
    instance: Instance, seed: int, keeps: bool, silent: int, clock: Any, rounds: int | None
) -> None:
    policy = Erratic(seed, keeps=keeps)
    log = Log(policy)
    instance = instance.of(instance.order_of_arrival)
    if clock is None:
        requests = [replace(q, weight=1 + (seed + i) % 3) for i, q in enumerate(instance)]
        instance = instance.replaced(requests=requests)
    problem: Any = instance if clock is None else in_seconds(instance, clock)
    run = online.simulate(problem, policy, prefill_rounds=silent, max_rounds=rounds)
    check(run, instance, log)


# --- metrics by hand ---------------------------------------------------------------------------


def two_requests() -> online.Run:
    """Request 0: tokens at 1, 2, 3. Request 1 waits until 3: tokens at 4, 5."""
    source = Workload([0.0, 0.5], [2, 3], [3, 2], memory_limit=5, batch_time=AffineTime(1.0))
    return online.simulate(source, "fcfs")


def test_a_record_by_hand() -> None:
    record = metrics.summarize(two_requests(), ServiceLevel(first_token=1.0))
    assert record["requests"] == record["completed"] == 2
    assert record["duration"] == 5.0
    # ttft 1 and 3.5; e2el 3 and 4.5; tpot 1 and 1.
    assert record["mean_ttft"] == record["median_ttft"] == 2.25
    assert record["p90_ttft"] == pytest.approx(1 + 0.9 * 2.5)
    assert record["mean_e2el"] == 3.75
    assert record["p99_tpot"] == record["mean_itl"] == 1.0
    assert record["request_throughput"] == 0.4
    assert record["output_throughput"] == 1.0
    assert record["request_goodput"] == 0.2
    # Tokens held: 3, 4, 5, then 4, 5.
    assert record["mean_memory"] == 21 / 5
    assert record["peak_memory"] == 5
    assert record["mean_batch_size"] == record["peak_batch_size"] == 1
    assert (record["evictions"], record["restarts"], record["rounds"]) == (0, 0, 5)


def test_idle_time_counts_as_empty() -> None:
    source = Workload([1.0, 9.0], [1, 1], [2, 1], memory_limit=9, batch_time=AffineTime(1.0))
    run = online.simulate(source, "fcfs")
    assert run.rounds.number.tolist() == [1, 2, 3]
    assert run.rounds.starts.tolist() == [1.0, 2.0, 9.0]
    assert run.rounds.ends.tolist() == [2.0, 3.0, 10.0]
    assert run.rounds.memory.tolist() == [2, 3, 2]
    assert run.rounds.batch_size.tolist() == [1, 1, 1]
    assert metrics.summarize(run)["mean_memory"] == 7 / 9


def test_one_token_has_no_time_per_token_and_misses_no_objective() -> None:
    source = Workload([0.0], [1], [1], memory_limit=9, batch_time=AffineTime(2.0))
    level = ServiceLevel(time_per_token=0.1, latency=2.0)
    record = metrics.summarize(online.simulate(source, "fcfs"), level)
    assert math.isnan(record["mean_tpot"])
    assert math.isnan(record["mean_itl"])
    assert record["request_goodput"] == record["request_throughput"] == 0.5


def test_gaps_between_tokens_with_a_hold_and_an_eviction() -> None:
    """Request 0 is held in the rounds of the prompt of request 1, which is sent back twice."""
    source = Workload([0.0, 0.5], [2, 2], [4, 3], memory_limit=9, batch_time=AffineTime(1.0))
    run = online.simulate(source, "vllm-v0(watermark=0)")
    owners, gaps = run.inter_token_latencies
    assert owners.tolist() == [0, 0, 0, 1, 1]
    assert gaps.tolist() == [2, 1, 2, 1, 1]
    assert run.per_request()["restarts"].tolist() == [0, 2]
    record = metrics.summarize(run)
    assert (record["mean_itl"], record["restarts"]) == (1.4, 2)
    assert record["p99_itl"] == pytest.approx(np.percentile(gaps, 99))


def test_an_incomplete_run_counts_what_completed() -> None:
    run = online.simulate(
        Instance.from_arrays([1, 1], [2, 9], memory_limit=20), "fcfs", max_rounds=4
    )
    record = metrics.summarize(run)
    assert (record["requests"], record["completed"], record["status"]) == (2, 1, "round-limit")
    assert record["mean_e2el"] == 2.0
    # Two tokens in four rounds: the two rounds after the last completion count.
    assert record["duration"] == 4
    assert record["output_throughput"] == 0.5


def test_data_frames() -> None:
    run = two_requests()
    requests = run.frame()
    assert requests.ttft.tolist() == [1.0, 3.5]
    assert requests.id.tolist() == [0, 1]


def test_a_prefill_round_by_hand() -> None:
    run = online.simulate(Instance([Request(2, 5, 3)], 8), "mc-sf", prefill_rounds=1)
    assert run.memory_profile().tolist() == [0, 0, 0, 5, 6, 7, 8]
    assert run.completion_rounds.tolist() == [6]
    # The prefill round emits nothing: the first token comes with round 4.
    assert run.first_token_times.tolist() == [4]
    assert run.total_latency == 4
    # Four rounds that hold 5 .. 8 tokens, whatever they emit.
    assert run.schedule.instance == Instance(
        [Request(2, 4, 4, 0)], 8, metadata={"allow_zero_prompt_length": True}
    )
    assert run.schedule.start_times.tolist() == [2]
    assert run.schedule.memory_profile().tolist() == run.memory_profile().tolist()


# --- weights -----------------------------------------------------------------------------------

# Two requests of volume 9, one after the other: the heavier is worth five of the lighter.
INSTANCE = Instance.from_arrays([1, 1], [3, 3], memory_limit=4, weights=[1, 5], name="pair")


class WeightedVolumeFirst(PriorityPolicy):
    """Smallest volume over weight first."""

    def priority(self, request: VisibleRequest) -> float:
        """Token-rounds over weight."""
        return request.volume / request.weight


def test_policies_see_weights_and_totals_count_them() -> None:
    plain = online.simulate(INSTANCE, "smallest-volume-first")
    heavy = online.simulate(INSTANCE, WeightedVolumeFirst())
    assert plain.schedule.start_times.tolist() == [0, 3]
    assert heavy.schedule.start_times.tolist() == [3, 0]
    assert (plain.total_latency, heavy.total_latency) == (3 + 5 * 6, 6 + 5 * 3)
    assert heavy.mean_latency == heavy.schedule.mean_latency == 21 / 6


def test_a_realised_instance_has_the_weights_of_its_arrivals() -> None:
    class Source(Grudge):
        """The same, with weights."""

        def release(self, now: float):  # type: ignore[no-untyped-def]
            return [one._replace(weight=3) for one in super().release(now)]

    assert online.simulate(Source(1), "mc-sf").instance.weights.tolist() == [3, 3]
    assert not online.simulate(Grudge(1), "mc-sf").instance.is_weighted
