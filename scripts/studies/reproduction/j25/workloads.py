"""[J25] Section 5.2: workloads of conversations in continuous time, and runs of its policies.

The paper draws 1,000 conversations of LMSYS-Chat-1M at 50 arrivals per second. It takes batch times
from the simulator Vidur for Llama-2-70B on two A100s, with M = 16,492. Seconds here differ from
those of the paper for two reasons:

- Lengths are log-normal, unless a user gives others. They have the mean and median numbers of words
  that [J25] Section 5.2 states, are rounded up, and prompts are independent of outputs.
- Batch times are the affine fit `llama-2-70b-2xa100`. It differs by 5 to 12 % from the profiles
  that the simulator of the paper interpolates.
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
"""Policies of Figure 3 and Table 1, with average, deviation, maximum and minimum in the paper."""

REQUESTS = 10_000
"""Number of conversations of a run in [J25] Section 5.2."""

LONGEST = (SERVED_PROMPTS.maximum, SERVED_OUTPUTS.maximum)
HIGH, LOW = 50.0, 10.0
"""Arrivals per second with high and with low demand."""


@lru_cache(maxsize=8)
def synthetic(count: int, rate: float, seed: int) -> Workload:
    """Return a workload of synthetic conversations by the generator."""
    drawn: Workload = generate("conversations", seed, n=count, rate=rate)
    return drawn


def workload(n: int, rate: float, seed: int, given: Given, of: int = REQUESTS) -> Workload:
    """Return the first ``n`` of the ``of`` conversations of a seed.

    So a larger size has the requests of a smaller one and further ones. Conditions in ``given``
    change lengths and memory, but not the arrival times.
    """
    whole = synthetic(of, rate, seed)
    source = conversations_of(given, "conversations")
    prompts, outputs = whole.prompt_lengths, whole.output_lengths
    if source != "conversations":
        rng = np.random.default_rng([seed, 25])
        # From a file, the first lengths are the same for every number of draws.
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
    """Run a policy. The limit on rounds is more than a policy with few evictions needs."""
    problem = workload(n, rate, seed, given)
    limit = 3 * n + 10_000
    return simulate(problem, make_policy(policy), seed=seed, max_rounds=limit)
