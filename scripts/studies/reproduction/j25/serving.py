"""[J25] Section 5.2 in continuous time: workloads, runs, and a memory of runs already made.

The paper draws 1,000 conversations of LMSYS-Chat-1M, lets them arrive at rate 50 a second, and
takes batch times from Vidur for Llama-2-70B on two A100s, M = 16,492. Two things differ here,
and seconds are therefore not comparable, only the order of the algorithms:

- Lengths, unless a reader gives others, are synthetic: log-normal with the mean and median word
  counts that [J25] Section 5.2 states (prompts 40.62 and 11, outputs 85.32 and 45), rounded up,
  drawn independently of each other. The data set is not part of this package; its prompts and
  outputs are correlated and its tails are another's.
- Batch times are the affine fit `llama-2-70b-2xa100`, off by 5 to 12 % from the profiles that
  the paper's simulator interpolates.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from instances import Workload, generate
from instances.batch_time import preset
from instances.generators.synthetic_traces import SERVED_OUTPUTS, SERVED_PROMPTS
from online.pictures import Curve
from online.policy_interface.specs import make_policy
from online.simulation.run import Run
from online.simulation.simulator import simulate
from studies.reproduction.conditions import OWN, Conditions
from studies.reproduction.declaration import Setting
from studies.reproduction.lengths import drawn_lengths


@dataclass(frozen=True, slots=True)
class Line:
    """An algorithm of [J25] Table 1 and the paper's seconds: average, std. dev., max, min."""

    label: str
    policy: str
    parameters: Mapping[str, Any]
    paper: tuple[float, float, float, float]


PAPER_LINES = (
    Line("MC-SF", "mc-sf", {}, (32.112, 0.354, 33.097, 31.505)),
    Line("MC-Benchmark", "mc-benchmark", {}, (46.472, 0.310, 47.135, 45.838)),
    Line("alpha=0.3", "alpha-protection", {"alpha": 0.3}, (51.933, 0.324, 52.532, 51.204)),
    Line("alpha=0.25", "alpha-protection", {"alpha": 0.25}, (51.046, 0.351, 51.757, 50.279)),
    Line(
        "alpha=0.2, beta=0.2",
        "alpha-beta-clearing",
        {"alpha": 0.2, "beta": 0.2},
        (50.401, 0.343, 51.035, 49.700),
    ),
    Line(
        "alpha=0.2, beta=0.1",
        "alpha-beta-clearing",
        {"alpha": 0.2, "beta": 0.1},
        (50.395, 0.360, 51.083, 49.586),
    ),
    Line(
        "alpha=0.1, beta=0.2",
        "alpha-beta-clearing",
        {"alpha": 0.1, "beta": 0.2},
        (53.393, 1.457, 56.357, 49.488),
    ),
    Line(
        "alpha=0.1, beta=0.1",
        "alpha-beta-clearing",
        {"alpha": 0.1, "beta": 0.1},
        (50.862, 0.946, 53.978, 49.086),
    ),
)


REQUESTS = 10_000
"""Conversations of a run, [J25] Section 5.2."""

ALGORITHMS: tuple[Line, ...] = PAPER_LINES
"""The eight of Figure 3 and Table 1."""

LONGEST = (SERVED_PROMPTS.maximum, SERVED_OUTPUTS.maximum)
"""Prompts and outputs, of a reader's file as of the synthetic lengths."""


def unlike_the_paper(conditions: Conditions) -> str:
    """The lengths and batch times of a run, where the paper has others."""
    lengths = conditions.conversations_told(
        "synthetic lengths (lognormal, with its means and medians)"
    )
    times = conditions.batch_time or "batch times from an affine fit"
    return f"Lengths and times: {lengths}; {times}"


@dataclass(frozen=True)
class Demand:
    """A case of [J25] Section 5.2: its name and its arrivals a second."""

    name: str
    arrival_rate: float


HIGH, LOW = Demand("high", 50.0), Demand("low", 10.0)


@dataclass(frozen=True)
class Case:
    """A run: policy, parameters, and the first ``requests`` conversations of a seed."""

    policy: str
    parameters: tuple[tuple[str, float], ...]
    requests: int
    arrival_rate: float
    seed: int
    conditions: Conditions = OWN

    @classmethod
    def of(
        cls,
        policy: str,
        parameters: Mapping[str, float],
        n: int,
        demand: Demand,
        seed: int,
        conditions: Conditions = OWN,
    ) -> Case:
        """Create a case with the parameters in order, so that equal runs are equal cases."""
        ordered = tuple(sorted(parameters.items()))
        return cls(policy, ordered, n, demand.arrival_rate, seed, conditions)


@dataclass(frozen=True)
class Served:
    """Result of a run.

    Attributes
    ----------
    mean_latency : float or None
        Seconds; None for a run that did not serve every request.
    evictions : int
        Requests sent back.
    """

    mean_latency: float | None
    evictions: int


