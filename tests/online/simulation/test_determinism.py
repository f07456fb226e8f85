"""Same seed, same run, bit for bit, whatever ran before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import online
from instances import Instance, generate
from online import Decision, Policy, Prediction

NEED_A_SOLVER = {"sorted-lp", "lp-swap"}


class Coin(Policy):
    """Starts a random waiting request whenever nothing runs."""

    name = "coin"
    randomized = True

    def reset(self, setup: Any) -> None:
        self.rng = setup.rng
        self.waiting: list[int] = []
        self.extra = getattr(self, "extra_draws", 0)

    def arrive(self, requests: Sequence[Any], state: Any) -> None:
        self.waiting.extend(q.index for q in requests)

    def decide(self, state: Any) -> Decision:
        self.rng.random(self.extra)
        if state.running or not self.waiting:
            return Decision()
        return Decision(start=[self.waiting.pop(int(self.rng.integers(len(self.waiting))))])


class Noise:
    def __init__(self) -> None:
        self.said: list[tuple[int, int]] = []

    def predict(
        self, prompt_length: int, output_length: int, rng: np.random.Generator
    ) -> Prediction:
        upper = output_length + int(rng.integers(0, 5))
        self.said.append((output_length, upper))
        return Prediction(1, output_length, upper)


def trace(run: online.Run) -> tuple[Any, ...]:
    return (
        run.start_rounds.tolist(),
        run.completion_rounds.tolist(),
        run.attempts.start_round.tolist(),
        run.stretches.memory.tolist(),
        run.decisions,
    )


def test_same_seed_same_run() -> None:
    instance = generate("arrival-model-2", seed=3)
    policy = Coin()
    first = online.simulate(instance, policy, seed=11)
    np.random.default_rng(0).random(100)
    online.simulate(generate("arrival-model-1", seed=1), policy, seed=2)
    online.simulate(instance, "mc-sf", seed=5)
    second = online.simulate(instance, policy, seed=11)
    third = online.simulate(instance, Coin(), seed=11)
    assert trace(first) == trace(second) == trace(third)
    assert trace(online.simulate(instance, Coin(), seed=12)) != trace(first)


def test_a_policy_object_can_be_used_again() -> None:
    for name in online.policy_names():
        policy = online.make_policy(name)
        # Each linear program of full size takes seconds.
        size = {"n": 12} if name in NEED_A_SOLVER else {}
        instance = generate("arrival-model-2", seed=7, **size)
        first = trace(online.simulate(instance, policy))
        online.simulate(generate("arrival-model-1", seed=2, **size), policy)
        assert trace(online.simulate(instance, policy)) == first


def test_a_policy_that_draws_more_changes_no_prediction() -> None:
    instance = generate("arrival-model-1", seed=4)
    said = []
    for extra in (0, 7):
        noise, policy = Noise(), Coin()
        policy.extra_draws = extra  # type: ignore[attr-defined]
        online.simulate(instance, policy, seed=3, predictions=noise)
        said.append(noise.said)
    assert said[0] == said[1]


def test_order_of_equal_arrivals_is_the_instances() -> None:
    a = Instance.from_arrays([1, 1, 1], [5, 5, 5], [3, 3, 3], memory_limit=6)
    assert online.simulate(a, "mc-sf").start_rounds.tolist() == sorted(
        online.simulate(a, "mc-sf").start_rounds.tolist()
    )


def test_generators_depend_on_their_seed_alone() -> None:
    first = generate("arrival-model-2", seed=9)
    generate("arrival-model-1", seed=9)
    assert generate("arrival-model-2", seed=9).digest == first.digest
    assert generate("arrival-model-2", seed=10).digest != first.digest
