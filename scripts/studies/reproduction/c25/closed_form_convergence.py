"""Simulated ratios to H-SF beside the closed forms of [C25], as M and n / M grow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from instances import Instance, InvalidValueError, generate
from online.policy_interface.predictions import IntervalPredictions
from online.policy_interface.specs import make_policy
from online.simulation.simulator import simulate
from online.theory.fluid_limit import Rule
from online.theory.interval_ratios import (
    a_ell_two_point_ratio,
    a_max_two_point_ratio,
    a_min_ratio,
    h_sf_latency,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRAP_ALPHA = 0.25
"""lower / upper in A_max's instances, whose memory limit is lower x upper."""


@dataclass(frozen=True, slots=True)
class Case:
    """A line of the table.

    Attributes
    ----------
    policy, policy_parameters : str, Mapping[str, Any]
        Registered name and parameters.
    generator, generator_parameters : str, Mapping[str, Any]
        What draws the instances; everything but n and M.
    closed_form : float
        The limit of the ratio.
    rule : Rule
        The policy's name in `online.theory.fluid_latency`.
    lower, shares : int, tuple[float, ...]
        ``shares[j]`` is the probability of output length ``lower + j``.
    """

    policy: str
    policy_parameters: Mapping[str, Any]
    generator: str
    generator_parameters: Mapping[str, Any]
    closed_form: float
    rule: Rule
    lower: int
    shares: tuple[float, ...]

    @property
    def label(self) -> str:
        """Policy, generator and their parameters."""
        settings = {**self.policy_parameters, **self.generator_parameters}
        shown = ",".join(f"{key}={value}" for key, value in settings.items())
        return f"{self.policy} on {self.generator}[{shown}]"

    @property
    def longest(self) -> int:
        """The greatest output length."""
        return self.lower + len(self.shares) - 1


@dataclass(frozen=True, slots=True)
class SimulatedRatio:
    """Policy total latency / H-SF total latency on the same instance, over seeds 0, 1, ..

    Attributes
    ----------
    memory_limit, batches : int
        M, and n / M as asked for.
    requests : int
        n.
    ratios : tuple[float, ...]
        One for each seed.
    policy_over_formula, h_sf_over_formula : float
        Mean of each total latency over what the proof of [C25] Lemma 4.6 says it is, closed form x
        `online.theory.h_sf_latency` x n^2 / (2 M).
    evictions_per_request : float
        Mean.
    """

    case: Case
    memory_limit: int
    batches: int
    requests: int
    ratios: tuple[float, ...]
    policy_over_formula: float
    h_sf_over_formula: float
    evictions_per_request: float

    @property
    def mean_ratio(self) -> float:
        """Over seeds."""
        return float(np.mean(self.ratios))

    @property
    def standard_error(self) -> float:
        """Return the standard error of the mean; 0 for one seed."""
        if len(self.ratios) < 2:
            return 0.0
        return float(np.std(self.ratios, ddof=1) / np.sqrt(len(self.ratios)))


@dataclass(frozen=True, slots=True)
class Extrapolation:
    """The limit c of ratio = c + a / M + b M / n, by least squares over all seeds.

    Attributes
    ----------
    limit : float
        c.
    low, high : float
        c -+ 1.96 standard errors, from the spread of the seeds about their means; NaN where some
        (M, n) has one seed only. They tell the noise, not whether the form of the fit is right.
    """

    limit: float
    low: float
    high: float


def two_point_case(
    policy: str, parameters: Mapping[str, Any], rule: Rule, lower: int, upper: int
) -> Case:
    """x_l / x_u = upper / lower, where the bound of [C25] Theorem 5.1 is attained."""
    shares = [upper / (lower + upper), *[0.0] * (upper - lower - 1), lower / (lower + upper)]
    if policy == "a-ell":
        closed_form = a_ell_two_point_ratio(lower / upper, upper / lower)
    else:
        closed_form = float(a_min_ratio(shares, 0, lower))
    lengths = {"lower": lower, "upper": upper}
    return Case(policy, parameters, "two-point", lengths, closed_form, rule, lower, tuple(shares))


