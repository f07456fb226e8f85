"""A question about a log: the requests, the scheduler of today, and what is proposed for it."""

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
from online.policy_interface.specs import (
    AnyPolicy,
    AnyRouter,
    PolicySpec,
    RouterSpec,
    policy_specs,
)

LOGGED = "as in the log"
"""The router that sends every request to the replica that the log names."""

BASELINE = PolicySpec("vllm")
"""The scheduler of today unless another is named: vLLM's, first come, first served."""

ORDERS: tuple[Mapping[str, object], ...] = (
    {"order": "shortest-job"},
    {"order": "shortest-output"},
    {"order": "shortest-output", "ageing": 5},
    {"order": "deadline"},
)
"""Orders of vLLM's queue; the first is the proposal unless others are named. With an ageing of 5
tokens per second no request starves. The last one needs a service level."""

ROUTER = "least-requests"
"""The router of several replicas unless another is named."""

LIMITS = {"latency": "latency", "first_token": "TTFT", "time_per_token": "TPOT"}
"""Names of figures by the limits of a `ServiceLevel`."""


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked about the requests of a log.

    Attributes
    ----------
    workload : Workload
        The requests, their batch time, and the number of replicas.
    today : AnyPolicy
        The scheduler of today.
    proposals : Sequence[AnyPolicy] or None
        Policies to compare with it. None compares the shortest job first in the engine of today,
        and, where there is time, all policies that need no parameters.
    router : AnyRouter
        Router of several replicas today.
    level : ServiceLevel or None
        Service level; also asks how many requests are on time, by number of replicas.
    share : float
        Share of the requests that are wanted on time, above 0 and at most 1.
    error : float
        Error of predicted output lengths, see `RelativePredictions`; 0 leaves such runs out.
    measured, measured_first : float64 array or None
        Seconds from arrival to completion and to the first token of each request, as the log
        measured them; None where the log lacks some.
    shared_tokens : int64 array or None
        Tokens of each prompt that other requests could supply; bounds then hold for schedulers with
        a prefix cache. None if the log does not show shared prefixes.
    concurrency : int or None
        Most requests at once, if the log is of a closed loop.
    made_up : bool
        Whether the arrivals are not those of the log.
    facts : Mapping[str, str]
        Facts about the log and the engine, by name.

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
        """Label of the scheduler of today."""
        return next(iter(self.specs))

    @property
    def proposed(self) -> list[str]:
        """Labels of the proposals, which are compared first."""
        return [*self.specs][1:][: 1 if self.proposals is None else None]

    @cached_property
    def specs(self) -> dict[str, PolicySpec]:
        """All policies by label: today's, the proposals, then those that run if time is left."""
        deadlines = self.level is not None
        (today,) = policy_specs([self.today], deadlines=deadlines)
        others = policy_specs(self.proposals, deadlines=deadlines)
        if self.proposals is None:
            # An order that is proposed for the engine of today has its other settings.
            is_engine = today.name == BASELINE.name and today.given is None
            kept = {**today.params} if is_engine else {}
            for name in ("order", "ageing", "policy"):
                kept.pop(name, None)
            orders = ORDERS if deadlines else ORDERS[:-1]
            others = [*(PolicySpec(BASELINE.name, {**kept, **one}) for one in orders), *others]
        return {spec.label: spec for spec in (today, *others)}

    def router_of(self, replicas: int) -> RouterSpec | None:
        """Return today's router; the log routes to its own number of replicas only."""
        if replicas == 1:
            return None
        today = RouterSpec.of(self.router)
        today.make()
        is_elsewhere = today.name == LOGGED and replicas != self.replicas
        return RouterSpec(ROUTER) if is_elsewhere else today

    @property
    def replicas(self) -> int:
        """Number of replicas today."""
        return self.workload.replicas

    def of_first(self, count: int) -> Question:
        """Ask the same about the first requests."""
        columns = ("measured", "measured_first", "shared_tokens")
        known = {name: getattr(self, name) for name in columns}
        kept = {name: one[:count] for name, one in known.items() if one is not None}
        return replace(self, workload=self.workload.of(np.arange(count)), **kept)

    @cached_property
    def load(self) -> float | None:
        """Machine seconds asked for per second, from the first arrival to the last.

        A request asks for d1 per token processed and d2 + d0 / M per token held for a round, its
        cost in rounds that fill the memory. Replicas share it. The queue grows while it is above 1.
        It describes the log and proves nothing. None if all requests arrive at once.
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
        """Share of the prompt tokens that a prefix cache could supply; 0 if that is not known."""
        shared = 0 if self.shared_tokens is None else int(self.shared_tokens.sum())
        return Fraction(shared, int(self.workload.prompt_lengths.sum()))

    @property
    def wanted(self) -> Fraction:
        """The share of the requests wanted on time, exactly: 0.99 is 99 hundredths."""
        return as_fraction(self.share, None, "share", above=0, maximum=1)

    @property
    def measured_mean(self) -> Fraction | None:
        """Seconds per request from arrival to completion in the log."""
        if self.measured is None:
            return None
        return Fraction(math.fsum(self.measured)) / len(self.measured)

    @property
    def measured_on_time(self) -> float | None:
        """Share of the requests on time in the log itself; None if the log does not show it."""
        latencies, first = self.measured, self.measured_first
        if first is None and set(self.limits) == {"latency"}:
            first = latencies
        if latencies is None or first is None or self.level is None:
            return None
        limits = limits_of(self.level, len(latencies))
        return float(limits.on_time(latencies, first, self.workload.output_lengths).mean())

    @property
    def limits(self) -> dict[str, float]:
        """The limits of the service level, seconds, by the name of the figure."""
        limits = asdict(self.level).items() if self.level else ()
        return {LIMITS[name]: one for name, one in limits if one is not None}
