"""[J25] Section 5.2 in continuous time: workloads, runs, and a memory of runs already made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from instances import Workload
from online.batch_time import LLAMA_2_70B_2XA100
from online.pictures import Curve
from online.policy_interface.policy import make_policy
from online.simulation.run import Run
from online.simulation.simulator import simulate
from online.studies.reproduction.declaration import Setting

from .latency_table import PAPER_LINES, Line, conversation_workload

REQUESTS = 10_000
"""Conversations of a run, [J25] Section 5.2."""

ALGORITHMS: tuple[Line, ...] = PAPER_LINES
"""The eight of Figure 3 and Table 1."""

SYNTHETIC = (
    "Unlike the paper: synthetic lengths (lognormal, with its means and medians) and batch times "
    "from an affine fit"
)


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

    @classmethod
    def of(
        cls, policy: str, parameters: Mapping[str, float], n: int, demand: Demand, seed: int
    ) -> Case:
        """With the parameters in order, so that equal runs are equal cases."""
        return cls(policy, tuple(sorted(parameters.items())), n, demand.arrival_rate, seed)


@dataclass(frozen=True)
class Served:
    """What a run came to.

    Attributes
    ----------
    mean_latency : seconds; None for a run that did not serve every request.
    evictions : requests sent back.
    """

    mean_latency: float | None
    evictions: int


@lru_cache(maxsize=8)
def _all_requests(arrival_rate: float, seed: int) -> Workload:
    return conversation_workload(REQUESTS, arrival_rate, seed)


def workload(n: int, arrival_rate: float, seed: int) -> Workload:
    """The first ``n`` of the 10,000 conversations of ``seed``: sizes differ by what is added."""
    whole = _all_requests(arrival_rate, seed)
    return Workload(
        whole.arrival_times[:n],
        whole.prompt_lengths[:n],
        whole.output_lengths[:n],
        memory_limit=whole.memory_limit,
        name=f"synthetic-conversations[first {n}, rate={arrival_rate:g}, seed={seed}]",
    )


def round_limit(requests: int) -> int:
    """Rounds after which a run is given up.

    Twice as many and more as a run needs that clears little; one that clears all the time can go
    on for as good as ever without ever repeating itself.
    """
    return 3 * requests + 10_000


def run_case(case: Case) -> Run:
    """Simulate it, for at most `round_limit` rounds."""
    return simulate(
        workload(case.requests, case.arrival_rate, case.seed),
        make_policy(case.policy, **dict(case.parameters)),
        seed=case.seed,
        batch_time=LLAMA_2_70B_2XA100.batch_time,
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


def curve_of(points: Mapping[Any, Iterable[Served]]) -> Curve:
    """Mean latency with its interval at each x where every run was completed.

    Raises
    ------
    InvalidValueError: there is no such x.
    """
    samples: dict[float, list[float]] = {}
    for x, served in points.items():
        latencies = [each.mean_latency for each in served]
        if None not in latencies:
            samples[x] = [float(latency) for latency in latencies if latency is not None]
    return Curve.from_samples(samples)


def points_of(curve: Curve) -> dict[float, tuple[float, float, float]]:
    """Mean and both ends of its interval, by x."""
    columns = zip(curve.x, curve.mean, curve.low, curve.high, strict=True)
    return {x: (mean, low, high) for x, mean, low, high in columns}


def slope_and_fit(x: Iterable[float], y: Iterable[float]) -> tuple[float, float]:
    """Least-squares slope of y over x, and R^2 of that line (1 where y is constant)."""
    xs, ys = np.array(list(x), dtype=np.float64), np.array(list(y), dtype=np.float64)
    slope, intercept = np.polyfit(xs, ys, 1)
    rest = float(((ys - slope * xs - intercept) ** 2).sum())
    spread = float(((ys - ys.mean()) ** 2).sum())
    return float(slope), 1.0 - rest / spread if spread > 0 else 1.0
