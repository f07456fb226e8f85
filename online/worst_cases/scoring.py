"""Scores of a worst-case search: a policy's total latency over a proved optimum.

`Scorer` computes cheap lower bounds on the ratio for many drafts, and `prove` computes the ratio
itself for the few best. `hindsight` is imported where it is needed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NamedTuple

from instances import Instance, KnownBounds
from online.policy_interface.predictions import IntervalPredictions
from online.policy_interface.specs import PolicySpec
from online.simulation.simulator import simulate

from .drafts import Draft

INTERVAL_POLICIES = frozenset({"a-max", "a-min", "a-ell", "two-point-switch"})
"""Policies that are given one interval for all output lengths of an instance ([C25] Section 2).
With exact predictions they would be MC-SF."""

SEARCH_SEEDS = range(8)
"""Seeds of a randomised policy during the search."""

REPORT_SEEDS = range(1000, 1064)
"""Seeds of a randomised policy for the reported ratio: other seeds, to exclude selection bias."""

RUN_LENGTH = 20
"""A run is ended after this many times the rounds of serving one request after the other."""

ENDLESS = ("livelock", "stalled")
"""Statuses of runs in which some request is never served."""

LEAST_LENGTH = 1_000
"""Rounds that a run has at least, so that a livelock of few requests is named."""

MOVES = 1_500
"""Annealing moves for the upper bound on the optimum of a draft."""

PROOF_SECONDS = 20.0
"""Time limit for the proof of one optimum."""


class Costs(NamedTuple):
    """Total latency of a policy on an instance, over one run or several.

    Attributes
    ----------
    mean : Fraction or None
        Total latency per run; None if some run did not serve every request.
    status : str
        ``"completed"``, or the status of the first run that did not serve every request.
    preemptive : bool
        Whether some run kept the tokens of requests that it preempted. The policy is then compared
        with the preemptive optimum.
    """

    mean: Fraction | None
    status: str
    preemptive: bool = False


def policy_costs(spec: PolicySpec, instance: Instance, seeds: range = REPORT_SEEDS) -> Costs:
    """Run a policy: once if it is deterministic, else with each of ``seeds``.

    Raises
    ------
    PolicyError
        The policy broke a rule.
    """
    outputs = instance.output_lengths
    options: dict[str, Any] = {}
    if spec.name in INTERVAL_POLICIES:
        options["predictions"] = IntervalPredictions(int(outputs.min()), int(outputs.max()))
    last = int(instance.arrival_times.max() + outputs.sum())
    options["max_rounds"] = max(RUN_LENGTH * last, LEAST_LENGTH)
    chosen = seeds if spec.make().randomized else range(1)
    total, preemptive = 0, False
    for seed in chosen:
        run = simulate(instance, spec.make(), seed=seed, **options)
        if run.status != "completed":
            return Costs(None, run.status)
        preemptive = preemptive or run.keeps_tokens
        total += int(run.total_latency)
    return Costs(Fraction(total, len(chosen)), "completed", preemptive)


def lower_bound(instance: Instance) -> int:
    """Return a lower bound on either optimum: by volumes, or with every request served at once."""
    from hindsight.prices.volume import mean_busy_time_bound

    return max(mean_busy_time_bound(instance), int(instance.output_lengths.sum()))


def upper_bound(instance: Instance, *, preemptive: bool = False) -> int:
    """Return the total latency of a good schedule, with or without preemption."""
    from hindsight.schedules.orders import OrderSearch
    from hindsight.schedules.preemptive import PreemptiveKeys

    search = OrderSearch(instance)
    search.run(MOVES)
    if not preemptive:
        return search.best_cost
    stopped = next(PreemptiveKeys(instance, 0).improve(lambda: False))
    return min(search.best_cost, int(stopped.total_latency))


@dataclass
class Scorer:
    """Lower bounds on a policy's ratio on drafts, without an exact solve.

    A feasible schedule bounds the optimum from above, hence the ratio from below. A draft whose
    ratio is at most the asked one by a volume bound is not annealed.

    Attributes
    ----------
    evaluations : int
        Drafts whose policy cost was computed.
    endless : tuple[Draft, str] or None
        The smallest draft on which the policy never serves some request, and the run's status
        (``"livelock"`` or ``"stalled"``).
    """

    spec: PolicySpec
    evaluations: int = 0
    endless: tuple[Draft, str] | None = None
    _known: dict[Draft, Fraction] = field(default_factory=dict)

    def score(self, draft: Draft, beyond: Fraction = Fraction(0)) -> Fraction:
        """Return a lower bound on the ratio (of a randomised policy: with the search's seeds).

        Return 0 if a run did not end, or if the ratio cannot exceed ``beyond``.
        """
        if draft in self._known:
            return self._known[draft]
        self.evaluations += 1
        instance = draft.instance()
        costs = policy_costs(self.spec, instance, SEARCH_SEEDS)
        if costs.mean is None:
            # A run that was ended at the round limit proves nothing.
            smaller = self.endless is None or size_of(draft) < size_of(self.endless[0])
            if costs.status in ENDLESS and smaller:
                self.endless = (draft, costs.status)
            self._known[draft] = Fraction(0)
            return Fraction(0)
        if costs.mean / lower_bound(instance) <= beyond:
            return Fraction(0)
        self._known[draft] = costs.mean / upper_bound(instance, preemptive=costs.preemptive)
        return self._known[draft]


def size_of(draft: Draft) -> tuple[int, int, int]:
    """Return n, M, and the sum of all lengths and arrivals: small instances are easy to read."""
    return len(draft.rows), draft.memory_limit, sum(sum(row) for row in draft.rows)


@dataclass(frozen=True)
class Case:
    """An instance with a policy's cost and the proved optimum.

    Attributes
    ----------
    draft : Draft
        The instance.
    cost : Fraction
        Total latency, of a randomised policy its mean over `REPORT_SEEDS`.
    optimum : int
        The proved optimum.
    bounds : KnownBounds or None
        The optimum with its schedule; None for the preemptive optimum.
    """

    draft: Draft
    cost: Fraction
    optimum: int
    bounds: KnownBounds | None = None

    @property
    def ratio(self) -> Fraction:
        """Competitive ratio."""
        return self.cost / self.optimum

    def instance(self, name: str | None = None) -> Instance:
        """Return the instance with the optimum and its schedule, if they can be stored."""
        made = self.draft.instance(name)
        return made if self.bounds is None else self.bounds.attached_to(made)


def prove(spec: PolicySpec, draft: Draft) -> Case | None:
    """Return the policy's case on a draft; None if a run does not end or the proof fails.

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C, which the solve only notes.
    """
    import hindsight

    instance = draft.instance()
    costs = policy_costs(spec, instance)
    if costs.mean is None:
        return None
    preemption = "keep" if costs.preemptive else "never"
    result = hindsight.solve(instance, PROOF_SECONDS, threads=1, preemption=preemption)
    if result.stop_reason == "interrupted":
        raise KeyboardInterrupt
    if result.status != "optimal":
        return None
    bounds = None if costs.preemptive else result.known_bounds(f"worst:{spec.label}")
    return Case(draft, costs.mean, result.upper_bound, bounds)
