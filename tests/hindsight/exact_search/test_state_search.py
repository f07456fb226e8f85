"""The exact forward search against brute force, with each rule, with and without repricing."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from brute_force import (
    is_feasible_by_definition,
    optimal_total_latency,
    total_latency_by_definition,
)
from drawn_instances import columns_of, drawn_instance, drawn_prices, parts_apart

from hindsight.configurations.prices import SCALE, start_values
from hindsight.exact_search import state_search
from hindsight.exact_search.state_pruning import Rules
from hindsight.exact_search.state_search import SearchOutcome, StateSearch
from instances import Instance

ALL = Rules()
NONE = Rules(*[False] * len(ALL))


def tiny(seed: int, largest: int) -> Instance:
    return drawn_instance(
        [47, seed],
        (1, largest),
        (4, 10),
        prompts=(0 if seed % 7 == 0 else 1, 3),
        outputs=5,
        last_arrival=5 if seed % 2 else None,
    )


def search_of(instance: Instance, **options: int) -> StateSearch:
    return StateSearch(*columns_of(instance), instance.memory_limit, **options)


def assert_exact(instance: Instance, outcome: SearchOutcome, optimum: int) -> None:
    assert (outcome.status, outcome.total_latency) == ("exhausted", optimum)
    assert outcome.start_times is not None
    starts = outcome.start_times.tolist()
    assert is_feasible_by_definition(instance, starts)
    assert total_latency_by_definition(instance, starts) == optimum


@pytest.mark.parametrize("block", range(10))
def test_the_optimum_of_500_instances_with_every_rule(block: int) -> None:
    for seed in range(50 * block, 50 * block + 50):
        instance = tiny(seed, 7)
        optimum, _ = optimal_total_latency(instance)
        search = search_of(instance)
        rng = np.random.default_rng([1, seed])
        one = Rules._fields[seed % len(ALL)]
        settings = (ALL, ALL._replace(**{one: False}), NONE._replace(**{one: True}), NONE)
        for number, search.rules in enumerate(settings):
            if number % 2:
                assert search.set_prices(*drawn_prices(instance, rng)) <= optimum * SCALE
                assert search.root_bound <= optimum
            below = search.run(optimum - 1)
            assert (below.status, below.start_times) == ("exhausted", None)
            assert_exact(instance, search.run(optimum + 2), optimum)
            assert_exact(instance, search.run(optimum), optimum)


def best_beside(instance: Instance, background: list[int]) -> int:
    """The least total latency of schedules that leave room for the background, by trying all."""
    rows = [(q.arrival_time, q.prompt_length, q.output_length) for q in instance]
    horizon = len(background) + sum(o for _, _, o in rows) + max(a for a, _, _ in rows)
    free = [instance.memory_limit] * (horizon + 2)
    for r, held in enumerate(background):
        free[r] -= held

    def best(position: int) -> float:
        if position == len(rows):
            return 0
        a, s, o = rows[position]
        found = np.inf
        for t in range(a, horizon - o + 1):
            for k in range(1, o + 1):
                free[t + k] -= s + k
            if min(free[t + 1 : t + o + 1]) >= 0:
                found = min(found, t + o - a + best(position + 1))
            for k in range(1, o + 1):
                free[t + k] += s + k
        return found

    return int(best(0))


@pytest.mark.parametrize("interpreted", [False, True])
def test_what_others_hold_is_respected_up_to_its_last_round(
    interpreted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interpreted too, where to read past the end of an array is an error."""
    if interpreted:
        python = getattr(state_search.expand, "py_func", state_search.expand)
        monkeypatch.setattr(state_search, "expand", python)
    for seed in range(6 if interpreted else 60):
        rng = np.random.default_rng([53, seed])
        instance = tiny(seed, 3)
        limit = instance.memory_limit
        background = rng.integers(0, limit + 1, int(rng.integers(1, 12)))
        background[-1] = limit
        search = StateSearch(*columns_of(instance), limit, background=background)
        optimum = best_beside(instance, background.tolist())
        below, found = search.run(optimum - 1), search.run(optimum + 1)
        assert (below.status, below.start_times) == ("exhausted", None)
        assert (found.status, found.total_latency) == ("exhausted", optimum)


def test_each_rule_removes_something() -> None:
    total = dict.fromkeys(set(Rules._fields) - {"twins"}, 0)
    rng = np.random.default_rng(61)
    for seed in range(60):
        instance = tiny(seed, 7)
        search = search_of(instance)
        search.set_prices(*drawn_prices(instance, rng))
        search.run(optimal_total_latency(instance)[0] + seed % 2 * 8)
        for rule, count in search.counts.items():
            total[rule] += count
        search.rules = NONE
        search.run(optimal_total_latency(instance)[0])
        assert not any(search.counts.values())
    assert min(total.values()) > 0


def test_twins_start_in_order_of_arrival_whatever_their_order() -> None:
    """Later twins before earlier ones too, where only some pairs are held to their order."""
    for arrivals, fewer in (([0, 1, 2, 3], True), ([3, 0, 2, 1], True), ([3, 2, 1, 0], False)):
        twins = Instance.from_arrays([2] * 4, [3] * 4, arrivals, memory_limit=5)
        optimum, _ = optimal_total_latency(twins)
        states = []
        for rules in (ALL, ALL._replace(twins=False)):
            search = search_of(twins)
            search.rules = rules
            outcome = search.run(optimum)
            assert_exact(twins, outcome, optimum)
            states.append(outcome.states)
        assert (states[0] < states[1]) == fewer


