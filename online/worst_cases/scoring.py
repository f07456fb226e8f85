"""Scores of a worst-case search: a policy's total latency over a proved optimum.

A `Target` says whose ratio is sought; `Scorer` gives cheap bounds on it for many drafts, `prove`
the ratio itself for the few that deserve it. `hindsight` is imported where it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from instances import Instance, InvalidValueError
from online.comparison.running import find_optimum
from online.comparison.trial import OPTIMA
from online.policy_interface.predictions import ExactPredictions, IntervalPredictions
from online.policy_interface.specs import PolicySpec
from online.simulation.simulator import simulate

from .drafts import Draft, Space

INTERVAL_POLICIES = frozenset({"a-max", "a-min", "a-ell", "two-point-switch"})
"""Policies that are told the interval of all the instance's output lengths ([C25] Section 2);
with exact predictions they would be MC-SF."""

SEARCH_SEEDS = range(8)
"""Runs of a randomised policy while searching."""

REPORT_SEEDS = range(1000, 1064)
"""Runs of a randomised policy for the ratio reported: others, so that luck does not count."""

RUN_LENGTH = 20
"""A run is given up after this many times the rounds in which one request after the other fits."""

ENDLESS = ("livelock", "stalled")
"""Statuses of runs in which some request is never served; one given up may still end."""

MOVES = 1_500
"""Annealing moves for the upper bound of a draft's optimum."""

PROOF_SECONDS = 20.0
"""Time for the proof of one optimum; what is not proved is counted and dropped."""

CERTIFICATE_SECONDS = 30.0
LONG_CERTIFICATE = 1_500
"""Characters beyond which a certificate by prices gives way to a search without, if that ends."""

SHORT_STATES = 20_000
"""Partial schedules up to which a certificate searches without prices: tiny, if slower to check."""


@dataclass(frozen=True)
class Target:
    """Policy whose ratio is sought, and the instances to search.

    Attributes
    ----------
    spec : PolicySpec
        The policy.
    space : Space
        The instances.
    """

    spec: PolicySpec
    space: Space

    @property
    def knowledge(self) -> str:
        """``"exact"`` or ``"interval"``: what the policy is told of output lengths."""
        return "interval" if self.spec.name in INTERVAL_POLICIES else "exact"

    @property
    def setting(self) -> str:
        """Name the space and what is asked of it, uniquely among a policy's searches."""
        space = self.space
        times = f"arrivals <= {space.latest_arrival}" if space.latest_arrival else "all at once"
        limits = f"{times}, n <= {space.max_requests}, M <= {space.max_memory}"
        prompts = "equal prompts, " if space.equal_prompts else ""
        return prompts + limits


@dataclass(frozen=True)
class Costs:
    """A policy's total latency on an instance, over one run or several.

    Attributes
    ----------
    total : int or None
        Summed over the runs; None where some run did not serve every request.
    runs : int
        How many.
    status : str
        How the runs ended: ``"completed"``, else that of the first that did not.
    preemptive : bool
        Whether some run kept the tokens of requests it preempted: the preemptive optimum is then
        the one to compare with.
    """

    total: int | None
    runs: int
    status: str
    preemptive: bool = False

    @property
    def mean(self) -> Fraction | None:
        """Return the total latency per run."""
        return None if self.total is None else Fraction(self.total, self.runs)


def policy_costs(target: Target, draft: Draft, seeds: range = REPORT_SEEDS) -> Costs:
    """Run the target's policy: once if it is deterministic, else with each of ``seeds``.

    Raises
    ------
    PolicyError
        The policy broke a rule.
    """
    instance = draft.instance()
    outputs = instance.output_lengths
    interval = IntervalPredictions(int(outputs.min()), int(outputs.max()))
    last = int(instance.arrival_times.max() + outputs.sum())
    chosen = seeds if target.spec.make().randomized else range(1)
    total, preemptive = 0, False
    for seed in chosen:
        run = simulate(
            instance,
            target.spec.make(),
            seed=seed,
            predictions=interval if target.knowledge == "interval" else ExactPredictions(),
            max_rounds=RUN_LENGTH * last,
        )
        if run.status != "completed":
            return Costs(None, len(chosen), run.status)
        preemptive = preemptive or run.keeps_tokens
        total += int(run.total_latency)
    return Costs(total, len(chosen), "completed", preemptive)


def lower_bound(instance: Instance) -> int:
    """Bound either optimum in microseconds: by volumes, or as if all were served on arrival."""
    from hindsight.prices.volume import mean_busy_time_bound

    return max(mean_busy_time_bound(instance), int(instance.output_lengths.sum()))


def upper_bound(instance: Instance, *, preemptive: bool = False) -> int:
    """Anneal a schedule, which may be a preemptive one; return its total latency."""
    from hindsight.schedules.orders import OrderSearch, PreemptiveOrders

    search = OrderSearch(instance)
    search.run(MOVES)
    if not preemptive:
        return search.best_cost
    stopped = PreemptiveOrders(instance, 0).anneal(MOVES)
    return min(search.best_cost, stopped.total_latency)


