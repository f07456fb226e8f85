"""Annealing of order and delays: every schedule has them, and small optima are reached."""

from __future__ import annotations

import numpy as np
import pytest
from brute_force import feasible_total, optimal_total_latency, total_latency_by_definition
from drawn_instances import drawn_instance
from effort import examples, sweep
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies import instances, schedules

from hindsight.schedules.lists import one_after_another
from hindsight.schedules.order_moves import BEST, PRESENT
from hindsight.schedules.orders import OrderAnnealing, OrderSearch
from hindsight.schedules.timetables import first_state
from instances import Instance, MemoryRule, Schedule
from instances.arrays import IntArray


def tiny(seed: int) -> Instance:
    last = 5 if seed % 2 else None
    return drawn_instance([53, seed], (5, 5), (6, 11), prompts=(1, 3), outputs=7, last_arrival=last)


def crowd(n: int) -> Instance:
    rng = np.random.default_rng(n)
    prompts, outputs, arrivals = (rng.integers(1, top, n) for top in (6, 30, 50))
    return Instance.from_arrays(prompts, outputs, arrivals, memory_limit=40)


def annealing_of(
    instance: Instance, starts: IntArray, delayed: float, moves: int = 60, seed: int = 1
) -> OrderAnnealing:
    schedule, state = (starts, np.zeros(len(instance), np.int64)), first_state(seed)
    return OrderAnnealing(instance, schedule, (0.5, 0.02), moves, state, delayed=delayed)


def placed_in(
    instance: Instance, order: list[int], delay: list[int] | None = None, *, in_order: bool = False
) -> list[int]:
    """The first start at which each fits beside those before it, round by round."""
    starts = [0] * len(instance)
    memory: dict[int, int] = {}
    now = 0
    for i in order:
        request = instance[i]
        lives = range(1, request.output_length + 1)

        def first_fit(t: int, request=request, lives=lives) -> int:
            while any(
                memory.get(t + j, 0) + request.prompt_length + j > instance.memory_limit
                for j in lives
            ):
                t += 1
            return t

        t = first_fit(max(request.arrival_time, now if in_order else 0))
        if delay is not None and delay[i]:
            t = first_fit(t + delay[i])
        for j in lives:
            memory[t + j] = memory.get(t + j, 0) + request.prompt_length + j
        starts[i] = now = t
    return starts


@given(schedules())
def test_every_feasible_schedule_has_an_order_with_delays(schedule: Schedule) -> None:
    work = annealing_of(schedule.instance, schedule.start_times, 0.2).work
    assert work.starts[BEST].tolist() == schedule.start_times.tolist()
    order, delay = work.order.tolist(), work.delay.tolist()
    found = placed_in(schedule.instance, order, delay, in_order=True)
    assert found == schedule.start_times.tolist()


@given(
    instances(8, min_requests=3, max_weight=3),
    st.sampled_from((0.0, 0.2)),
    st.integers(1, 99),
    st.integers(1, 60),
)
@settings(max_examples=examples(60, 40))
def test_after_any_moves_the_order_leads_to_the_schedule(instance, delayed, seed, moves) -> None:
    first = one_after_another(instance).start_times
    annealing = annealing_of(instance, first, delayed, moves, seed)
    assert annealing.run(moves) == moves
    assert annealing.left == 0
    work, best = annealing.work, annealing.best[0]
    began = first
    if not delayed:
        began = np.array(placed_in(instance, np.argsort(first, kind="stable").tolist()))
    assert Schedule(instance, best).is_feasible
    assert instance.weights @ best <= instance.weights @ began
    order, delay = work.order.tolist(), work.delay.tolist()
    found = placed_in(instance, order, delay, in_order=delayed > 0)
    assert work.starts[PRESENT].tolist() == found
    # Those before the present place take memory from the profile.
    before = work.order[: work.counts[0]]
    held = sum(int(instance.volumes[i]) for i in before)
    assert (instance.memory_limit - work.table.profiles).sum() == held
    again = annealing_of(instance, first, delayed, moves, seed)
    for _ in range(moves):
        assert again.run(1) == 1
    assert again.best[0].tolist() == best.tolist()


def test_machines_and_blocks_are_those_of_the_instance() -> None:
    one = crowd(20)
    fleet = one.replaced(memory_rule=MemoryRule(block_size=4)).replaced(replicas=2)
    search = OrderSearch(fleet)
    before = search.best_cost
    search.run(20_000)
    assert search.best_cost < before
    for k in range(2):
        own = np.flatnonzero(search.best.machines == k)
        assert len(own)
        assert Schedule(fleet.alone(own), search.best.starts[own]).is_feasible


def searched(instance: Instance, *slices: int, starts: IntArray | None = None) -> OrderSearch:
    """What a search holds after some calls of ``run`` is feasible and no worse than before."""
    search = OrderSearch(instance, starts, 3)
    for moves in slices:
        before = search.best_cost
        search.run(moves)
        assert search.best_cost <= before
        assert feasible_total(instance, search.best.starts.tolist()) == search.best_cost
    return search


@pytest.mark.parametrize("seed", sweep(range(24)))
def test_small_optima_are_reached(seed: int) -> None:
    search = searched(tiny(seed), 20_000)
    assert search.best_cost == optimal_total_latency(tiny(seed))[0]


@pytest.mark.parametrize(("n", "slices"), [(20, 10), (400, 3)])
def test_deterministic_and_independent_of_slices(n: int, slices: int) -> None:
    first = one_after_another(crowd(n)).start_times
    whole, parts = [1_000 * slices], [1_000] * slices
    one, two = (searched(crowd(n), *moves, starts=first) for moves in (whole, parts))
    assert one.best.starts.tolist() == two.best.starts.tolist()
    assert one.moves == two.moves == 1_000 * slices
    assert one.best_cost < total_latency_by_definition(crowd(n), first.tolist())


def test_a_longer_schedule_that_is_better_is_followed() -> None:
    instance = Instance.from_arrays([1] * 10, [1] * 10, None, memory_limit=20)
    search = OrderSearch(instance, np.array([20] * 10))
    search.best.offer(np.array([0] * 9 + [150]))
    assert search.best_cost == 160
    search.run(1)
    assert search.best_cost == 160
