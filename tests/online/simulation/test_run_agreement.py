"""Whatever a run reports twice agrees, and agrees with its decisions carried out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from brute_force import is_feasible_by_definition
from effort import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from per_round_decisions import Log, Rounds, carry_out
from scripted import Scripted
from strategies import instances

import online
from instances import Instance, PreemptiveSchedule
from instances.problem.arrival_source import in_seconds
from online import AffineTime, Decision, Policy
from online.pictures.memory import stays_of
from online.simulation import metrics

# Dyadic numbers: sums are exact in any order.
CLOCK = AffineTime(0.5, 0.125, 0.0625)


def check(run: online.Run, instance: Instance, log: Log) -> Rounds:  # noqa: C901, PLR0915
    """The record, what is computed from it, and the decisions one round at a time."""
    order = sorted(range(len(instance)), key=lambda i: instance.requests[i].arrival_time)
    clock = run.round_end_times
    rounds = carry_out(
        [
            (q.arrival_time, q.prompt_length, q.output_length)
            for q in (instance.requests[i] for i in order)
        ],
        log,
        run.rounds_run,
        instance.memory_limit,
        silent=run.prefill_rounds,
        timed=clock is not None,
    )
    served = dict(zip(order, rounds.requests, strict=True))
    wanted = [served[i] for i in range(len(instance))]
    complete = all(one.end >= 0 for one in wanted)
    assert (run.status == "completed") == complete

    def at(round_index: int) -> float:
        if round_index < 0:
            return math.nan
        return float(round_index if clock is None else clock[round_index - 1])

    # The record.
    assert run.completion_rounds.tolist() == [one.end for one in wanted]
    assert run.start_rounds.tolist() == [one.stays[-1][0] if one.stays else -1 for one in wanted]
    assert run.eviction_counts.tolist() == [one.sent_back for one in wanted]
    assert run.evictions == sum(one.sent_back for one in wanted)
    columns = run.attempts
    names = ("start_round", "end_round", "completed", "tokens_kept")
    stays = np.array([getattr(columns, name) for name in names]).T
    assert columns.start_round.tolist() == sorted(columns.start_round.tolist())
    for i, one in enumerate(wanted):
        assert stays[columns.request == i].tolist() == one.stays
    assert run.memory_profile().tolist() == [0, *rounds.memory]
    first_tokens = [one.tokens[0] if one.tokens else -1 for one in wanted]
    np.testing.assert_array_equal(run.first_token_times, [at(r) for r in first_tokens])
    np.testing.assert_array_equal(run.completion_times, [at(one.end) for one in wanted])
    if clock is not None:
        seconds = [
            CLOCK.d0 + CLOCK.d1 * work + CLOCK.d2 * held
            for work, held in zip(rounds.processed, rounds.memory, strict=True)
        ]
        begun = np.concatenate([[0.0], clock])[:-1]
        # Idle time is no round.
        assert (clock - begun >= seconds).all()
        assert (clock >= np.cumsum(seconds)).all()
    owners, told = run.token_rounds
    emitted = [(i, r) for i, one in enumerate(wanted) if one.end >= 0 for r in one.tokens]
    assert list(zip(owners.tolist(), told.tolist(), strict=True)) == emitted

    # Metrics.
    columns_of = run.per_request()
    ends = zip(wanted, instance.arrival_times.tolist(), strict=True)
    latencies = [at(one.end) - arrival for one, arrival in ends]
    np.testing.assert_array_equal(run.latencies, latencies)
    np.testing.assert_array_equal(columns_of["e2el"], latencies)
    np.testing.assert_array_equal(columns_of["completion_time"], run.completion_times)
    assert columns_of["completed"].tolist() == [one.end >= 0 for one in wanted]
    assert columns_of["evictions"].tolist() == [one.sent_back for one in wanted]
    assert columns_of["restarts"].tolist() == [max(0, len(one.stays) - 1) for one in wanted]
    record = metrics.summarize(run)
    assert record["evictions"] == run.evictions
    assert record["completed"] == sum(one.end >= 0 for one in wanted)
    assert record["peak_memory"] == max(rounds.memory, default=0)
    assert record["peak_batch_size"] == max(rounds.batch_size, default=0)
    if clock is None and (done := [latency for latency in latencies if latency >= 0]):
        assert record["mean_e2el"] == pytest.approx(sum(done) / len(done))
    if clock is None and complete:
        span = record["duration"]
        assert record["mean_memory"] * span == pytest.approx(sum(rounds.memory))
        assert record["mean_batch_size"] * span == pytest.approx(sum(rounds.batch_size))

    # Costs, schedule and ratio.
    kept = any(stay[3] for one in wanted for stay in one.stays)
    if not complete:
        for figure in ("total_latency", "mean_latency", "schedule", "preemptive_schedule"):
            with pytest.raises(online.IncompleteRunError):
                getattr(run, figure)
        return rounds
    assert run.total_latency == sum(run.latencies) == sum(latencies)
    assert isinstance(run.total_latency, int) == (clock is None)
    assert run.mean_latency == run.total_latency / len(instance)
    silent = run.prefill_rounds
    assert run.keeps_tokens == kept
    assert run.pauses == rounds.paused
    # With prefill rounds a request takes as many rounds, and holds as much, as one of these.
    served_as = [
        (q.arrival_time, q.prompt_length - silent, q.output_length + silent) for q in instance
    ]
    if clock is None and not kept:
        # Pauses gain nothing: the same completions without them fit into memory.
        schedule = run.schedule
        assert [
            (q.arrival_time, q.prompt_length, q.output_length) for q in schedule.instance
        ] == served_as
        assert schedule.instance.ids == instance.ids
        starts = [one.end - row[2] for one, row in zip(wanted, served_as, strict=True)]
        assert is_feasible_by_definition(schedule.instance, starts)
        if not rounds.paused:
            assert starts == [one.stays[-1][0] for one in wanted]
        assert schedule.start_times.tolist() == starts
        assert schedule.completion_times.tolist() == run.completion_rounds.tolist()
        assert schedule.total_latency == run.total_latency
        assert run.preemptive_schedule == PreemptiveSchedule.from_schedule(schedule)
    else:
        uneven = "rounds of unequal length"
        if clock is None or silent:
            refused = "kept their tokens" if clock is None else "prefill rounds"
            with pytest.raises(online.NoScheduleError, match=refused):
                _ = run.schedule
        if clock is not None or silent:
            with pytest.raises(online.NoScheduleError, match=f"{uneven}|prefill rounds"):
                _ = run.preemptive_schedule
        else:
            preemptive = run.preemptive_schedule
            assert [
                [r for first, last in own for r in range(first, last + 1)]
                for own in preemptive.stretches
            ] == [one.tokens for one in wanted]
            assert preemptive.completion_times.tolist() == run.completion_rounds.tolist()
            assert preemptive.total_latency == run.total_latency
            held = np.zeros(run.rounds_run + 1, dtype=np.int64)
            for q, one in zip(instance, wanted, strict=True):
                assert one.tokens[0] > q.arrival_time
                held[one.tokens] += q.prompt_length + np.arange(1, q.output_length + 1)
            assert (held <= run.memory_profile()).all()
    if rounds.paused:
        with pytest.raises(ValueError, match="held requests midway"):
            stays_of(run)
    else:
        stays_of(run)
    return rounds


class Erratic(Policy):
    """Evicts, preempts, holds and cuts prompts at random; from some decision on one by one.

    With ``keeps`` False it never preempts.
    """

    name = "erratic"

    def __init__(self, seed: int, *, keeps: bool) -> None:
        self.seed, self.keeps, self.patience = seed, keeps, 25

    def reset(self, setup: Any) -> None:
        self.rng = np.random.default_rng(self.seed)
        self.silent = setup.prefill_rounds
        self.waiting: dict[int, Any] = {}
        self.kept: dict[int, int] = {}
        self.calls = 0

    def arrive(self, requests: Sequence[Any], state: Any) -> None:
        for request in requests:
            self.waiting[request.index] = request

    def happens(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def held(self, one: Any, now: int) -> int:
        return int(one.request.prompt_length - self.silent + one.rounds_run(now))

    def start(self, index: int) -> int:
        """Tokens held before its first round."""
        request = self.waiting.pop(index)
        return int(request.prompt_length - self.silent + self.kept.pop(index, 0))

    def decide(self, state: Any) -> Decision:
        self.calls += 1
        now, running = state.round_index, state.running
        if self.calls > self.patience:
            others = list(running)[1:]
            starting = [] if running else [min(self.waiting)]
            for index in starting:
                self.start(index)
            return Decision(start=starting, evict=others, wake=now + 1)
        evict = [i for i in running if self.happens(0.06)]
        preempt = [i for i in running if self.keeps and i not in evict and self.happens(0.12)]
        memory = state.memory
        for index in (*evict, *preempt):
            memory -= self.held(running[index], now)
        for index in preempt:
            one = running[index]
            self.kept[index] = max(one.tokens_kept, one.rounds_run(now) - self.silent)
        free = state.memory_limit - memory
        staying = [i for i in running if i not in evict and i not in preempt]
        left = {i: running[i].prompt_left for i in staying}
        starting = []
        for index, request in list(self.waiting.items()):
            need = request.prompt_length - self.silent + self.kept.get(index, 0)
            # A token of room keeps a whole batch from being stuck at M.
            if need < free and self.happens(0.7):
                left[index] = request.prompt_length + self.kept.get(index, 0)
                free -= self.start(index)
                starting.append(index)
        hold, prefill = [], {}
        for index in self.rng.permutation([*staying, *starting]).tolist():
            if not free or self.happens(0.2):
                hold.append(index)
            elif left[index] and self.happens(0.5):
                prefill[index] = int(self.rng.integers(0, left[index] + 1))
                free -= prefill[index] == left[index]
            else:
                free -= 1
        if hold and free and not prefill and len(hold) == len(staying) + len(starting):
            # On a clock of seconds nothing would ever move again.
            hold.pop()
        wake = None if self.happens(0.3) else now + int(self.rng.integers(1, 4))
        return Decision(starting, evict, hold, wake, prefill, preempt)


def preempt_once(policy: Any, state: Any) -> Decision:
    """Start what has arrived; in round 5 request 0 goes back and keeps its tokens."""
    now = state.round_index
    if now == 5:
        # Asked again with an empty machine, it starts nothing before the next round.
        return Decision(preempt=[0] if 0 in state.running else [], wake=now + 1)
    return Decision(start=policy.waiting, wake=now + 1)


def test_a_preempted_request_that_keeps_its_tokens_does_not_start_anew() -> None:
    instance = Instance.from_arrays([1, 20], [30, 1], [0, 10], memory_limit=100)
    policy = Scripted(preempt_once)
    log = Log(policy)
    run = online.simulate(instance, policy)
    check(run, instance, log)
    assert run.completion_rounds.tolist() == [31, 11]
    assert run.latencies.tolist() == [31, 1]
    assert run.total_latency == 32
    assert run.mean_latency == 16
    with pytest.raises(online.NoScheduleError, match="'scripted' preempted requests and kept"):
        _ = run.schedule


@given(
    instance=instances(max_requests=5, max_memory=14, max_arrival=6),
    seed=st.integers(0, 10**6),
    keeps=st.booleans(),
    silent=st.sampled_from([0, 1]),
    clock=st.sampled_from([None, CLOCK]),
)
@settings(max_examples=examples(400, 150))
def test_a_policy_that_does_everything(
    instance: Instance, seed: int, keeps: bool, silent: int, clock: AffineTime | None
) -> None:
    policy = Erratic(seed, keeps=keeps)
    log = Log(policy)
    instance = by_arrival(instance)
    run = online.simulate(in_seconds(instance, clock), policy, prefill_rounds=silent)
    check(run, instance, log)


def by_arrival(instance: Instance) -> Instance:
    return instance.of(np.argsort(instance.arrival_times, kind="stable"))