@dataclass
class Scorer:
    """The fitness of drafts: a ratio the target's policy has at least, without an exact solve.

    A feasible schedule bounds the optimum from above, hence the ratio from below; drafts whose
    ratio a volume bound shows to be no better than asked for are not annealed.

    Attributes
    ----------
    evaluations : int
        Drafts whose policy cost was computed.
    endless : tuple[Draft, str] or None
        The smallest draft on which the policy never serves some request, and the run's status
        (``"livelock"`` or ``"stalled"``).
    """

    target: Target
    evaluations: int = 0
    endless: tuple[Draft, str] | None = None
    _known: dict[Draft, Fraction] = field(default_factory=dict)

    def score(self, draft: Draft, beyond: Fraction = Fraction(0)) -> Fraction:
        """Return at most the ratio (for randomised policies: that of the search's own seeds).

        0 where a run did not end, or the ratio is surely not larger than ``beyond``.
        """
        if draft in self._known:
            return self._known[draft]
        self.evaluations += 1
        costs = policy_costs(self.target, draft, SEARCH_SEEDS)
        if costs.mean is None:
            # A run given up at the round limit may still end: nothing is known of it.
            smaller = self.endless is None or size_of(draft) < size_of(self.endless[0])
            if costs.status in ENDLESS and smaller:
                self.endless = (draft, costs.status)
            self._known[draft] = Fraction(0)
            return Fraction(0)
        instance = draft.instance()
        if costs.mean / lower_bound(instance) <= beyond:
            return Fraction(0)
        self._known[draft] = costs.mean / upper_bound(instance, preemptive=costs.preemptive)
        return self._known[draft]


def size_of(draft: Draft) -> tuple[int, int, int]:
    """n, M, and all lengths and arrivals summed: smaller instances are easier to read."""
    return len(draft.rows), draft.memory_limit, sum(sum(row) for row in draft.rows)


@dataclass(frozen=True)
class Case:
    """An instance with a policy's cost and the proved optimum.

    Attributes
    ----------
    draft : Draft
        The instance.
    total, runs : int
        The policy's total latency summed over its runs, and how many they are: one, or
        `REPORT_SEEDS` of a randomised policy.
    optimum : int
        Proved.
    certificate : Mapping[str, Any] or None
        A document that `hindsight.check_certificate` accepts as a proof of optimality; None where
        none was found (the optimum is proved by the solve all the same).
    preemptive : bool
        Whether the optimum is that with preemption, see `Costs`.
    """

    draft: Draft
    total: int
    runs: int
    optimum: int
    certificate: Mapping[str, Any] | None = None
    preemptive: bool = False

    @property
    def compared_with(self) -> str:
        """Name the optimum."""
        return OPTIMA[self.preemptive]

    @property
    def ratio(self) -> Fraction:
        """Competitive ratio; of the mean over the runs where there are several."""
        return Fraction(self.total, self.runs * self.optimum)


def prove(target: Target, draft: Draft) -> Case | None:
    """Prove the policy's ratio on a draft; None where a run or the proof fails.

    Raises
    ------
    InvalidValueError
        The draft lies outside the target's space.
    KeyboardInterrupt
        Ctrl-C, which the solve only notes.
    """
    if not target.space.holds(draft):
        raise InvalidValueError(None, "draft", draft, f"is not in the space {target.setting}")
    costs = policy_costs(target, draft)
    if costs.total is None:
        return None
    result = find_optimum(
        draft.instance(), preemptive=costs.preemptive, time_limit=PROOF_SECONDS, threads=1
    )
    if isinstance(result, Exception):
        raise result
    if result.stop_reason == "interrupted":
        raise KeyboardInterrupt
    if result.status != "optimal":
        return None
    certificate = _certificate(result)
    return Case(draft, costs.total, costs.runs, result.upper_bound, certificate, costs.preemptive)


def _certificate(result: Any) -> Mapping[str, Any] | None:
    """Write a short certificate where a search without prices ends soon, else the usual one."""
    from hindsight.certificates.checking import check_certificate
    from hindsight.certificates.format import CertificateError
    from hindsight.certificates.writing import make_certificate

    document = make_certificate(result.schedule, result.proof, search=False)
    if result.preemption != "never":
        # Of the preemptive optimum there are certificates by prices alone.
        return document if check_certificate(document).is_optimal else None
    if document["lower_bound"] < document["upper_bound"] or len(str(document)) > LONG_CERTIFICATE:
        budget = result.upper_bound - 1
        plain = {"kind": "state-search", "scale": 1, "states": [], "prices": []}
        proof = {**plain, "budget": budget, "kept": SHORT_STATES}
        searched = {**document, "proof": proof, "lower_bound": budget + 1}
        try:
            proof["kept"] = check_certificate(searched).leaves
            return searched
        except CertificateError:
            document = make_certificate(
                result.schedule, result.proof, time_limit=CERTIFICATE_SECONDS
            )
    return document if check_certificate(document).is_optimal else None
