"""Scores in a worst-case search: ratios of a policy's total latency to the optimum.

For many small instances (drafts) `Scorer` computes cheap lower bounds on this ratio. For the few
best ones `prove` computes the ratio itself. The package `hindsight` is imported inside functions.
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
"""Names of policies whose predictions are an interval of output lengths, the same for all requests
([C25] Section 2). With exact output lengths these policies would act like MC-SF."""

SEARCH_SEEDS = range(8)
"""Seeds of the runs of a randomised policy in the search. Its cost is the mean over these runs."""

REPORT_SEEDS = range(1000, 1064)
"""Seeds for the reported ratio of a randomised policy. `SEARCH_SEEDS` would give a biased ratio."""

RUN_LENGTH = 20
"""Limit on the rounds of a run: this number times the rounds to serve requests one by one."""

ENDLESS = ("livelock", "stalled")
"""Values of `Run.status` for runs in which some request would never be served."""

LEAST_LENGTH = 1_000
"""The limit on the rounds of a run is at least this, enough to detect a livelock."""

MOVES = 1_500
"""Number of moves of the simulated annealing in `upper_bound`."""

PROOF_SECONDS = 20.0
"""Time limit, in seconds, for proving the optimum of one instance."""


class Costs(NamedTuple):
    """Mean total latency of a policy on an instance, over its runs (one, or one per seed).

    Attributes
    ----------
    mean : Fraction or None
        Mean over the runs of the total latency in rounds; None if some run did not serve every
        request.
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
    """Simulate a policy on an instance and return its mean total latency over the runs.

    A deterministic policy runs once, a randomised one with each of ``seeds``.

    Raises
    ------
    PolicyError
        The policy made an invalid decision.
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
    """Return a lower bound on the least total latency in rounds, with or without preemption.

    It is the larger of two bounds. One is the sum of the output lengths. The other is a volume
    bound: it follows from the memory of the requests, summed over their rounds.
    """
    from hindsight.prices.volume import mean_busy_time_bound

    return max(mean_busy_time_bound(instance), int(instance.output_lengths.sum()))


def upper_bound(instance: Instance, *, preemptive: bool = False) -> int:
    """Return the total latency in rounds of a schedule found by simulated annealing.

    It is an upper bound on the optimum. With ``preemptive`` the schedule may preempt requests,
    which keep their tokens.
    """
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
    """Computes lower bounds on a policy's ratio to the optimum, without an exact solver.

    The lower bound is (total latency of the policy) / (total latency of a schedule found by
    simulated annealing). It is at most the ratio, because no schedule is below the optimum. The
    instances are drafts: small instances as plain numbers.

    Attributes
    ----------
    spec : PolicySpec
        The policy.
    evaluations : int
        Number of instances (drafts) on which the policy was simulated.
    endless : tuple[Draft, str] or None
        The smallest instance on which the policy never serves some request, and the run's status
        (``"livelock"`` or ``"stalled"``).
    """

    spec: PolicySpec
    evaluations: int = 0
    endless: tuple[Draft, str] | None = None
    _known: dict[Draft, Fraction] = field(default_factory=dict)

    def score(self, draft: Draft, beyond: Fraction = Fraction(0)) -> Fraction:
        """Return a lower bound on the ratio of the policy to the optimum on an instance (draft).

        The total latency of a randomised policy is the mean over `SEARCH_SEEDS`. The result is 0 if
        a run did not serve every request. It is also 0 if `lower_bound` shows that the ratio is at
        most ``beyond``. In this case no schedule is searched for.
        """
        if draft in self._known:
            return self._known[draft]
        self.evaluations += 1
        instance = draft.instance()
        costs = policy_costs(self.spec, instance, SEARCH_SEEDS)
        if costs.mean is None:
            # A run that reached the limit on rounds might have served every request later. So only
            # the statuses in ENDLESS count as endless.
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
    """Return the size of an instance (draft), by which instances of equal ratio are sorted.

    It is (number of requests, memory limit, sum of all lengths and arrivals). Smaller instances
    come first, as they are easier to read.
    """
    return len(draft.rows), draft.memory_limit, sum(sum(row) for row in draft.rows)


@dataclass(frozen=True)
class Case:
    """An instance on which a policy's ratio to the optimum is proved.

    Attributes
    ----------
    draft : Draft
        The instance.
    cost : Fraction
        Total latency of the policy in rounds. For a randomised policy, the mean over
        `REPORT_SEEDS`.
    optimum : int
        Proved least total latency in rounds.
    bounds : KnownBounds or None
        The optimum with its schedule, as stored with an instance. None if the optimum is over
        preemptive schedules.
    """

    draft: Draft
    cost: Fraction
    optimum: int
    bounds: KnownBounds | None = None

    @property
    def ratio(self) -> Fraction:
        """Ratio of the policy to the optimum on this instance: ``cost`` / ``optimum``."""
        return self.cost / self.optimum

    def instance(self, name: str | None = None) -> Instance:
        """Return the draft as an `Instance`, with ``bounds`` attached if they are not None."""
        made = self.draft.instance(name)
        return made if self.bounds is None else self.bounds.attached_to(made)


def prove(spec: PolicySpec, draft: Draft) -> Case | None:
    """Simulate a policy on a draft and prove the optimum. Return both as a `Case`.

    Return None if a run does not serve every request, or if the optimum is not proved within
    `PROOF_SECONDS`.

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C interrupted the solve, which then returns a result without a proof.
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