def workload(n: int, arrival_rate: float, seed: int, conditions: Conditions = OWN) -> Workload:
    """The first ``n`` of the 10,000 conversations of ``seed``: sizes differ by what is added."""
    return conversation_workload(n, arrival_rate, seed, conditions, of=REQUESTS)


def round_limit(requests: int) -> int:
    """Rounds after which a run is given up.

    Twice as many and more as a run needs that clears little; one that clears all the time can go
    on for as good as ever without ever repeating itself.
    """
    return 3 * requests + 10_000


def run_case(case: Case) -> Run:
    """Simulate it, for at most `round_limit` rounds."""
    return simulate(
        workload(case.requests, case.arrival_rate, case.seed, case.conditions),
        make_policy(case.policy, **dict(case.parameters)),
        seed=case.seed,
        max_rounds=round_limit(case.requests),
    )


def serve(case: Case) -> Served:
    """Simulate it and keep the figures."""
    run = run_case(case)
    done = run.status == "completed"
    return Served(float(run.mean_latency) if done else None, run.evictions)


_SERVED: dict[Case, Served] = {}


def serve_all(setting: Setting, cases: Iterable[Case]) -> dict[Case, Served]:
    """`serve` of each, those of earlier figures of this process taken from memory."""
    wanted = list(dict.fromkeys(cases))
    missing = [case for case in wanted if case not in _SERVED]
    _SERVED.update(zip(missing, setting.map(serve, missing), strict=True))
    return {case: _SERVED[case] for case in wanted}


def curve_of(points: Mapping[Any, Iterable[Served]], least: int = 1) -> Curve | None:
    """Mean latency with its interval at each x where every run was completed.

    None where these are fewer than ``least``.
    """
    samples: dict[float, list[float]] = {}
    for x, served in points.items():
        latencies = [each.mean_latency for each in served]
        if None not in latencies:
            samples[x] = [float(latency) for latency in latencies if latency is not None]
    return Curve.from_samples(samples) if len(samples) >= least else None


def points_of(curve: Curve | None) -> dict[float, tuple[float, float, float]]:
    """Mean and both ends of its interval, by x."""
    if curve is None:
        return {}
    columns = zip(curve.x, curve.mean, curve.low, curve.high, strict=True)
    return {x: (mean, low, high) for x, mean, low, high in columns}


def slope_and_fit(x: Iterable[float], y: Iterable[float]) -> tuple[float, float]:
    """Least-squares slope of y over x, and R^2 of that line (1 where y is constant)."""
    xs, ys = np.array(list(x), dtype=np.float64), np.array(list(y), dtype=np.float64)
    slope, intercept = np.polyfit(xs, ys, 1)
    rest = float(((ys - slope * xs - intercept) ** 2).sum())
    spread = float(((ys - ys.mean()) ** 2).sum())
    return float(slope), 1.0 - rest / spread if spread > 0 else 1.0


@lru_cache(maxsize=8)
def _synthetic(count: int, arrival_rate: float, seed: int) -> Workload:
    drawn: Workload = generate("conversations", seed, n=count, rate=arrival_rate)
    return drawn


def conversation_workload(
    count: int,
    arrival_rate: float,
    seed: int,
    conditions: Conditions = OWN,
    *,
    of: int | None = None,
) -> Workload:
    """Conversations at Poisson arrivals, on the capacity of [J25]; arrivals are those of the seed.

    Parameters
    ----------
    count : int
        Requests.
    arrival_rate : float
        Mean arrivals a second.
    seed : int
        Of arrivals and lengths.
    conditions : Conditions, default OWN
        Other lengths or another capacity; arrivals stay.
    of : int, optional
        Of so many they are the first; default: of ``count``.

    Raises
    ------
    FileFormatError
        A reader's file holds too few of them.
    """
    whole = _synthetic(of or count, arrival_rate, seed)
    source = conditions.conversations("conversations")
    prompts, outputs = whole.prompt_lengths, whole.output_lengths
    if source != "conversations":
        rng = np.random.default_rng([seed, 25])
        # Of a file the first are the same whatever their number.
        drawn = len(whole) if isinstance(source, str) else count
        prompts, outputs = drawn_lengths(source, rng, drawn, LONGEST)
    kind = "synthetic-conversations" if isinstance(source, str) else "conversations"
    return Workload(
        whole.arrival_times[:count],
        prompts[:count],
        outputs[:count],
        memory_limit=conditions.memory_limit(whole.memory_limit),
        batch_time=conditions.seconds(preset("llama-2-70b-2xa100").batch_time),
        name=f"{kind}[n={count},rate={arrival_rate:g},seed={seed}]",
        metadata=whole.metadata if isinstance(source, str) else None,
    )
