"""Simulated ratios to H-SF beside the closed forms of [C25], as M and n grow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from instances import Instance, generate

from .policy import make_policy
from .predictions import IntervalPredictions
from .simulator import simulate
from .theory import a_max_two_point_ratio, a_min_ratio


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table.

    Attributes
    ----------
    policy, policy_parameters : registered name and parameters.
    generator, generator_parameters : what draws the instances; everything but n and M.
    closed_form : the limit of the ratio.
    """

    policy: str
    policy_parameters: Mapping[str, Any]
    generator: str
    generator_parameters: Mapping[str, Any]
    closed_form: float

    @property
    def label(self) -> str:
        """Policy, generator and their parameters."""
        settings = {**self.policy_parameters, **self.generator_parameters}
        shown = ",".join(f"{key}={value}" for key, value in settings.items())
        return f"{self.policy} on {self.generator}[{shown}]"


@dataclass(frozen=True, slots=True)
class SimulatedRatio:
    """Mean over seeds of policy total latency / H-SF total latency on the same instance.

    Attributes
    ----------
    memory_limit, requests : M and n.
    mean_ratio, standard_error : over ``seeds`` seeds; the error is 0 for one seed.
    evictions_per_request : mean.
    """

    case: Case
    memory_limit: int
    requests: int
    seeds: int
    mean_ratio: float
    standard_error: float
    evictions_per_request: float


def paper_cases() -> list[Case]:
    """A_min, as written and as analysed, on [C25] Section 5's laws; A_max on Thm 3.4's."""
    cases = []
    for overdue in ("grow", "reserve"):
        for lower, upper in ((2, 10), (4, 8)):
            shares = [float(upper), *[0.0] * (upper - lower - 1), float(lower)]
            cases.append(
                Case(
                    "a-min",
                    {"overdue": overdue},
                    "two-point",
                    {"lower": lower, "upper": upper},
                    float(a_min_ratio(shares, 0, lower)),
                )
            )
        for name, power in (("geometric", 0), ("linearly-weighted-geometric", 1)):
            shares = [k**power * 0.6 ** (k - 1) for k in range(1, 26)]
            cases.append(
                Case(
                    "a-min",
                    {"overdue": overdue},
                    name,
                    {"q": 0.6, "upper": 25},
                    float(a_min_ratio(shares, 0, 1)),
                )
            )
    for fit in ("rounds", "peaks"):
        for balance in (0.5, 2.5):
            limit = a_max_two_point_ratio(0.25, balance)
            cases.append(Case("a-max", {"fit": fit}, "a-max-trap", {"balance": balance}, limit))
    return cases


def instance_of(case: Case, memory_limit: int, batches: int, seed: int) -> Instance:
    """An instance of about ``batches`` M requests; the trap for A_max has M = 4 l^2."""
    parameters = dict(case.generator_parameters)
    if case.generator == "a-max-trap":
        lower = max(1, round((memory_limit / 4) ** 0.5))
        parameters |= {"lower": lower, "upper": 4 * lower, "scale": batches}
    else:
        parameters |= {"memory_limit": memory_limit, "n": batches * memory_limit}
    instance: Instance = generate(case.generator, seed=seed, **parameters)
    return instance


def simulated_ratios(
    cases: Sequence[Case], memory_limits: Sequence[int], batches: int, seeds: int
) -> Iterator[SimulatedRatio]:
    """One result for each case and memory limit, as it becomes known."""
    for case in cases:
        for memory_limit in memory_limits:
            ratios, evictions = [], []
            for seed in range(seeds):
                instance = instance_of(case, memory_limit, batches, seed)
                interval = IntervalPredictions(*instance.metadata["output_interval"])
                policy = make_policy(case.policy, **case.policy_parameters)
                run = simulate(instance, policy, seed=seed, predictions=interval)
                ratios.append(run.total_latency / simulate(instance, "h-sf").total_latency)
                evictions.append(run.evictions / len(instance))
            error = float(np.std(ratios, ddof=1) / np.sqrt(seeds)) if seeds > 1 else 0.0
            yield SimulatedRatio(
                case,
                instance.memory_limit,
                len(instance),
                seeds,
                float(np.mean(ratios)),
                error,
                float(np.mean(evictions)),
            )
