"""Counts of starts by class: bounds from any duals, and what a tree makes of a solver's word."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from brute_force import optimal_total_latency
from drawn_instances import drawn_instance, tiny

import hindsight
from hindsight.heuristics.list_scheduling import one_after_another
from hindsight.integer_program.count_tree import CountTree
from hindsight.integer_program.highs import (
    LinearResult,
    Termination,
    WarmProgram,
    solve_linear,
)
from hindsight.integer_program.horizon import proved_horizon
from hindsight.integer_program.start_counts import (
    HEADROOM,
    SCALE,
    UNBOUNDED,
    Box,
    CountProgram,
    Relaxed,
)
from hindsight.integer_program.starts import all_starts
from hindsight.outcomes.solve_state import SolveState
from hindsight.strategies.beams import Beams
from hindsight.strategies.counts import Counts
from hindsight.strategies.mip import IntegerProgram
from hindsight.strategies.strategy import Problem
from instances import Instance, Schedule

LITTLE = Counts(
    moves=1,
    move_slice=1,
    patience=1,
    relaxed_columns=1,
    fewest_relaxations=3,
    search_share=0.0,
)
"""Leaves all bounds to the tree, and anneals anew every few phases."""

TIGHT = Instance.from_arrays(
    [1, 2, 2, 3, 3, 1], [3, 2, 2, 1, 2, 4], [0, 0, 1, 0, 1, 2], memory_limit=7
)


def enlarged(seed: int) -> Instance:
    """A tiny instance whose prompts, and so memory, are counted in a hundredth of its tokens."""
    small = tiny(seed)
    rng = np.random.default_rng(seed)
    return Instance.from_arrays(
        100 * small.prompt_lengths + rng.integers(1, 60, len(small)),
        small.output_lengths,
        small.arrival_times,
        memory_limit=100 * small.memory_limit + 60,
    )


def program_of(instance: Instance) -> CountProgram:
    starts = proved_horizon(instance).starts
    assert starts is not None
    return CountProgram(starts)


def test_optima_of_large_and_small_memory() -> None:
    for seed in range(12):
        for instance in (tiny(seed), enlarged(seed)):
            optimum, _ = optimal_total_latency(instance)
            result = hindsight.solve(instance, threads=1, method=LITTLE)
            assert (result.certified_lower_bound, result.upper_bound) == (optimum, optimum)


def test_a_tree_closed_at_its_root_offers_its_schedule_before_it_certifies() -> None:
    # The root is integral and the only schedule known is poor: 8 instead of 5.
    instance = Instance.from_arrays([2, 1], [4, 1], [0, 1], memory_limit=6)
    poor = one_after_another(instance)
    state = SolveState(instance)
    state.offer(poor)
    blind = replace(LITTLE, beams=Beams(first_rounds=(), first_tails=0))
    blind.run(Problem(instance, "total_latency", proved_horizon(instance, poor), 2), state)
    assert (state.certified_lower_bound, state.upper_bound) == (5, 5)
    assert optimal_total_latency(instance)[0] == 5


@pytest.mark.parametrize("threads", [1, 2])
def test_what_the_tree_leaves_open_is_closed_by_highs(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CountTree, "grow", lambda *_: None)
    method = replace(LITTLE, search_share=0.7)
    claimed = 0
    for seed in range(12):
        instance = drawn_instance([seed], (6, 6), (260, 300), prompts=(20, 90), outputs=5)
        optimum, _ = optimal_total_latency(instance)
        result = hindsight.solve(instance, 60, threads, method=method)
        assert (result.lower_bound, result.upper_bound) == (optimum, optimum)
        assert result.certified_lower_bound <= optimum
        claimed += result.certified_lower_bound < optimum
    assert claimed


def test_the_tree_grows_while_highs_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    grown = []
    grow, search = CountTree.grow, IntegerProgram.search_linear

    def counted(*arguments: Any) -> None:
        grown.append(is_searching[-1])
        grow(*arguments)

    def searched(*arguments: Any, **options: Any) -> None:
        is_searching.append(True)
        search(*arguments, **options)
        is_searching.append(False)

    is_searching = [False]
    monkeypatch.setattr(CountTree, "grow", counted)
    monkeypatch.setattr(IntegerProgram, "search_linear", searched)
    method = replace(LITTLE, search_share=0.3, undisturbed=0.0)
    for seed in range(12):
        instance = drawn_instance([seed], (8, 8), (260, 300), prompts=(20, 90), outputs=7)
        optimum, _ = optimal_total_latency(instance)
        result = hindsight.solve(instance, 60, 1, method=method)
        assert (result.lower_bound, result.upper_bound) == (optimum, optimum)
        assert result.certified_lower_bound <= optimum
    assert any(grown)


def test_schedules_are_points_of_the_integer_program() -> None:
    for seed in range(12):
        instance = enlarged(seed)
        optimum, starts = optimal_total_latency(instance)
        best = Schedule(instance, np.array(starts))
        program = program_of(instance)
        model = program.integer_program()
        values = program.values(best)
        assert model.costs @ values + model.offset == optimum
        rows = model.matrix @ values
        assert (rows >= model.row_lower).all()
        assert (rows <= model.row_upper).all()
        assert (values <= model.column_upper).all()
        again = program.schedule(values)
        assert again.total_latency == optimum
        assert (program.expected_starts(values) == again.start_times).all()
        assert program.expected_starts(values).sum() == best.start_times.sum()
        assert (program.values(again) == values).all()
        assert solve_linear(model).objective == pytest.approx(optimum)


def test_bounds_of_any_duals_and_of_every_tree() -> None:
    rng = np.random.default_rng(5)
    gap_seen = False
    for seed in range(12):
        instance = drawn_instance([seed], (6, 6), (260, 300), prompts=(20, 90), outputs=5)
        optimum, _ = optimal_total_latency(instance)
        program = program_of(instance)
        whole, rows = program.whole, len(program.whole.row_lower)
        costs = SCALE * (program.epochs + program.outputs)
        shift = SCALE * int(instance.arrival_times.sum())
        for _ in range(20):
            duals = rng.normal(0, SCALE, rows) * rng.choice([0.0, 0.01, 1.0], rows)
            bound = program.lagrangian(costs, duals, whole)
            assert bound is not None
            assert bound - shift <= SCALE * optimum
            # No duals show that the box of all schedules is empty.
            nothing = program.lagrangian(0 * costs, duals, whole)
            assert nothing is not None
            assert nothing <= 0
        tree = CountTree(program)
        for _ in range(100):
            assert tree.bound is None or tree.bound <= optimum
            gap_seen |= tree.bound is not None and tree.bound < optimum
            tree.grow(optimum + 1, 5)
        found = [schedule.total_latency for schedule in tree.take_found()]
        assert tree.bound is None
        assert min(found) == optimum
    assert gap_seen


def test_a_leaf_whose_bound_is_the_best_still_wanted_stays_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    optimum, _ = optimal_total_latency(TIGHT)
    relax = CountProgram.relax

    def tight(program: CountProgram, box: Box) -> Relaxed:
        found = relax(program, box)
        # No schedule in any box is below the optimum, so that this is a bound too.
        return found if found.bound is None else replace(found, bound=SCALE * optimum)

    monkeypatch.setattr(CountProgram, "relax", tight)
    tree = CountTree(program_of(TIGHT))
    assert (tree.leaves, tree.bound) == (1, optimum)
    tree.grow(optimum + 1, 1000)
    assert [schedule.total_latency for schedule in tree.take_found()] == [optimum]
    assert tree.bound is None


def test_what_64_bits_cannot_hold_is_not_a_bound() -> None:
    program = program_of(TIGHT)
    rows = len(program.whole.row_lower)
    costs = SCALE * program.epochs
    for large in (HEADROOM, HEADROOM / 4, np.nan, np.inf):
        assert program.lagrangian(costs, np.full(rows, -large), program.whole) is None


def test_rows_hold_for_every_optimal_schedule() -> None:
    for seed in range(12):
        instance = tiny(seed)
        _, starts = optimal_total_latency(instance)
        latest = int(max(np.add(starts, instance.output_lengths)))
        program = CountProgram(all_starts(instance, latest + 1))
        counts = np.zeros(len(program.epochs), dtype=np.int64)
        for s, o, t in zip(instance.prompt_lengths, instance.output_lengths, starts, strict=True):
            counts[(program.prompts == s) & (program.outputs == o) & (program.epochs == t)] += 1
        assert counts.sum() == len(instance)
        values = program.rows(counts.astype(np.float64))
        assert (counts <= program.whole.upper).all()
        assert (values >= program.whole.row_lower).all()
        assert (values <= program.whole.row_upper).all()
        assert (program.whole.row_lower > -UNBOUNDED).any()
        schedule = program.schedule(counts.astype(np.float64))
        assert schedule.is_feasible
        assert schedule.total_latency == optimal_total_latency(instance)[0]


@pytest.mark.parametrize("claim", [Termination.INFEASIBLE, Termination.UNKNOWN])
def test_that_nothing_is_feasible_is_not_taken_on_trust(
    claim: Termination, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = program_of(TIGHT)
    optimum, _ = optimal_total_latency(TIGHT)
    tree = CountTree(program)
    tree.grow(optimum + 1, 5)
    # From here on HiGHS calls everything empty, with a ray that does not prove it.
    answer = LinearResult(claim, None, None, None, None, None, 0)
    ray = np.ones(len(program.whole.row_lower))
    monkeypatch.setattr(WarmProgram, "solve", lambda _: answer)
    monkeypatch.setattr(WarmProgram, "dual_ray", lambda _: ray)
    begun = CountTree(program)
    assert begun.root.bound is not None
    assert begun.is_stuck
    tree.grow(optimum + 1, 1000)
    for one in (begun, tree):
        assert one.bound is None or one.bound <= optimum
    # Without a solution there is no tree, and an interval all the same.
    result = hindsight.solve(TIGHT, threads=1, method=LITTLE)
    assert result.stop_reason == "stalled"
    assert result.certified_lower_bound <= optimum <= result.upper_bound


def test_the_default_method_proves_in_integers_above_255_tokens_with_any_threads() -> None:
    rng = np.random.default_rng(0)
    outputs, prompts = rng.integers(1, 5, 13), rng.integers(20, 90, 13)
    instance = Instance.from_arrays(prompts, outputs, rng.integers(0, 3, 13), memory_limit=257)
    one, two = (hindsight.solve(instance, threads=threads) for threads in (1, 2))
    for result in (one, two):
        assert result.status == "optimal"
        assert result.certified_lower_bound == result.upper_bound