def geometric_case(
    parameters: Mapping[str, Any], rule: Rule, q: float, upper: int, *, linear: bool
) -> Case:
    """A_min on P(o = k) ~ q^(k-1), or k q^(k-1), for k up to ``upper``."""
    weights = np.array([(k if linear else 1) * q ** (k - 1) for k in range(1, upper + 1)])
    shares = tuple((weights / weights.sum()).tolist())
    name = "linearly-weighted-geometric" if linear else "geometric"
    closed_form = float(a_min_ratio(shares, 0, 1))
    return Case("a-min", parameters, name, {"q": q, "upper": upper}, closed_form, rule, 1, shares)


def trap_case(fit: str, rule: Rule, balance: float) -> Case:
    """A_max on the instance of [C25] Theorem 3.4; its lengths grow with M, so 1 stands for l."""
    upper = round(1 / TRAP_ALPHA)
    shorts = balance * upper / (balance * upper + 1)
    shares = (shorts, *[0.0] * (upper - 2), 1 - shorts)
    limit = a_max_two_point_ratio(TRAP_ALPHA, balance)
    return Case("a-max", {"fit": fit}, "a-max-trap", {"balance": balance}, limit, rule, 1, shares)


def paper_cases() -> list[Case]:
    """A_min, as written and as analysed, and A_l on [C25] Section 5's laws; A_max on Theorem 3.4's.

    The balances of A_max's instance are the theorem's and, nearly, the worst.
    """
    cases = []
    pairs = ((1, 5), (1, 20), (2, 10), (4, 8))
    decays = ((0.5, 12, 16), (0.8, 30, 45), (0.95, 100, 140))
    rules: tuple[tuple[str, Rule], ...] = (("grow", "a-min"), ("reserve", "a-min-reserve"))
    for overdue, rule in rules:
        parameters = {"overdue": overdue}
        cases += [two_point_case("a-min", parameters, rule, *pair) for pair in pairs]
        for q, upper, linear_upper in decays:
            cases.append(geometric_case(parameters, rule, q, upper, linear=False))
            cases.append(geometric_case(parameters, rule, q, linear_upper, linear=True))
    cases += [two_point_case("a-ell", {}, "a-ell", *pair) for pair in pairs]
    fits: tuple[tuple[str, Rule], ...] = (("rounds", "a-max"), ("peaks", "a-max-peaks"))
    cases += [trap_case(fit, rule, balance) for fit, rule in fits for balance in (0.5, 2.5)]
    return cases


def instance_of(case: Case, memory_limit: int, batches: int, seed: int) -> Instance:
    """An instance of about ``batches`` M requests; the trap for A_max has M = 4 l^2."""
    parameters = dict(case.generator_parameters)
    if case.generator == "a-max-trap":
        lower = max(1, round((memory_limit * TRAP_ALPHA) ** 0.5))
        upper = round(lower / TRAP_ALPHA)
        per_scale = parameters["balance"] * upper + lower
        scale = max(1, round(batches * lower * upper / per_scale))
        parameters |= {"lower": lower, "upper": upper, "scale": scale}
    else:
        parameters |= {"memory_limit": memory_limit, "n": batches * memory_limit}
    instance: Instance = generate(case.generator, seed=seed, **parameters)
    return instance


def simulated_ratios(
    cases: Sequence[Case],
    memory_limits: Sequence[int],
    batches: Sequence[int],
    seeds: int,
    largest: int | None = None,
) -> Iterator[SimulatedRatio]:
    """Yield a result for each case, memory limit and n / M, as it becomes known.

    Left out are memory limits that do not hold two requests of the greatest length, and instances
    of more than ``largest`` requests.
    """
    h_sf: dict[str, float] = {}
    for case in cases:
        trap = case.generator == "a-max-trap"
        for memory_limit in memory_limits:
            for count in batches:
                too_large = largest is not None and count * memory_limit > largest
                if too_large or (not trap and memory_limit < 2 * case.longest):
                    continue
                yield _simulated_ratio(case, memory_limit, count, seeds, h_sf)


