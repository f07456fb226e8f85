"""Costs, bounds and proofs of worst-case drafts, against brute force."""

from __future__ import annotations

from fractions import Fraction

import pytest
import strategies
from brute_force import optimal_total_latency
from effort import examples
from hypothesis import given, settings
from preempting import ELEVEN, Yielding

from instances import Instance, known_bounds
from online import IntervalPredictions, PolicyError, simulate
from online.policy_interface.specs import PolicySpec
from online.worst_cases.drafts import Draft, Space
from online.worst_cases.scoring import (
    REPORT_SEEDS,
    SEARCH_SEEDS,
    Scorer,
    lower_bound,
    policy_costs,
    prove,
    size_of,
    upper_bound,
)

TRAP = Draft(12, ((0, 11, 1), (0, 11, 1), *[(0, 1, 2)] * 4))
"""[W25] Theorem 1 in small: MC-SF serves the two large ones first."""

OVERFLOW = Draft(6, ((0, 1, 3), (0, 1, 3)))
"""Both start at once beside a protected quarter; round 3 would hold 8, for ever and ever."""


def draft_of(instance: Instance, space: Space) -> Draft:
    rows = [(q.arrival_time, q.prompt_length, q.output_length) for q in instance]
    return space.repaired(instance.memory_limit, rows)


def test_a_deterministic_policy_runs_once() -> None:
    costs = policy_costs(PolicySpec("mc-sf"), TRAP.instance())
    # Large ones end at 1 and 2, the four small ones at 4.
    assert costs == (1 + 2 + 4 * 4, "completed", False)


def test_a_randomised_policy_is_a_mean_over_seeds() -> None:
    instance = TRAP.instance()
    costs = policy_costs(PolicySpec("a-random"), instance)
    runs = [simulate(instance, "a-random", seed=seed).total_latency for seed in REPORT_SEEDS]
    assert costs.mean == Fraction(sum(runs), len(runs))
    assert len(set(runs)) > 1
    assert not set(REPORT_SEEDS) & set(SEARCH_SEEDS)


def test_interval_policies_are_given_the_interval_of_all() -> None:
    instance = TRAP.instance()
    costs = policy_costs(PolicySpec("a-max"), instance)
    told = IntervalPredictions(1, 2)
    runs = [simulate(instance, "a-max", seed=k, predictions=told) for k in REPORT_SEEDS]
    assert costs.mean == Fraction(sum(int(run.total_latency) for run in runs), len(runs))


def test_a_run_that_never_ends_has_no_cost_and_no_ratio() -> None:
    spec = PolicySpec("alpha-protection")
    costs = policy_costs(spec, OVERFLOW.instance())
    assert costs[:2] == (None, "livelock")
    assert prove(spec, OVERFLOW) is None
    scorer = Scorer(spec)
    larger = Draft(7, (*OVERFLOW.rows, (0, 1, 3)))
    for draft in (larger, OVERFLOW, larger):
        assert scorer.score(draft) == 0
    assert scorer.endless == (OVERFLOW, "livelock")
    assert scorer.evaluations == 2  # what is known is not run again


@settings(max_examples=examples(25))
@given(strategies.instances(max_requests=5, max_memory=9, max_arrival=4))
def test_bounds_and_scores_stay_on_their_side(instance: Instance) -> None:
    draft = draft_of(instance, Space(5, 9, 9))
    optimum, _ = optimal_total_latency(draft.instance())
    assert lower_bound(draft.instance()) <= optimum <= upper_bound(draft.instance())
    run = simulate(draft.instance(), "mc-sf").total_latency
    score = Scorer(PolicySpec("mc-sf")).score(draft)
    assert 0 < score <= Fraction(run, optimum)
    # What is passed over has no larger ratio than was asked for.
    floor = Fraction(11, 10)
    if Scorer(PolicySpec("mc-sf")).score(draft, floor) == 0:
        assert Fraction(run, optimum) <= floor


@settings(max_examples=examples(6))
@given(strategies.instances(max_requests=4, max_memory=8, max_arrival=3))
def test_a_proved_case_is_right(instance: Instance) -> None:
    draft = draft_of(instance, Space(4, 8, 8))
    case = prove(PolicySpec("fcfs"), draft)
    assert case is not None
    optimum, _ = optimal_total_latency(draft.instance())
    assert case.optimum == optimum
    assert case.ratio == Fraction(simulate(draft.instance(), "fcfs").total_latency, optimum)
    known = known_bounds(case.instance("found"))
    assert known is not None
    assert (known.lower_bound, known.upper_bound) == (optimum, optimum)
    assert case.instance().digest == draft.instance().digest


def test_a_policy_that_breaks_a_rule_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise PolicyError("overflow")

    monkeypatch.setattr("online.worst_cases.scoring.simulate", broken)
    with pytest.raises(PolicyError):
        Scorer(PolicySpec("mc-sf")).score(TRAP)


def test_smaller_instances_are_easier_to_read() -> None:
    assert size_of(TRAP) < size_of(Draft(13, TRAP.rows)) < size_of(Draft(5, ((0, 1, 1),) * 7))


def test_a_policy_that_keeps_tokens_is_compared_with_the_preemptive_optimum() -> None:
    spec = PolicySpec.of(Yielding)
    rows = zip(ELEVEN.arrival_times, ELEVEN.prompt_lengths, ELEVEN.output_lengths, strict=True)
    draft = Draft(64, tuple((int(a), int(s), int(o)) for a, s, o in rows))
    assert policy_costs(spec, draft.instance()).preemptive
    found = prove(spec, draft)
    assert found is not None
    assert (found.cost, found.optimum) == (78, 78)
    assert known_bounds(found.instance()) is None
    # A score stays below the ratio; without preemption nothing is below 168.
    assert Fraction(78, 168) < Scorer(spec).score(draft) <= found.ratio
