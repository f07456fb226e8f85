"""Blocks and tokens stored next: paths against enumeration, certificates, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import rows_of
from certificates_by_definition import one_by_one
from drawn_instances import drawn_prices
from effort import sweep
from tiny_problems import least_total_latency as best

import hindsight
from hindsight.paths.graph import PricedInstance
from hindsight.paths.refinement import PathOutcome, refine
from hindsight.paths.relaxation import Climb
from hindsight.prices.states import PathPrices, StatePrices
from hindsight.runtime.clock import never
from instances import Instance, MemoryRule, Schedule
from instances.problem.memory_translation import relaxed

RULES = [
    MemoryRule(1, "next"),
    MemoryRule(1, "now", "chunks"),
    MemoryRule(2, "next", "chunks"),
    MemoryRule(3, "now"),
    MemoryRule(4, "next"),
]


def drawn(seed: int, rule: MemoryRule, n: int = 4) -> Instance:
    """A tiny instance in which requests get into each other's way."""
    rng = np.random.default_rng(seed)
    size = rule.block_size
    limit = int(rng.integers(2 * size + 2, 4 * size + 5))
    usable = limit - limit % size
    rows: list[tuple[int, int, int]] = []
    while len(rows) < n:
        a, s, o = int(rng.integers(0, 4)), int(rng.integers(1, usable)), int(rng.integers(1, 5))
        if s + o - rule.unstored <= usable:
            rows.append((a, s, o))
    arrivals, prompts, outputs = zip(*rows, strict=True)
    return Instance.from_arrays(prompts, outputs, arrivals, memory_limit=limit, memory_rule=rule)


@pytest.mark.parametrize("seed", sweep(range(200), 24))
def test_graphs_of_paths_leave_a_schedule_in_blocks_from_the_optimum_on(seed: int) -> None:
    """Under any prices, in the solver and in the checker; some requests are alike below alone."""
    drawn_one = drawn(1000 + seed, RULES[2 + seed % 3])
    rows = rows_of(drawn_one)
    (a, s, o), rule, limit = rows[0], drawn_one.memory_rule, drawn_one.memory_limit
    if rule.blocks(s + 1 + o) <= limit // rule.block_size:
        rows[-1] = (a, s + seed % 2, o)
    arrivals, prompts, outputs = zip(*rows, strict=True)
    instance = Instance.from_arrays(
        prompts, outputs, arrivals, memory_limit=limit, memory_rule=rule
    )
    optimum_here, below = best(instance), relaxed(instance)
    Q, W = drawn_prices(below, np.random.default_rng(seed), max(arrivals))

    def outcome(within: int) -> PathOutcome:
        priced = PricedInstance(instance, Q, W, within)
        return refine(priced, 200_000, Climb(9), never)

    found, closed = outcome(optimum_here + 1), outcome(optimum_here - 1)
    assert found.start_times is not None
    assert closed.start_times is None
    schedule = Schedule(instance, found.start_times)
    assert schedule.is_feasible
    assert schedule.total_latency == optimum_here == found.lower_bound == closed.lower_bound
    proof = PathPrices(StatePrices(Q), optimum_here - 1, closed.stages)
    document = hindsight.make_certificate(schedule, proof, search=False)
    assert hindsight.check_certificate(document).lower_bound == optimum_here
    too_much = PathPrices(StatePrices(Q), optimum_here, found.stages).to_part(below)
    later = Schedule(instance, [t + 9 for t in one_by_one(rows)])
    claim = {**hindsight.make_certificate(later), "proof": too_much, "lower_bound": 0}
    with pytest.raises(hindsight.CertificateError, match="total latency within"):
        hindsight.check_certificate(claim)


def test_a_start_is_taken_and_the_makespan_is_proved_in_blocks() -> None:
    instance = drawn(3, MemoryRule(3, "next"))
    first = hindsight.solve(instance)
    assert hindsight.solve(instance, start=first.schedule).upper_bound == first.upper_bound
    shortest = hindsight.solve(instance, goal="makespan")
    assert shortest.schedule.is_feasible
    assert shortest.lower_bound <= first.schedule.makespan
    assert shortest.upper_bound <= first.schedule.makespan
    assert shortest.status == "optimal"
    below = hindsight.solve(relaxed(instance), goal="makespan")
    assert shortest.lower_bound >= below.upper_bound