def test_bounds_imply_start_windows_and_precedences(monkeypatch: pytest.MonkeyPatch) -> None:
    """By their definition, from prices at the root and every pair of starts."""
    kept: list[tuple[int, list[int]]] = []
    select = state_search._Run._select

    def remember(run: Any, alive: np.ndarray) -> int:
        count = select(run, alive)
        kept.extend(run._current.starts[:count].tolist())
        return count

    monkeypatch.setattr(state_search._Run, "_select", remember)
    windows = precedences = 0
    for seed in range(40):
        instance = tiny(seed, 6)
        rng = np.random.default_rng([71, seed])
        search = search_of(instance)
        root = search.set_prices(*drawn_prices(instance, rng))
        budget = search.root_bound + int(rng.integers(0, 8))
        kept.clear()
        search.run(budget)
        P, u = start_values(search.prices.Q, *columns_of(instance))
        last = P.shape[1] - 1
        n = len(instance)
        regret = [[int(P[i, t] - u[i, 0]) for t in range(last + 1)] for i in range(n)]
        left = budget * SCALE - root
        first = instance.arrival_times.tolist()
        # Past the prices regrets grow, so that the last of them stands for all later starts.
        follows = [
            [
                min(
                    regret[i][t] + regret[j][x]
                    for x in range(first[j], last + 1)
                    for t in range(min(max(first[i], x + 1), last), last + 1)
                )
                > left
                for j in range(n)
            ]
            for i in range(n)
        ]
        for starts in kept:
            for i in range(n):
                if 0 <= starts[i] <= last:
                    assert regret[i][starts[i]] <= left
                    windows += any(x > left for x in regret[i])
                for j in range(n):
                    if follows[i][j] and starts[j] >= 0:
                        assert 0 <= starts[i] <= starts[j]
                        precedences += 1
    assert windows > 0
    assert precedences > 0


def test_without_a_budget_and_with_a_width() -> None:
    for seed in range(30):
        instance = tiny(seed, 6)
        optimum, _ = optimal_total_latency(instance)
        assert_exact(instance, search_of(instance).run(), optimum)
        beam = search_of(instance).run(width=3)
        assert beam.status == "beam"
        assert beam.start_times is not None
        assert beam.total_latency is not None
        assert beam.total_latency >= optimum
        assert is_feasible_by_definition(instance, beam.start_times.tolist())


def medium(n: int = 30) -> Instance:
    rng = np.random.default_rng(n)
    outputs = rng.integers(1, 36, n)
    return Instance.from_arrays(rng.integers(1, 6, n), outputs, memory_limit=45)


def test_limits_on_states() -> None:
    search = search_of(medium(), max_states=5000)
    assert search.run().status == "states"
    few = search.run(state_limit=1000)
    assert few.status == "states"
    assert few.states <= 1000


def test_growing_layers_change_nothing() -> None:
    instance = medium(12)
    outcomes = []
    for room in (1, 1 << 16):
        search = search_of(instance, room=room)
        outcomes.append(search.run(state_limit=150_000))
        assert len(search._layers[0].masks) > 4096
    assert outcomes[0].states == outcomes[1].states
    assert outcomes[0].total_latency == outcomes[1].total_latency


def test_sets_in_more_words_change_nothing() -> None:
    for instance in [tiny(seed, 7) for seed in range(40)] + [medium(14)]:
        found = []
        for words in (1, 2, 3):
            search = search_of(instance)
            search._words = words
            search._layers = (search._layer(4096), search._layer(4096))
            one = search.run(state_limit=60_000)
            starts = None if one.start_times is None else one.start_times.tolist()
            found.append((one.status, one.total_latency, starts, one.states, search.counts))
        assert found[0] == found[1] == found[2]
    assert len(search._layers[0].masks) > 4096  # words are kept where layers grow


def test_more_requests_than_a_word_has_bits() -> None:
    parts, many = parts_apart(34)
    assert len(many) == 136
    optimum = sum(optimal_total_latency(part)[0] for part in parts)
    search = search_of(many)
    below = search.run(optimum - 1)
    assert (below.status, below.start_times) == ("exhausted", None)
    assert_exact(many, search.run(optimum), optimum)


def test_it_stops_when_told() -> None:
    search = search_of(medium(), max_states=1_000_000)
    search.run(state_limit=100)  # compile
    deadline = time.monotonic() + 0.5
    outcome = search.run(should_stop=lambda: time.monotonic() > deadline)
    late = time.monotonic() - deadline
    assert outcome.status == "stopped"
    assert late < 2.0  # a busy machine; a few hundredths of a second otherwise


def test_late_starts_are_not_miscounted() -> None:
    late = Instance.from_arrays([1, 1], [2, 2], [0, 40_000], memory_limit=4)
    assert search_of(late).run().status == "epochs"


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="number of requests = 0"):
        StateSearch([], [], [], 4)
    with pytest.raises(ValueError, match="request 1: prompt_length"):
        StateSearch([1, 4], [1, 1], [0, 0], 4)
    with pytest.raises(ValueError, match="request 0: arrival_time = -1"):
        StateSearch([1], [1], [-1], 4)
    with pytest.raises(ValueError, match="shapes"):
        StateSearch([1], [1, 2], [0], 4)
    search = StateSearch([1], [1], [0], 4)
    with pytest.raises(ValueError, match="shape of prices"):
        search.set_prices(np.zeros((2, 4, 4), np.int64), np.zeros(2, np.int64))
    with pytest.raises(TypeError, match="int64"):
        search.set_prices(np.zeros((2, 5, 5)), np.zeros(2, np.int64))  # type: ignore[arg-type]
