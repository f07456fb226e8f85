"""Measured ratios on the papers' constructions, beside what the theorems say, as M grows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from instances import Instance, Request, generate
from online.policy_interface.policy import Policy
from online.policy_interface.predictions import IntervalPredictions
from online.policy_interface.specs import make_policy
from online.simulation.run import Run
from online.simulation.simulator import simulate
from online.theory.interval_ratios import a_max_ratio_lower_bound, a_random_ratio_bound
from studies.fits import PowerLaw, fit_power_law

Reference = Literal["optimum", "schedule", "h-sf"]

LARGEST_BOUND = 50_000
"""Requests up to which a lower bound on the optimum is computed beside a proof's schedule."""

MEMORY_LIMITS = (68, 100, 150, 220, 330, 470, 680, 1000, 1500, 2200)
LARGE_MEMORY_LIMITS = (1000, 1500, 2200, 3300, 4700, 6800, 10000, 15000, 22000, 33000, 47000)
"""Six to a decade, none chosen for its root: what rounding does shows in the fitted interval."""

ALPHA = 0.25
"""lower / upper of the constructions of [C25] in the tables."""


@dataclass(frozen=True)
class Construction:
    """A construction, the policy it is meant for, and what is claimed of the two.

    Attributes
    ----------
    theorem : str
        The source.
    generator, parameters : str, Mapping[str, Any]
        What is generated, besides its size.
    policy : str
        Registered name.
    reference : Reference
        What the total latency is divided by. ``"optimum"``: the exact optimum; ``"schedule"``: the
        better of the schedule of the theorem's proof and the policy's own, an upper bound, with the
        mean-busy-time bound below it; ``"h-sf"``: [C25]'s yardstick.
    claim : Callable[[int], float] or None
        The theorem's bound on the ratio as a function of M, or None.
    claimed_exponent : float or None
        Of M in the ratio, or None.
    is_upper_claim : bool
        Whether the theorem says "at most" and not "at least".
    size : Callable[[int], dict[str, Any]]
        The generator's parameters for a given M.
    intervals : bool
        Whether the policy knows outputs as intervals only.
    policy_parameters : Mapping[str, Any]
        Of the policy.
    memory_limits : tuple[int, ...]
        M of the tables, unless others are asked for.
    """

    theorem: str
    generator: str
    policy: str
    reference: Reference
    parameters: Mapping[str, Any] = field(default_factory=dict)
    claim: Callable[[int], float] | None = None
    claimed_exponent: float | None = None
    is_upper_claim: bool = False
    size: Callable[[int], dict[str, Any]] = lambda memory_limit: {"memory_limit": memory_limit}
    intervals: bool = False
    policy_parameters: Mapping[str, Any] = field(default_factory=dict)
    memory_limits: tuple[int, ...] = MEMORY_LIMITS

    @property
    def label(self) -> str:
        """Generator and parameters."""
        return _labelled(self.generator, self.parameters)

    @property
    def policy_label(self) -> str:
        """Policy and parameters."""
        return _labelled(self.policy, self.policy_parameters)

    def make_policy(self) -> Policy:
        """A fresh policy."""
        return make_policy(self.policy, **self.policy_parameters)


def _labelled(name: str, parameters: Mapping[str, Any]) -> str:
    shown = ",".join(f"{key}={value}" for key, value in parameters.items())
    return f"{name}[{shown}]" if shown else name


