"""A question about a log: the requests, the scheduler of today, and what is proposed for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property

import numpy as np

from instances import ServiceLevel, Workload
from instances.arrays import FloatArray, IntArray
from instances.service_level import limits_of
from instances.validation import as_integer, as_number
from online.policy_interface.specs import (
    AnyPolicy,
    AnyRouter,
    PolicySpec,
    RouterSpec,
    policy_specs,
)

from .measured import Measured

LOGGED = "as in the log"
"""The router that sends every request to the replica that the log names."""

BASELINE = PolicySpec("vllm")
"""The scheduler of today unless another is named: vLLM's, first come, first served."""

CHALLENGER = PolicySpec("vllm", {"order": "shortest-job"})
"""The proposal unless others are named: the shortest job first, in the engine of today."""

ORDERS: tuple[Mapping[str, object], ...] = (
    {"order": "shortest-output"},
    {"order": "shortest-output", "ageing": 5},
)
"""Further orders of vLLM's queue; with an ageing of 5 tokens per second no request starves."""

ORDER_PARAMETERS = ("order", "ageing", "policy")
"""Parameters of today's engine that a proposal does not take over."""

ROUTERS = ("least-requests", "round-robin", "least-tokens")
"""Routers of several replicas; the first is today's unless another is named."""


@dataclass(frozen=True)
class Place:
    """Memory, arrivals and replicas with which the requests of a log are served.

    Attributes
    ----------
    memory_limit : int
        M of a replica, tokens.
    faster : float
        Arrivals come so many times as fast as in the log.
    replicas : int
        Number of replicas.
    is_here : bool
        Whether all three are those of the log; it does not count in comparisons.
    """

    memory_limit: int
    faster: float = 1.0
    replicas: int = 1
    is_here: bool = field(default=False, compare=False)

    def __str__(self) -> str:
        """Return " at ..." for another place than that of the log."""
        machines = f", {self.replicas} replicas" if self.replicas > 1 else ""
        place = f" at M = {self.memory_limit}, arrivals x{self.faster:g}{machines}"
        return "" if self.is_here else place


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
    routers : Sequence[AnyRouter]
        Routers of several replicas, today's first.
    level : ServiceLevel or None
        Service level; also asks how many requests are on time, by number of replicas.
    error : float
        Error of predicted output lengths, see `RelativePredictions`; 0 leaves such runs out.
    measured : Measured or None
        Latencies that the log measured.
    shared_tokens : int64 array or None
        Tokens of each prompt that other requests could supply; bounds then hold for schedulers with
        a prefix cache. None if the log does not show shared prefixes.
    concurrency : int or None
        Most requests at once, if the log is of a closed loop.
    made_up : bool
        Whether the arrivals are not those of the log.
    seed : int
        Seed of every random choice.
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
    routers: Sequence[AnyRouter] = ROUTERS
    level: ServiceLevel | None = None
    error: float = 0.5
    measured: Measured | None = None
    shared_tokens: IntArray | None = field(default=None, repr=False)
    concurrency: int | None = None
    made_up: bool = False
    seed: int = 0
    facts: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.workload.require_batch_time()
        as_number(self.error, None, "error", minimum=0)
        as_integer(self.seed, None, "seed", minimum=0)
        for way in self.ways.values():
            way.make()
        _ = self.specs

    @property
    def baseline(self) -> str:
        """Label of the scheduler of today."""
        return next(iter(self.specs))

    @cached_property
    def proposed(self) -> list[str]:
        """Labels of the proposals that are compared first."""
        return [spec.label for spec in self._proposals if spec.label != self.baseline]

    @cached_property
    def specs(self) -> dict[str, PolicySpec]:
        """All policies by label: today's, the proposals, then those that run if time is left."""
        others = []
        if self.proposals is None:
            deadline = [{"order": "deadline"}] if self.level else []
            added = [PolicySpec("vllm", one) for one in (*ORDERS, *deadline)]
            others = [self._in_engine(one) for one in added]
            others += policy_specs(None, deadlines=self.level is not None)
        return {spec.label: spec for spec in (self._today, *self._proposals, *others)}

    @cached_property
    def _today(self) -> PolicySpec:
        (spec,) = policy_specs([self.today], deadlines=self.level is not None)
        return spec

    @cached_property
    def _proposals(self) -> list[PolicySpec]:
        if self.proposals is None:
            return [self._in_engine(CHALLENGER)]
        return policy_specs(self.proposals, deadlines=self.level is not None)

    def _in_engine(self, spec: PolicySpec) -> PolicySpec:
        """Give an order proposed for the engine of today the other settings of that engine."""
        today = self._today
        if spec.name != today.name or today.given is not None:
            return spec
        kept = {name: one for name, one in today.params.items() if name not in ORDER_PARAMETERS}
        return replace(spec, params={**kept, **spec.params})

    @cached_property
    def ways(self) -> dict[str, RouterSpec]:
        """Routers by label, today's first; none on one machine."""
        if self.workload.replicas == 1:
            return {}
        return {one.label: one for one in map(RouterSpec.of, self.routers)}

    @property
    def here(self) -> Place:
        """Memory, arrivals and replicas of the log itself."""
        return Place(self.workload.memory_limit, 1.0, self.workload.replicas, is_here=True)

    def at(self, place: Place) -> Workload:
        """Return the requests as they are served at a place."""
        if place == self.here:
            return self.workload
        return self.workload.replaced(
            arrival_times=self.workload.arrival_times / place.faster,
            memory_limit=place.memory_limit,
            replicas=place.replicas,
        )

    def router_at(self, place: Place) -> RouterSpec | None:
        """Return today's router; the log routes to its own number of replicas only."""
        today = next(iter(self.ways.values()), None)
        if place.replicas == 1:
            return None
        is_usable = place.replicas == self.here.replicas or (today and today.name != LOGGED)
        return today if today and is_usable else RouterSpec(ROUTERS[0])

    def of_first(self, count: int) -> Question:
        """Ask the same about the first requests; what the log measured is of more of them."""
        shared = self.shared_tokens
        return replace(
            self,
            workload=self.workload.of(np.arange(count)),
            shared_tokens=None if shared is None else shared[:count],
            measured=None,
        )

    @cached_property
    def load(self) -> float | None:
        """Machine seconds asked for per second, from the first arrival to the last.

        A request asks for d1 per token processed and d2 + d0 / M per token held for a round, its
        cost in rounds that fill the memory. Replicas share it. The queue grows while it is above 1.
        It describes the log and proves nothing. None if all requests arrive at once.
        """
        from hindsight.prices.minorants import affine_minorants

        load = self.workload
        span = float(load.arrival_times[-1] - load.arrival_times[0])
        if span <= 0:
            return None
        s, o = (one.astype(np.float64) for one in (load.prompt_lengths, load.output_lengths))
        held = o * s + o * (o + 1) / 2 - load.memory_rule.unstored * o
        asked = [
            float(one.d1) * (s + o - 1) + float(one.d2 + one.d0 / load.memory_limit) * held
            for one in affine_minorants(load.require_batch_time(), load.memory_limit)
        ]
        return max(float(one.sum()) for one in asked) / span / load.replicas

    @property
    def measured_on_time(self) -> float | None:
        """Share of the requests on time in the log itself; None if the log does not show it."""
        log, level = self.measured, self.level
        if log is None or level is None or self.made_up:
            return None
        first: FloatArray | None = log.first_tokens
        if first is None and level.first_token is level.time_per_token is None:
            first = log.latencies
        if first is None:
            return None
        limits = limits_of(level, len(log.latencies))
        return float(limits.on_time(log.latencies, first, self.workload.output_lengths).mean())

    @property
    def limits(self) -> str:
        """The limits of the service level, in words."""
        names = {"first_token": "TTFT", "time_per_token": "TPOT"}
        limits = asdict(self.level).items() if self.level else ()
        return ", ".join(f"{names.get(name, name)} <= {one:g} s" for name, one in limits if one)
