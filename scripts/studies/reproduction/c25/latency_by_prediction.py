"""[C25] Figures 5 to 7: mean latency of A_max and A_min beside H-SF, by what is predicted.

All requests are there at the beginning ([C25] Section 2). A sample of 2,000 synthetic conversations
is drawn for each seed, and a random subset of it simulated in continuous time. Batch times are the
affine fit `llama-2-70b-2xa100` in place of the linear predictor of the paper's simulator, and M is
its 16,492: [C25] does not state one, and uses the hardware of [J25], which does. Because it is not
stated, the largest size is run with `LARGER` times as much as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from instances import Workload
from instances.arrays import FloatArray
from instances.batch_time import preset
from online.policy_interface.predictions import (
    BucketPredictions,
    ExactPredictions,
    IntervalPredictions,
    PredictionModel,
    ProportionalPredictions,
)
from online.policy_interface.specs import make_policy
from online.simulation.simulator import simulate
from studies.reproduction.conditions import Conditions
from studies.reproduction.declaration import Setting
from studies.reproduction.lengths import Source

from .lengths import CONVERSATIONS, conversations

ROUGH = IntervalPredictions(1, 1000)
CLASSES = BucketPredictions()
SPREADS = (0.1, 0.95, 0.99)
AROUND = tuple(ProportionalPredictions(x) for x in SPREADS)

SIZES = tuple(range(200, 2001, 200))
SEEDS = 5
QUICK_SIZES = (100, 200)
QUICK_SEEDS = 2
OWN_MEMORY = preset("llama-2-70b-2xa100").memory_limit
LARGER = 4
"""Memory of a check, in units of M: about what two A100s of 80 GB have left beside the weights."""

H_SF, A_MIN, A_MIN_RESERVE, A_MAX = "H-SF", "A_min", "A_min, overdue held back", "A_max"
POLICIES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    H_SF: ("h-sf", {}),
    A_MIN: ("a-min", {}),
    A_MIN_RESERVE: ("a-min", {"overdue": "reserve"}),
    A_MAX: ("a-max", {}),
}


@dataclass(frozen=True)
class Trial:
    """A simulation to run.

    Attributes
    ----------
    policy : str
        A key of `POLICIES`; ``"H-SF"`` is told the truth whatever the predictions.
    lengths : Source
        A law, or a reader's file.
    memory : int
        M, tokens.
    seed : int
        Of sample, subset and policy.
    batch_time : str or None
        Another one than `llama-2-70b-2xa100`'s.
    """

    policy: str
    predictions: PredictionModel
    lengths: Source
    memory: int
    requests: int
    seed: int
    batch_time: str | None


@cache
def _subset(lengths: Source, memory: int, requests: int, seed: int) -> Workload:
    prompts, outputs = conversations(lengths, seed)
    rng = np.random.default_rng([seed, requests])
    chosen = rng.choice(CONVERSATIONS, requests, replace=False)
    return Workload(
        np.zeros(requests),
        prompts[chosen],
        outputs[chosen],
        memory_limit=memory,
    )


@cache
def simulated(trial: Trial) -> tuple[float, int]:
    """Mean latency in seconds, and evictions."""
    name, parameters = POLICIES[trial.policy]
    time = Conditions(batch_time=trial.batch_time).seconds(preset("llama-2-70b-2xa100").batch_time)
    workload = _subset(trial.lengths, trial.memory, trial.requests, trial.seed)
    run = simulate(
        workload.with_batch_time(time),
        make_policy(name, **parameters),
        seed=trial.seed,
        predictions=trial.predictions,
    )
    return run.mean_latency, run.evictions


Place = tuple[Source, int, int]
"""Where lengths come from, M, number of requests."""


@dataclass(frozen=True)
class Latencies:
    """Mean latencies under one kind of prediction.

    Attributes
    ----------
    sizes : tuple[int, ...]
        Numbers of requests.
    seconds : Mapping[str, float64 array]
        By policy, shape (sizes, seeds).
    other_law : Mapping[str, float64 array]
        By policy, at the largest size with lengths of the law ``three-moments``, shape (seeds,).
    more_memory : Mapping[str, float64 array]
        The same with `LARGER` times the memory and the usual lengths.
    rows : Sequence[tuple[str, str, int, int, int, float, int]]
        Policy, law, memory limit, requests, seed, seconds, evictions of each simulation.
    """

    predictions: PredictionModel
    sizes: tuple[int, ...]
    seconds: Mapping[str, FloatArray]
    other_law: Mapping[str, FloatArray]
    more_memory: Mapping[str, FloatArray]
    rows: Sequence[tuple[str, str, int, int, int, float, int]]

    def ratios(self, policy: str) -> FloatArray:
        """Mean over the seeds of the latency over H-SF's on the same requests, shape (sizes,)."""
        mean: FloatArray = (self.seconds[policy] / self.seconds[H_SF]).mean(axis=1)
        return mean


def latencies(setting: Setting, models: Sequence[PredictionModel]) -> list[Latencies]:
    """Every policy at every size under each of ``models``."""
    sizes, seeds = (QUICK_SIZES, QUICK_SEEDS) if setting.quick else (SIZES, SEEDS)
    given = setting.conditions
    source, limit = given.conversations("lmsys-like"), given.memory_limit(OWN_MEMORY)
    usual: list[Place] = [(source, limit, size) for size in sizes]
    law: Place = ("three-moments", limit, sizes[-1])
    memory: Place = (source, LARGER * limit, sizes[-1])
    places = [*usual, law, memory]

    def trial(policy: str, model: PredictionModel, place: Place, seed: int) -> Trial:
        # The same simulation whatever is predicted: run once.
        told = ExactPredictions() if policy == H_SF else model
        return Trial(policy, told, *place, seed, given.batch_time)

    trials = [
        trial(policy, model, place, seed)
        for model in models
        for policy in POLICIES
        for place in places
        for seed in range(seeds)
    ]
    different = list(dict.fromkeys(trials))
    found = dict(zip(different, setting.map(simulated, different), strict=True))

    def seconds(policy: str, model: PredictionModel, place: Place) -> list[float]:
        return [found[trial(policy, model, place, seed)][0] for seed in range(seeds)]

    def at(model: PredictionModel, place: Place) -> dict[str, FloatArray]:
        return {policy: np.array(seconds(policy, model, place)) for policy in POLICIES}

    def rows(model: PredictionModel) -> Iterator[tuple[str, str, int, int, int, float, int]]:
        for policy in POLICIES:
            for place in places:
                kind = place[0] if isinstance(place[0], str) else "file"
                for seed in range(seeds):
                    result = found[trial(policy, model, place, seed)]
                    yield policy, kind, *place[1:], seed, *result

    return [
        Latencies(
            model,
            sizes,
            {
                policy: np.array([seconds(policy, model, place) for place in usual])
                for policy in POLICIES
            },
            at(model, law),
            at(model, memory),
            list(rows(model)),
        )
        for model in models
    ]