@dataclass(frozen=True)
class Measurement:
    """Means over seeds of one construction at one size.

    Attributes
    ----------
    memory_limit, requests : int
        M and n.
    adaptive : bool
        Whether the arrivals answered the policy.
    seeds : int
        Number of runs; 1 where nothing is random.
    total_latency, reference_upper : float
        Means; an upper bound on the optimum, or H-SF.
    ratio_lower, ratio_upper : float, float or None
        Means of total latency / upper and / lower bound; None without one.
    standard_error : float
        Of ``ratio_lower``; 0 for one seed.
    """

    construction: Construction
    memory_limit: int
    requests: int
    adaptive: bool
    seeds: int
    total_latency: float
    reference_upper: float
    ratio_lower: float
    ratio_upper: float | None
    standard_error: float

    @property
    def claim(self) -> float | None:
        """The theorem's bound at this M.

        None where arrivals answered a randomised policy: the theorem is about deterministic ones,
        and an adversary that sees coin tosses is more than it grants.
        """
        if self.adaptive and self.construction.make_policy().randomized:
            return None
        return self.construction.claim and self.construction.claim(self.memory_limit)

    @property
    def claim_holds(self) -> bool | None:
        """Tell whether the ratio is on the claimed side; None if the interval does not decide."""
        if self.claim is None:
            return None
        # Three standard errors: a mean is not held against a theorem for its noise.
        slack = 3 * self.standard_error
        upper = math.inf if self.ratio_upper is None else self.ratio_upper
        if self.construction.is_upper_claim:
            return (
                True
                if upper <= self.claim + slack
                else (False if self.ratio_lower > self.claim + slack else None)
            )
        if self.ratio_lower >= self.claim - slack:
            return True
        return False if upper < self.claim - slack else None


def paper_constructions(policies: Sequence[str] = ("mc-sf",)) -> list[Construction]:
    """Every construction that is parametrised by M; the adversary once for each policy."""
    found = [
        Construction(
            theorem="[J25] Theorem 4.1",
            generator="sqrt-n-adversary",
            policy=policy,
            reference="optimum",
            claim=lambda memory_limit: math.sqrt(memory_limit) / 28,
            claimed_exponent=0.5,
            memory_limits=LARGE_MEMORY_LIMITS,
        )
        for policy in policies
    ]
    for theorem, generator, policy, factor in (
        ("[W25] Theorem 1", "mc-sf-trap", "mc-sf", 2 / 13),
        ("[W25] Theorem EC.1", "mc-sf-total-trap", "mc-sf-total", 2 / 3),
    ):
        for sizes in ("printed", "balanced", "steep"):
            claim = _root_claim(factor) if sizes == "printed" else None
            exponent = 0.25 if sizes == "balanced" else 0.5
            found.append(
                Construction(
                    theorem, generator, policy, "schedule", {"sizes": sizes}, claim, exponent
                )
            )
    found.append(
        Construction(
            theorem="[J25] Theorem 4.3",
            generator="identical-requests",
            policy="mc-sf",
            reference="schedule",
            claim=lambda memory_limit: 4.0,
            is_upper_claim=True,
            size=lambda memory_limit: {"memory_limit": memory_limit, "n": 2 * memory_limit},
        )
    )
    for fit in ("rounds", "peaks"):
        found.append(
            Construction(
                theorem="[C25] Theorem 3.4",
                generator="a-max-trap",
                policy="a-max",
                reference="h-sf",
                claim=lambda memory_limit: a_max_ratio_lower_bound(ALPHA),
                size=_trap_lengths,
                intervals=True,
                policy_parameters={"fit": fit},
            )
        )
    found.append(
        Construction(
            theorem="[C25] Theorem 8.6",
            generator="two-point-worst-case",
            policy="a-random",
            reference="h-sf",
            parameters={"lower": 2, "upper": 8},
            claim=lambda memory_limit: float(a_random_ratio_bound(ALPHA)),
            is_upper_claim=True,
            size=lambda memory_limit: {"memory_limit": memory_limit, "scale": memory_limit},
        )
    )
    return found


def _root_claim(factor: float) -> Callable[[int], float]:
    return lambda memory_limit: factor * math.sqrt(memory_limit)


def _trap_lengths(memory_limit: int) -> dict[str, Any]:
    """Lengths l and 4 l with l u = 4 l^2 next to M."""
    lower = max(1, round(math.sqrt(memory_limit * ALPHA)))
    return {"lower": lower, "upper": round(lower / ALPHA), "scale": 20}


