"""Is a tighter relaxation a better order? `sorted-lp` and `lp-swap` on either, seed by seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from instances import Instance, UnknownNameError, generate
from online.policies.w25.relaxation_orders import RELAXATIONS, ExpectedStarts
from online.policy_interface.specs import make_policy
from online.simulation.simulator import simulate

POLICIES = ("sorted-lp", "lp-swap")
REFERENCES = ("mc-sf", "smallest-volume-first")


@dataclass(frozen=True, slots=True)
class PolicyComparison:
    """Results of a policy under the plain and the strengthened relaxation, on equal instances.

    Attributes
    ----------
    family, requests, policy : str, int, str
        What was compared.
    plain, strengthened : tuple[float, ...]
        Total latency / certified bound of the strengthened relaxation of the whole instance, so
        never below the ratio to the optimum; a number for each seed.
    better, worse : int
        Seeds on which the strengthened one has smaller, or larger, total latency.
    """

    family: str
    requests: int
    policy: str
    plain: tuple[float, ...]
    strengthened: tuple[float, ...]
    better: int
    worse: int

    @property
    def difference(self) -> tuple[float, float]:
        """Mean of log(strengthened / plain) and its standard error, which is 0 for one seed."""
        logs = np.log(self.strengthened) - np.log(self.plain)
        if len(logs) < 2:
            return float(logs.mean()), 0.0
        return float(logs.mean()), float(logs.std(ddof=1) / np.sqrt(len(logs)))


@dataclass(frozen=True, slots=True)
class Reference:
    """Mean of total latency / certified bound of a policy that solves nothing."""

    family: str
    requests: int
    policy: str
    mean_ratio: float


def mixed_lengths(n: int, seed: int) -> Instance:
    """Everything at once, M = 100, one in five requests long.

    Those have s in 20..40 and o in 10..30, the others s in 1..5 and o in 1..8.
    """
    rng = np.random.default_rng(seed)
    long = rng.random(n) < 0.2
    prompts = np.where(long, rng.integers(20, 41, n), rng.integers(1, 6, n))
    outputs = np.where(long, rng.integers(10, 31, n), rng.integers(1, 9, n))
    return Instance.from_arrays(
        prompts, outputs, memory_limit=100, name=f"mixed-lengths[seed={seed},n={n}]"
    )


FAMILIES: dict[str, Callable[[int, int], Instance]] = {
    "arrival-model-1": lambda n, seed: generate("arrival-model-1", seed=seed, n=n),
    "arrival-model-2": lambda n, seed: generate("arrival-model-2", seed=seed, n=n),
    "mixed-lengths": mixed_lengths,
}
"""Instances by number of requests and seed."""


def compare_relaxations(
    families: Sequence[str], sizes: Sequence[int], seeds: int
) -> Iterator[PolicyComparison | Reference]:
    """For each family and size one `PolicyComparison` a policy, then the references.

    Raises
    ------
    UnknownNameError
        A family that does not exist.
    """
    for family in families:
        if family not in FAMILIES:
            raise UnknownNameError("family", family, sorted(FAMILIES))
    return _comparisons(families, sizes, seeds)


def _comparisons(
    families: Sequence[str], sizes: Sequence[int], seeds: int
) -> Iterator[PolicyComparison | Reference]:
    import hindsight

    for family in families:
        for n in sizes:
            drawn = [FAMILIES[family](n, seed) for seed in range(seeds)]
            relaxers = {name: _remembering(relax) for name, relax in RELAXATIONS.items()}
            bounds = [hindsight.relax_strengthened(i).certified_bound for i in drawn]
            for policy in POLICIES:
                totals = {
                    name: [
                        simulate(i, make_policy(policy, relaxation=relax)).total_latency
                        for i in drawn
                    ]
                    for name, relax in relaxers.items()
                }
                plain, strong = totals["plain"], totals["strengthened"]
                yield PolicyComparison(
                    family,
                    n,
                    policy,
                    tuple(x / bound for x, bound in zip(plain, bounds, strict=True)),
                    tuple(x / bound for x, bound in zip(strong, bounds, strict=True)),
                    sum(b < a for a, b in zip(plain, strong, strict=True)),
                    sum(b > a for a, b in zip(plain, strong, strict=True)),
                )
            for policy in REFERENCES:
                ratios = [
                    simulate(i, policy).total_latency / bound
                    for i, bound in zip(drawn, bounds, strict=True)
                ]
                yield Reference(family, n, policy, float(np.mean(ratios)))


def _remembering(
    relax: Callable[[Instance], ExpectedStarts],
) -> Callable[[Instance], ExpectedStarts]:
    """The same instance is relaxed once, whichever policy asks."""
    known: dict[str, ExpectedStarts] = {}

    def remembered(instance: Instance) -> ExpectedStarts:
        if instance.digest not in known:
            known[instance.digest] = relax(instance)
        return known[instance.digest]

    return remembered
