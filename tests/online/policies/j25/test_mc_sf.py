"""MC-SF and MC-Benchmark against [J25] Algorithms 1 and 2 written round by round.

The rendering asks every round, and checks *every* later round of every candidate by adding up
memory from the definition: it skips no epoch and knows no completion-time shortcut.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
from brute_force import is_feasible_by_definition, memory_by_definition
from drawn_instances import drawn_instance

import online
from instances import Instance, Request
from online import Prediction


def random_instance(seed: int) -> Instance:
    last = (0, 9, 59)[seed % 3]
    return drawn_instance([11, seed], (1, 14), (4, 29), prompts=(1, 7), last_arrival=last)


def algorithm(instance: Instance, key: Callable[[int, Request], tuple[int, ...]]) -> list[int]:
    """One decision a round: the longest prefix of the sorted queue within M in all later rounds."""
    starts: dict[int, int] = {}
    now = 0
    while len(starts) < len(instance):
        queue = sorted(
            (i for i, q in enumerate(instance) if i not in starts and q.arrival_time <= now),
            key=lambda i: key(i, instance[i]),
        )
        for i in queue:
            trial = {**starts, i: now}
            last = max(t + instance[j].output_length for j, t in trial.items())
            if any(
                sum(
                    instance[j].prompt_length + r - t
                    for j, t in trial.items()
                    if t < r <= t + instance[j].output_length
                )
                > instance.memory_limit
                for r in range(now + 1, last + 1)
            ):
                break
            starts = trial
        now += 1
    return [starts[i] for i in range(len(instance))]


def by_output(index: int, request: Request) -> tuple[int, ...]:
    # Ties by order of appearance: arrival, then position.
    return (request.output_length, request.arrival_time, index)


def by_arrival(index: int, request: Request) -> tuple[int, ...]:
    return (request.arrival_time, index)


@pytest.mark.parametrize("chunk", range(10))
def test_policies_are_their_algorithms(chunk: int) -> None:
    """[J25] Algorithms 1, 2; [W25] Section 7."""
    for seed in range(chunk, 300, 10):
        instance = random_instance(seed)
        expected = algorithm(instance, by_output)
        run = online.simulate(instance, "mc-sf")
        assert run.status == "completed"
        assert run.start_rounds.tolist() == expected, seed
        assert run.schedule.start_times.tolist() == expected, seed
        assert is_feasible_by_definition(instance, expected)
        assert run.memory_profile().tolist() == memory_by_definition(instance, expected), seed
        assert run.memory_profile().tolist() == run.schedule.memory_profile().tolist(), seed
        assert run.evictions == 0
        expected = algorithm(instance, by_arrival)
        for name in ("mc-benchmark", "fcfs"):
            assert online.simulate(instance, name).start_rounds.tolist() == expected, (seed, name)


@dataclass(frozen=True)
class Shifted:
    """Foretells an upper end too high or too low by up to ``spread`` tokens."""

    spread: int
    low: bool

    def predict(
        self, prompt_length: int, output_length: int, rng: np.random.Generator
    ) -> Prediction:
        error = int(rng.integers(0, self.spread + 1))
        upper = max(1, output_length - error if self.low else output_length + error)
        return Prediction(1, 1, upper)


class Recorded:
    """Wraps a prediction model and keeps what it said, by order of appearance."""

    def __init__(self, inner: Shifted, limit: int) -> None:
        self.inner, self.limit, self.uppers = inner, limit, []

    def predict(
        self, prompt_length: int, output_length: int, rng: np.random.Generator
    ) -> Prediction:
        said = self.inner.predict(prompt_length, output_length, rng)
        # What cannot run at all would wait for ever.
        upper = min(said.upper, self.limit - prompt_length)
        self.uppers.append(upper)
        return Prediction(1, 1, upper)


def round_by_round_with_predictions(instance: Instance, uppers: list[int]) -> list[int]:
    """The documented rule, one decision a round: a request that outlives its prediction is
    assumed to end in the next round; on overflow the latest started are evicted."""
    upper = dict(enumerate(uppers))
    running: dict[int, int] = {}  # in order of admission
    waiting: list[int] = []
    last_start: dict[int, int] = {}
    done: set[int] = set()
    now = 0
    while len(done) < len(instance):
        assert now < 5000
        for i in [i for i, t in running.items() if t + instance[i].output_length == now]:
            del running[i]
            done.add(i)
        waiting.extend(i for i, q in enumerate(instance) if q.arrival_time == now)

        def held(i: int, start: int, end: int, r: int) -> int:
            return instance[i].prompt_length + r - start if start < r <= end else 0

        def end(i: int, start: int, now: int) -> int:
            return max(start + upper[i], now + 1)

        evicted = []
        while sum(held(i, t, now + 1, now + 1) for i, t in running.items()) > instance.memory_limit:
            latest = list(running)[-1]
            del running[latest]
            evicted.append(latest)
        order = sorted(waiting, key=lambda i: (upper[i], i))
        for i in order:
            trial = {**running, i: now}
            last = max(end(j, t, now) for j, t in trial.items())
            if any(
                sum(held(j, t, end(j, t, now), r) for j, t in trial.items()) > instance.memory_limit
                for r in range(now + 1, last + 1)
            ):
                break
            running = trial
            waiting.remove(i)
            last_start[i] = now
        waiting.extend(evicted)
        now += 1
    return [last_start[i] for i in range(len(instance))]


@pytest.mark.parametrize("low", [False, True], ids=["undercut", "outlive"])
def test_wrong_predictions(low: bool) -> None:
    different = []
    for seed in range(150):
        instance = random_instance(3 * seed)  # all at once: order of appearance is the order
        model = Recorded(Shifted(4, low), instance.memory_limit)
        run = online.simulate(instance, "mc-sf", seed=seed, predictions=model)
        assert run.status in ("completed", "livelock")
        if run.status != "completed":
            continue
        assert is_feasible_by_definition(instance, run.start_rounds.tolist())
        assert run.memory_profile().max() <= instance.memory_limit
        if not low:
            assert run.evictions == 0
        if run.start_rounds.tolist() != round_by_round_with_predictions(instance, model.uppers):
            different.append(seed)
    assert different == []


def test_outliving_everything_still_ends() -> None:
    """Every prediction is one token: the worst case for a look-ahead."""

    class One:
        def predict(
            self, prompt_length: int, output_length: int, rng: np.random.Generator
        ) -> Prediction:
            return Prediction(1, 1, 1)

    evictions = 0
    for seed in range(60):
        instance = random_instance(seed)
        run = online.simulate(instance, "mc-sf", predictions=One(), max_rounds=20000)
        assert run.status in ("completed", "livelock")
        evictions += run.evictions
        assert run.memory_profile().max(initial=0) <= instance.memory_limit
    assert evictions > 0