def measure(construction: Construction, memory_limit: int, seeds: int = 5) -> Measurement:
    """Run the policy on the construction of one size and bound what could have been done.

    Parameters
    ----------
    construction : Construction
        Whose ratio is measured.
    memory_limit : int
        M; `a-max-trap` takes the nearest M = l u it can have.
    seeds : int, default 5
        Runs of a randomised policy; a deterministic one is run once.
    """
    settings = {**construction.parameters, **construction.size(memory_limit)}
    count = seeds if construction.make_policy().randomized else 1
    runs, bounds = [], []
    for seed in range(count):
        run = _play(construction, generate(construction.generator, **settings), seed)
        runs.append(run)
        if run.instance is None:
            raise AssertionError("a run of the round model has an instance")
        upper, lower = _reference(construction.reference, run.instance)
        if construction.reference == "schedule":
            # The policy's own schedule is feasible too.
            upper = min(upper, run.schedule.total_latency)
        bounds.append((upper, lower))
    # Of the schedule without preemption, which is what the references are of.
    totals = np.array([float(run.schedule.total_latency) for run in runs])
    uppers = np.array([float(upper) for upper, _ in bounds])
    lowers = [lower for _, lower in bounds if lower is not None]
    ratios = totals / uppers
    return Measurement(
        construction,
        runs[0].memory_limit,
        len(runs[0].start_rounds),
        runs[0].adaptive,
        count,
        float(totals.mean()),
        float(uppers.mean()),
        float(ratios.mean()),
        float((totals / np.array(lowers)).mean()) if len(lowers) == count else None,
        float(ratios.std(ddof=1) / math.sqrt(count)) if count > 1 else 0.0,
    )


def _play(construction: Construction, arrivals: Any, seed: int) -> Run:
    predictions = None
    if construction.intervals:
        predictions = IntervalPredictions(*arrivals.metadata["output_interval"])
    return simulate(arrivals, construction.make_policy(), seed=seed, predictions=predictions)


def _reference(reference: Reference, instance: Instance) -> tuple[int, int | None]:
    """Upper and lower bound of what the total latency is divided by."""
    if reference == "h-sf":
        total = int(simulate(instance, "h-sf").total_latency)
        return total, total
    # Loaded here because the policies do without: hindsight comes after what runs online.
    from hindsight.prices.volume import mean_busy_time_bound
    from instances.adversaries.proof_schedules import class_batches, one_long_and_units

    if reference == "optimum":
        best = one_long_and_units(instance)
        _require_feasible(best.is_feasible)
        return best.total_latency, best.total_latency
    batches = class_batches(instance, _volume)
    _require_feasible(batches.is_feasible)
    upper = batches.total_latency
    if len(instance) > LARGEST_BOUND:
        return upper, None
    return upper, mean_busy_time_bound(instance)


def _volume(request: Request) -> int:
    return request.volume


def _require_feasible(feasible: bool) -> None:
    if not feasible:
        raise AssertionError("an explicit schedule is infeasible")


def measurements(
    constructions: Sequence[Construction],
    memory_limits: Sequence[int] | None = None,
    seeds: int = 5,
) -> Iterator[Measurement]:
    """Every construction at every size, its own where none are given, as it becomes known."""
    for construction in constructions:
        for memory_limit in memory_limits or construction.memory_limits:
            yield measure(construction, memory_limit, seeds)


@dataclass(frozen=True)
class Growth:
    """The exponent of M in one construction's ratios.

    Attributes
    ----------
    plain, corrected : PowerLaw or None
        Without and with the term for small sizes; None where there are too few sizes.
    """

    construction: Construction
    plain: PowerLaw | None
    corrected: PowerLaw | None


def growth_of(measured: Sequence[Measurement]) -> list[Growth]:
    """Exponents of the certified ratios (to the upper bound), a construction and policy each."""
    groups: dict[tuple[str, str], list[Measurement]] = {}
    for row in measured:
        groups.setdefault((row.construction.label, row.construction.policy_label), []).append(row)
    found = []
    for rows in groups.values():
        sizes = [float(row.memory_limit) for row in rows]
        ratios = [row.ratio_lower for row in rows]
        fits = [
            fit_power_law(sizes, ratios, corrected=corrected)
            if len(set(sizes)) > (3 if corrected else 2)
            else None
            for corrected in (False, True)
        ]
        found.append(Growth(rows[0].construction, fits[0], fits[1]))
    return found
