"""[J25] Section 5.2: conversations in continuous time, and the runs of its algorithms.

The paper draws 1,000 conversations of LMSYS-Chat-1M at 50 arrivals per second, and takes batch
times from Vidur for Llama-2-70B on two A100s, M = 16,492. Seconds are not comparable, because:

- Lengths, unless a reader gives others, are log-normal with the mean and median word counts that
  [J25] Section 5.2 states, rounded up, prompts independent of outputs.
- Batch times are the affine fit `llama-2-70b-2xa100`, off by 5 to 12 % from the profiles that the
  paper's simulator interpolates.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from instances import Workload, generate
from instances.generators.synthetic_traces import SERVED_OUTPUTS, SERVED_PROMPTS
from online.policy_interface.specs import make_policy
from online.simulation.run import Run
from online.simulation.simulator import simulate
from studies.reproduction.lengths import Given, conversations_of, drawn_lengths, seconds_of

ALGORITHMS = {
    "MC-SF": ("mc-sf", (32.112, 0.354, 33.097, 31.505)),
    "MC-Benchmark": ("mc-benchmark", (46.472, 0.310, 47.135, 45.838)),
    "alpha=0.3": ("alpha-protection(alpha=0.3)", (51.933, 0.324, 52.532, 51.204)),
    "alpha=0.25": ("alpha-protection(alpha=0.25)", (51.046, 0.351, 51.757, 50.279)),
    "alpha=0.2, beta=0.2": (
        "alpha-beta-clearing(alpha=0.2, beta=0.2)",
        (50.401, 0.343, 51.035, 49.700),
    ),
    "alpha=0.2, beta=0.1": (
        "alpha-beta-clearing(alpha=0.2, beta=0.1)",
        (50.395, 0.360, 51.083, 49.586),
    ),
    "alpha=0.1, beta=0.2": (
        "alpha-beta-clearing(alpha=0.1, beta=0.2)",
        (53.393, 1.457, 56.357, 49.488),
    ),
    "alpha=0.1, beta=0.1": (
        "alpha-beta-clearing(alpha=0.1, beta=0.1)",
        (50.862, 0.946, 53.978, 49.086),
    ),
}
"""Policies of Figure 3 and Table 1, with the paper's average, deviation, maximum and minimum."""

REQUESTS = 10_000
"""Conversations of a run, [J25] Section 5.2."""

LONGEST = (SERVED_PROMPTS.maximum, SERVED_OUTPUTS.maximum)
HIGH, LOW = 50.0, 10.0
"""Arrivals per second."""


@lru_cache(maxsize=8)
def synthetic(count: int, rate: float, seed: int) -> Workload:
    """Return conversations of the generator."""
    drawn: Workload = generate("conversations", seed, n=count, rate=rate)
    return drawn


def workload(n: int, rate: float, seed: int, given: Given, of: int = REQUESTS) -> Workload:
    """Return the first ``n`` of the ``of`` conversations of a seed: sizes differ by what is added.

    Overrides change lengths and capacity; the arrivals stay those of the seed.
    """
    whole = synthetic(of, rate, seed)
    source = conversations_of(given, "conversations")
    prompts, outputs = whole.prompt_lengths, whole.output_lengths
    if source != "conversations":
        rng = np.random.default_rng([seed, 25])
        # Of a file the first are the same whatever their number.
        drawn = len(whole) if isinstance(source, str) else n
        prompts, outputs = drawn_lengths(source, rng, drawn, LONGEST)
    return Workload(
        whole.arrival_times[:n],
        prompts[:n],
        outputs[:n],
        memory_limit=given.get("memory", whole.memory_limit),
        batch_time=seconds_of(given),
    )


def play(policy: str, n: int, rate: float, seed: int, given: Given) -> Run:
    """Run a policy for at most as many rounds as one that clears little needs, and more."""
    problem = workload(n, rate, seed, given)
    limit = 3 * n + 10_000
    return simulate(problem, make_policy(policy), seed=seed, max_rounds=limit)
