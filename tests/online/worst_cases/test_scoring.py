"""Costs, bounds and proofs of worst-case drafts, against brute force."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
import strategies
from brute_force import optimal_total_latency
from effort import examples
from hypothesis import given, settings
from preempting import ELEVEN, Yielding

from hindsight import check_certificate
from instances import Instance, InvalidValueError
from online import IntervalPredictions, PolicyError, simulate
from online.comparison import PolicySpec
from online.policy_interface import policy as policy_module
from online.worst_cases.archive import RefutedError, case_table, check_case
from online.worst_cases.drafts import Draft, Space
from online.worst_cases.scoring import (
    REPORT_SEEDS,
    SEARCH_SEEDS,
    Case,
    Scorer,
    Target,
    lower_bound,
    policy_costs,
    prove,
    size_of,
    upper_bound,
)
from online.worst_cases.search import SearchState

TRAP = Draft(12, ((0, 11, 1), (0, 11, 1), *[(0, 1, 2)] * 4))
"""[W25] Theorem 1 in small: MC-SF serves the two large ones first."""

OVERFLOW = Draft(6, ((0, 1, 3), (0, 1, 3)))
"""Both start at once beside a protected quarter; round 3 would hold 8, for ever and ever."""


def target(name: str, *, space: Space | None = None) -> Target:
    return Target(PolicySpec(name), space or Space(12, 64, 64))


def test_a_deterministic_policy_runs_once() -> None:
    costs = policy_costs(target("mc-sf"), TRAP)
    # Large ones end at 1 and 2, the four small ones at 4.
    assert (costs.total, costs.runs, costs.status) == (1 + 2 + 4 * 4, 1, "completed")


def test_a_randomised_policy_is_a_mean_over_seeds() -> None:
    costs = policy_costs(target("a-random"), TRAP)
    instance = TRAP.instance()
    runs = [simulate(instance, "a-random", seed=seed).total_latency for seed in REPORT_SEEDS]
    assert (costs.total, costs.runs) == (sum(runs), len(runs))
    assert len(set(runs)) > 1
    assert not set(REPORT_SEEDS) & set(SEARCH_SEEDS)


def test_interval_policies_are_told_the_interval_of_all() -> None:
    costs = policy_costs(target("a-max"), TRAP, range(5))
    instance = TRAP.instance()
    told = IntervalPredictions(1, 2)
    runs = [simulate(instance, "a-max", seed=k, predictions=told).total_latency for k in range(5)]
    assert costs.total == sum(runs)
    assert target("a-max").knowledge == "interval"
    assert target("mc-sf").knowledge == "exact"


def test_a_run_that_never_ends_has_no_cost_and_no_ratio() -> None:
    costs = policy_costs(target("alpha-protection"), OVERFLOW)
    assert (costs.total, costs.mean, costs.status) == (None, None, "livelock")
    assert prove(target("alpha-protection"), OVERFLOW) is None
    scorer = Scorer(target("alpha-protection"))
    larger = Draft(7, (*OVERFLOW.rows, (0, 1, 3)))
    for draft in (larger, OVERFLOW, larger):
        assert scorer.score(draft) == 0
    assert scorer.endless == (OVERFLOW, "livelock")
    assert scorer.evaluations == 2  # what is known is not run again


@settings(max_examples=examples(25))
@given(strategies.instances(max_requests=5, max_memory=9, max_arrival=4))
def test_bounds_and_scores_stay_on_their_side(instance: Instance) -> None:
    draft = Draft.of(instance)
    draft = Space(5, 9, 9).repaired(*draft)
    optimum, _ = optimal_total_latency(draft.instance())
    assert lower_bound(draft.instance()) <= optimum <= upper_bound(draft.instance())
    run = simulate(draft.instance(), "mc-sf").total_latency
    score = Scorer(target("mc-sf")).score(draft)
    assert 0 < score <= Fraction(run, optimum)
    # What is passed over has no larger ratio than was asked for.
    floor = Fraction(11, 10)
    if Scorer(target("mc-sf")).score(draft, floor) == 0:
        assert Fraction(run, optimum) <= floor


@settings(max_examples=examples(6))
@given(strategies.instances(max_requests=4, max_memory=8, max_arrival=3))
def test_a_proved_case_is_right(instance: Instance) -> None:
    draft = Space(4, 8, 8).repaired(*Draft.of(instance))
    case = prove(target("fcfs"), draft)
    assert case is not None
    optimum, _ = optimal_total_latency(draft.instance())
    assert case.optimum == optimum
    assert case.ratio == Fraction(simulate(draft.instance(), "fcfs").total_latency, optimum)
    assert case.certificate is not None
    verdict = check_certificate(case.certificate)
    assert (verdict.is_optimal, verdict.lower_bound) == (True, optimum)
    assert verdict.digest == draft.instance().digest


def test_a_draft_outside_the_space_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="not in the space all at once, n <= 3, M <= 64"):
        prove(target("mc-sf", space=Space(3, 64)), TRAP)


def test_settings_have_names() -> None:
    space = Space(5, 16, 16, True)
    name = "equal prompts, arrivals <= 16, n <= 5, M <= 16"
    assert target("mc-sf", space=space).setting == name


def test_a_policy_that_breaks_a_rule_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise PolicyError("overflow")

    monkeypatch.setattr("online.worst_cases.scoring.simulate", broken)
    with pytest.raises(PolicyError):
        Scorer(target("mc-sf")).score(TRAP)


def test_ratios_of_means() -> None:
    assert Case(TRAP, 30, 2, 10).ratio == Fraction(3, 2)
    assert size_of(TRAP) < size_of(Draft(13, TRAP.rows)) < size_of(Draft(5, ((0, 1, 1),) * 7))


def test_a_policy_that_keeps_tokens_is_compared_with_the_preemptive_optimum(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(policy_module._POLICIES, "yielding", Yielding)
    chosen = target("yielding", space=Space(11, 64, 100))
    rows = zip(ELEVEN.arrival_times, ELEVEN.prompt_lengths, ELEVEN.output_lengths, strict=True)
    draft = Draft(64, tuple((int(a), int(s), int(o)) for a, s, o in rows))
    assert policy_costs(chosen, draft).preemptive
    found = prove(chosen, draft)
    assert found is not None
    assert (found.total, found.optimum, found.compared_with) == (78, 78, "preemptive optimum")
    # A score stays below the ratio; without preemption nothing is below 168.
    assert Fraction(78, 168) < Scorer(chosen).score(draft) <= found.ratio
    assert found.certificate is not None
    check = check_case(chosen, found)
    assert check.proof.startswith("preemptive")
    table = case_table([(SearchState(chosen), found, check)])
    assert table.rows[0][table.columns.index("compared_with")] == "preemptive optimum"
    whole = prove(target("fcfs", space=chosen.space), draft)
    assert whole is not None
    with pytest.raises(RefutedError, match="not of the preemptive optimum"):
        check_case(chosen, replace(found, certificate=whole.certificate))
    with pytest.raises(RefutedError, match="compared with the preemptive optimum"):
        check_case(chosen, replace(found, preemptive=False))