def _simulated_ratio(
    case: Case, memory_limit: int, batches: int, seeds: int, h_sf: dict[str, float]
) -> SimulatedRatio:
    ratios, policy_shares, h_sf_shares, evictions = [], [], [], []
    for seed in range(seeds):
        instance = instance_of(case, memory_limit, batches, seed)
        if instance.digest not in h_sf:
            h_sf[instance.digest] = simulate(instance, "h-sf").total_latency
        shortest = h_sf[instance.digest]
        interval = IntervalPredictions(*instance.metadata["output_interval"])
        policy = make_policy(case.policy, **case.policy_parameters)
        run = simulate(instance, policy, seed=seed, predictions=interval)
        formula = _h_sf_formula(case, instance)
        ratios.append(run.total_latency / shortest)
        policy_shares.append(run.total_latency / (case.closed_form * formula))
        h_sf_shares.append(shortest / formula)
        evictions.append(run.evictions / len(instance))
    return SimulatedRatio(
        case,
        instance.memory_limit,
        batches,
        len(instance),
        tuple(ratios),
        float(np.mean(policy_shares)),
        float(np.mean(h_sf_shares)),
        float(np.mean(evictions)),
    )


def _h_sf_formula(case: Case, instance: Instance) -> float:
    unit = int(instance.output_lengths.min()) if case.generator == "a-max-trap" else 1
    latency = h_sf_latency(case.shares, 0, case.lower) * unit * unit
    return latency * len(instance) ** 2 / (2 * instance.memory_limit)


def extrapolate(results: Sequence[SimulatedRatio]) -> Extrapolation:
    """The limit for M and n / M together, from the results of one case.

    Raises
    ------
    InvalidValueError
        Fewer than three different (M, n), or all with the same M or the same M / n.
    """
    design = np.array([[1, 1 / r.memory_limit, r.memory_limit / r.requests] for r in results])
    if len(results) < 3 or np.linalg.matrix_rank(design, tol=1e-6) < 3:
        raise InvalidValueError(None, "results", len(results), "do not determine a limit")
    # Equal numbers of seeds everywhere: fitting the means is fitting everything.
    weights = np.linalg.pinv(design)[0]
    limit = float(weights @ [r.mean_ratio for r in results])
    if min(len(r.ratios) for r in results) < 2:
        return Extrapolation(limit, float("nan"), float("nan"))
    error = float(np.hypot.reduce(weights * [r.standard_error for r in results]))
    return Extrapolation(limit, limit - 1.96 * error, limit + 1.96 * error)


def by_case(results: Iterable[SimulatedRatio]) -> dict[str, list[SimulatedRatio]]:
    """Results under the labels of their cases, in order."""
    groups: dict[str, list[SimulatedRatio]] = {}
    for result in results:
        groups.setdefault(result.case.label, []).append(result)
    return groups


def plot_convergence(
    ax: Axes, results: Sequence[SimulatedRatio], limit: Extrapolation | None = None
) -> None:
    """Ratios of one case over M, a line for each n / M; closed form and extrapolated limit.

    Error bars are standard errors over seeds; the band is the limit -+ 1.96 of its standard errors.
    """
    for batches in sorted({r.batches for r in results}):
        group = [r for r in results if r.batches == batches]
        ax.errorbar(
            [r.memory_limit for r in group],
            [r.mean_ratio for r in group],
            yerr=[r.standard_error for r in group],
            marker="o",
            markersize=3,
            capsize=3,
            label=f"simulated, n = {batches} M",
        )
    if limit is not None:
        ax.axhspan(limit.low, limit.high, color="tab:green", alpha=0.25)
        ax.axhline(limit.limit, color="tab:green", label="extrapolated")
    ax.axhline(results[0].case.closed_form, color="black", linestyle="--", label="closed form")
    ax.set_xscale("log")
    ax.set_title(results[0].case.label, fontsize=8)
    ax.set_xlabel("M")
    ax.set_ylabel("ratio to H-SF")
