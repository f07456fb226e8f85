"""Ratios of policies on the papers' adversarial constructions, compared with the theorems."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import _checkout  # noqa: F401
import numpy as np
import pandas as pd
import typer

from hindsight.prices.volume import mean_busy_time_bound
from instances import Instance, InvalidValueError, generate
from instances.adversaries.proof_schedules import class_batches, one_long_and_units
from instances.files import write_atomically
from instances.progress import progress_bar
from online.commands.console import check_output, run, say, writing
from online.policy_interface.predictions import IntervalPredictions
from online.policy_interface.specs import PolicySpec, make_policy
from online.simulation.simulator import simulate
from online.theory.interval_ratios import a_max_ratio_lower_bound, a_random_ratio_bound
from studies.fits import fit_power_law

SIZES = (68, 100, 150, 220, 330, 470, 680, 1000, 1500, 2200)
LARGE_SIZES = (1000, 1500, 2200, 3300, 4700, 6800, 10000, 15000, 22000, 33000, 47000)
"""Values of M, six per decade. They are not chosen as squares, so the fit shows rounding too."""

LARGEST_BOUND = 50_000
"""Largest number of requests for which a lower bound on the optimum is computed."""

ALPHA = 0.25
"""alpha = lower / upper, the quotient of output lengths in the constructions of [C25]."""

COLUMNS = ("theorem", "construction", "policy", "M", "n", "ratio", "upper", "error", "claim")


@dataclass(frozen=True)
class Construction:
    """A family of adversarial instances, the policy that it is against, and the theorem about it.

    Attributes
    ----------
    theorem, generator, policy : str
        The theorem, the registered generator, and the policy with its parameters.
    reference : str
        The number by which the policy's total latency is divided. ``"optimum"``: the exact optimum.
        ``"proof"``: the total latency of the schedule in the proof, or of the policy if that is
        less. ``"h-sf"``: the total latency of H-SF, with which [C25] compares.
    claim : Callable[[int], float]
        Bound of the theorem on the ratio as a function of M. NaN if the theorem has none.
    is_upper : bool
        Whether the bound is an upper bound ("at most") and not a lower bound.
    size : Callable[[int], dict[str, Any]]
        Function that returns parameters of the generator for a memory limit M.
    """

    theorem: str
    generator: str
    policy: str
    reference: str
    claim: Callable[[int], float] = lambda memory_limit: math.nan
    is_upper: bool = False
    size: Callable[..., dict[str, Any]] = dict
    name: str = ""

    @property
    def label(self) -> str:
        """Name of the generator, with what distinguishes this construction from others of it."""
        return self.name or self.generator


def constructions(policies: Sequence[str] = ("mc-sf",)) -> list[Construction]:
    """Return all constructions. The adaptive adversary occurs once for each of ``policies``."""
    found = [
        Construction(
            "[J25] Theorem 4.1", "sqrt-n-adversary", one, "optimum", lambda m: math.sqrt(m) / 28
        )
        for one in policies
    ]
    for theorem, trap, policy, factor in (
        ("[W25] Theorem 1", "mc-sf-trap", "mc-sf", 2 / 13),
        ("[W25] Theorem EC.1", "mc-sf-total-trap", "mc-sf-total", 2 / 3),
    ):
        for sizes in ("printed", "balanced", "steep"):
            # The theorem makes its claim only for the sizes that the paper prints.
            claim = partial(root, factor if sizes == "printed" else math.nan)
            size: Callable[..., dict[str, Any]] = partial(dict, sizes=sizes)
            name = f"{trap}(sizes={sizes})"
            found.append(Construction(theorem, trap, policy, "proof", claim, size=size, name=name))
    found.append(
        Construction(
            "[J25] Theorem 4.3",
            "identical-requests",
            "mc-sf",
            "proof",
            lambda memory_limit: 4.0,
            is_upper=True,
            size=lambda memory_limit: {"memory_limit": memory_limit, "n": 2 * memory_limit},
        )
    )
    for fit in ("rounds", "peaks"):
        policy = f"a-max(fit={fit!r})"
        trap_claim = (lambda m: a_max_ratio_lower_bound(ALPHA), False, trap_lengths)
        found.append(Construction("[C25] Theorem 3.4", "a-max-trap", policy, "h-sf", *trap_claim))
    found.append(
        Construction(
            "[C25] Theorem 8.6",
            "two-point-worst-case",
            "a-random",
            "h-sf",
            lambda memory_limit: float(a_random_ratio_bound(ALPHA)),
            is_upper=True,
            size=lambda memory_limit: {
                "memory_limit": memory_limit,
                "scale": memory_limit,
                "lower": 2,
                "upper": 8,
            },
        )
    )
    return found


def root(factor: float, memory_limit: int) -> float:
    """Return ``factor`` times the square root of the memory limit."""
    return factor * math.sqrt(memory_limit)


def trap_lengths(memory_limit: int) -> dict[str, Any]:
    """Return output lengths l and u = 4 l such that l u = 4 l^2 is closest to the memory limit."""
    lower = max(1, round(math.sqrt(memory_limit * ALPHA)))
    return {"lower": lower, "upper": round(lower / ALPHA), "scale": 20}


def measure(one: Construction, memory_limit: int, seeds: int = 5) -> dict[str, Any]:
    """Return a row of the table (`COLUMNS`): the means over the seeds of a policy's ratio.

    If neither the policy nor the instance is random, there is one seed.
    """
    spec = PolicySpec.of(one.policy)
    randomized = spec.make().randomized
    ratios, uppers, requests = [], [], 0
    for seed in range(seeds if randomized else 1):
        source: Any = generate(one.generator, **one.size(memory_limit=memory_limit))
        predictions = None
        if one.generator == "a-max-trap":
            predictions = IntervalPredictions(*source.metadata["output_interval"])
        played = simulate(source, spec.make(), seed=seed, predictions=predictions)
        assert played.instance is not None
        requests = len(played.instance)
        # Take the total latency of the schedule without preemption, since the references are such
        # schedules too.
        total = played.schedule.total_latency
        upper, lower = reference(one.reference, played.instance)
        ratios.append(total / (min(upper, total) if one.reference == "proof" else upper))
        uppers.append(math.nan if lower is None else total / lower)
    error = float(np.std(ratios, ddof=1) / math.sqrt(len(ratios))) if len(ratios) > 1 else 0.0
    # The theorem on adaptive arrivals holds for deterministic policies only.
    adaptive = not isinstance(source, Instance)
    claim = math.nan if adaptive and randomized else one.claim(memory_limit)
    size = (played.problem.memory_limit, requests)
    found = (*size, float(np.mean(ratios)), float(np.mean(uppers)), error, claim)
    return dict(zip(COLUMNS, (one.theorem, one.label, one.policy, *found), strict=True))


def reference(kind: str, instance: Instance) -> tuple[int, int | None]:
    """Return an upper and a lower bound on the number by which the total latency is divided.

    ``kind`` is `Construction.reference`. The lower bound is None if it is not computed.
    """
    if kind == "h-sf":
        total = int(simulate(instance, "h-sf").total_latency)
        return total, total
    explicit = one_long_and_units if kind == "optimum" else class_batches
    schedule = explicit(instance)
    if not schedule.is_feasible:
        raise AssertionError("an explicit schedule is not feasible")
    upper = schedule.total_latency
    if kind == "optimum":
        return upper, upper
    return upper, None if len(instance) > LARGEST_BOUND else mean_busy_time_bound(instance)


def holds(row: dict[str, Any], *, is_upper: bool) -> str:
    """Return "yes" or "no": whether the ratio agrees with the bound of the theorem.

    The text is empty if the interval of the ratio does not decide. A mean may miss the bound by
    three standard errors, which may be noise.
    """
    slack = 3 * row["error"]
    least, most = row["ratio"], math.inf if math.isnan(row["upper"]) else row["upper"]
    claim = row["claim"] + (slack if is_upper else -slack)
    kept, broken = (most <= claim, least > claim) if is_upper else (least >= claim, most < claim)
    return "yes" if kept else ("no" if broken else "")


def adversaries(
    memory: Annotated[list[int] | None, typer.Option(min=16, help="M; repeatable.")] = None,
    construction: Annotated[
        list[str] | None, typer.Option(help="Generator to include; repeatable. Default: all.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option(help="Policy against the adaptive adversary; repeatable. Default: mc-sf."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds 0, 1, .. of random policies.")] = 5,
    out: Annotated[Path | None, typer.Option(help="Write the table: .csv.")] = None,
) -> None:
    """Print the policy's ratio on each construction for growing M, and the fitted exponent of M."""
    check_output(out, (".csv",))
    for name in policy or []:
        make_policy(name)
    chosen = constructions(policy or ["mc-sf"])
    known = sorted({one.generator for one in chosen})
    for name in set(construction or ()) - set(known):
        reason = f"is not one of {', '.join(known)}"
        raise InvalidValueError(None, "--construction", name, reason)
    chosen = [one for one in chosen if not construction or one.generator in construction]
    rows: list[dict[str, Any]] = []
    with progress_bar(len(chosen)) as update:
        for place, one in enumerate(chosen):
            update(place, one.label)
            usual = LARGE_SIZES if one.reference == "optimum" else SIZES
            for limit in sorted(memory or usual):
                row = measure(one, limit, seeds)
                rows.append({**row, "holds": holds(row, is_upper=one.is_upper)})
    table = pd.DataFrame(rows)
    say(table.to_string(index=False, na_rep="", float_format="{:.3f}".format))
    for names, group in table.groupby(["construction", "policy"], sort=False):
        if group["M"].nunique() > 3:
            fit = fit_power_law([*group["M"]], [*group["ratio"]], corrected=True)
            say(f"{', '.join(names)}: exponent of M {fit}")
    if out is not None:
        with writing():
            write_atomically(out, table.to_csv(index=False))


if __name__ == "__main__":
    run(adversaries)
