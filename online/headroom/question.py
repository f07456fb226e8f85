"""A question about a log: the requests, the scheduler of today, and proposed policies."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from instances import ServiceLevel, Workload
from instances.arrays import FloatArray, IntArray
from instances.service_level import limits_of
from instances.validation import as_fraction, as_number
from online.policy_interface.specs import AnyPolicy, AnyRouter, PolicySpec, RouterSpec, policy_specs

LOGGED = "as in the log"
"""Name of the router that sends every request to the replica that served it in the log."""

BASELINE = PolicySpec("vllm")
"""Default of today's scheduler: the policy ``vllm``, which serves first come, first served."""

ORDERS: tuple[Mapping[str, object], ...] = (
    {"order": "shortest-job"},
    {"order": "shortest-output"},
    {"order": "shortest-output", "ageing": 5},
    {"order": "deadline"},
)
"""Orders of vLLM's queue; the first is the default proposal, the last needs a service level."""

ROUTER = "least-requests"
"""Name of the default router of several replicas."""

LIMITS = {"latency": "latency", "first_token": "TTFT", "time_per_token": "TPOT"}
"""Fields of a `ServiceLevel` with the names of these latencies in headroom reports."""


@dataclass(frozen=True, eq=False)
class Question:
    """Input of `measure_headroom`: requests of a log, today's scheduler, and proposed ones.

    Attributes
    ----------
    workload : Workload
        The requests, their batch time, and the number of replicas.
    today : AnyPolicy
        The scheduler of today.
    proposals : Sequence[AnyPolicy] or None
        Policies to compare with today's. None compares the shortest job first in the engine of
        today, and, if there is time, all policies that need no parameters.
    router : AnyRouter
        Router of several replicas today.
    level : ServiceLevel or None
        Service level. If it is given, the report also has the share of requests on time for several
        numbers of replicas.
    share : float
        Share of the requests that are to be on time, above 0 and at most 1.
    error : float
        Error of `RelativePredictions` in further simulations, in which policies get predicted
        output lengths. 0: there are no such simulations.
    measured, measured_first : float64 array or None
        Seconds from arrival to completion, and from arrival to the first token, of each request in
        the log. None if the log lacks some of them.
    shared_tokens : int64 array or None
        Tokens of each prompt that a prefix cache could take from other requests. Bounds then hold
        for schedulers with a prefix cache. None if the log does not show shared prefixes.
    concurrency : int or None
        Largest number of requests in flight, if the log is of a client that limits it.
    made_up : bool
        Whether the log has no arrival times, so that those in ``workload`` are assumed.
    facts : Mapping[str, str]
        Facts about the log and the engine for the headroom report: text by name.

    Raises
    ------
    InvalidTypeError, InvalidValueError, UnknownNameError
        A parameter is out of range, or the workload has no batch time.
    """

    workload: Workload
    today: AnyPolicy = BASELINE
    proposals: Sequence[AnyPolicy] | None = None
    router: AnyRouter = ROUTER
    level: ServiceLevel | None = None
    share: float = 0.99
    error: float = 0.5
    measured: FloatArray | None = field(default=None, repr=False)
    measured_first: FloatArray | None = field(default=None, repr=False)
    shared_tokens: IntArray | None = field(default=None, repr=False)
    concurrency: int | None = None
    made_up: bool = False
    facts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.workload.require_batch_time()
        as_number(self.error, None, "error", minimum=0)
        self.router_of(self.workload.replicas)
        _ = self.wanted, self.specs

    @property
    def baseline(self) -> str:
        """Label of today's scheduler: its name with its parameters."""
        return next(iter(self.specs))

    @property
    def proposed(self) -> list[str]:
        """Labels of the proposed policies, which are simulated right after today's."""
        return [*self.specs][1:][: 1 if self.proposals is None else None]

    @cached_property
    def specs(self) -> dict[str, PolicySpec]:
        """All policies by label, in the order in which they are simulated.

        Today's is first, then the proposals, then policies that are simulated if time is left.
        """
        deadlines = self.level is not None
        (today,) = policy_specs([self.today], deadlines=deadlines)
        others = policy_specs(self.proposals, deadlines=deadlines)
        if self.proposals is None:
            # Proposed policies are today's vLLM with another order of the queue. They keep its
            # other parameters.
            is_engine = today.name == BASELINE.name and today.given is None
            kept = {**today.params} if is_engine else {}
            for name in ("order", "ageing", "policy"):
                kept.pop(name, None)
            orders = ORDERS if deadlines else ORDERS[:-1]
            others = [*(PolicySpec(BASELINE.name, {**kept, **one}) for one in orders), *others]
        return {spec.label: spec for spec in (today, *others)}

    def router_of(self, replicas: int) -> RouterSpec | None:
        """Return the router of a simulation on ``replicas`` machines; None for one machine.

        It is today's router. Only if this sends requests as in the log and ``replicas`` is not
        today's number, it is `ROUTER`: the log names only replicas of today.
        """
        if replicas == 1:
            return None
        today = RouterSpec.of(self.router)
        today.make()
        is_elsewhere = today.name == LOGGED and replicas != self.replicas
        return RouterSpec(ROUTER) if is_elsewhere else today

    @property
    def replicas(self) -> int:
        """Number of replicas that serve the requests today."""
        return self.workload.replicas

    def of_first(self, count: int) -> Question:
        """Return the same question about the first ``count`` requests only."""
        columns = ("measured", "measured_first", "shared_tokens")
        known = {name: getattr(self, name) for name in columns}
        kept = {name: one[:count] for name, one in known.items() if one is not None}
        return replace(self, workload=self.workload.of(np.arange(count)), **kept)

    @cached_property
    def load(self) -> float | None:
        """Load of the machines: seconds of work that arrive, per second and replica.

        The work of a request is d1 seconds per token processed, and d2 + d0 / M seconds per token
        held in a round. This is its cost in rounds that fill the memory M, if a round takes d0 + d1
        (tokens processed) + d2 (tokens held) seconds. The sum over all requests is divided by the
        seconds from the first arrival to the last and by the number of replicas. The queue grows
        while the load is above 1. No bound uses the load. It is None if all requests arrive at
        once.
        """
        from hindsight.prices.minorants import affine_minorants

        load = self.workload
        span = float(np.ptp(load.arrival_times))
        if span <= 0:
            return None
        s, o = (one.astype(np.float64) for one in (load.prompt_lengths, load.output_lengths))
        held = float((o * s + o * (o + 1) / 2 - load.memory_rule.unstored * o).sum())
        asked = [
            float(one.d1) * float((s + o - 1).sum())
            + float(one.d2 + one.d0 / load.memory_limit) * held
            for one in affine_minorants(load.require_batch_time(), load.memory_limit)
        ]
        return max(asked) / span / load.replicas

    @property
    def reused(self) -> Fraction:
        """Share of all prompt tokens that a prefix cache could supply; 0 if it is not known."""
        shared = 0 if self.shared_tokens is None else int(self.shared_tokens.sum())
        return Fraction(shared, int(self.workload.prompt_lengths.sum()))

    @property
    def wanted(self) -> Fraction:
        """``share`` as an exact fraction: share of the requests that are to be on time."""
        return as_fraction(self.share, None, "share", above=0, maximum=1)

    @property
    def measured_mean(self) -> Fraction | None:
        """Mean latency in the log, in seconds; None if the log has no latencies."""
        if self.measured is None:
            return None
        return Fraction(math.fsum(self.measured)) / len(self.measured)

    @property
    def measured_on_time(self) -> Fraction | None:
        """Share of the requests that were on time in the log; None without the needed latencies."""
        latencies, first = self.measured, self.measured_first
        if first is None and set(self.limits) == {"latency"}:
            first = latencies
        if latencies is None or first is None or self.level is None:
            return None
        limits = limits_of(self.level, len(latencies))
        on_time = limits.on_time(latencies, first, self.workload.output_lengths)
        return Fraction(int(on_time.sum()), len(latencies))

    @property
    def limits(self) -> dict[str, float]:
        """Limits of the service level in seconds, by the name of the latency (such as TTFT)."""
        limits = asdict(self.level).items() if self.level else ()
        return {LIMITS[name]: one for name, one in limits if one is not None}
