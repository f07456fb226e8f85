"""Thresholds for WAIT: the conditions of [A25] Theorem 1, and rules that choose within them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass
from functools import cached_property
from typing import Generic, TypeVar

import numpy as np

from instances import InvalidValueError
from instances.arrays import FloatArray
from instances.validation import as_integer, check_ranges, ranged

from .balance import PromptType, coefficients, token_load

Load = TypeVar("Load", bound=Sized)

ROUNDING = 1e-9
"""A threshold n_j and lambda_j DT(n) count as equal if they differ by at most this share of n_j."""


@dataclass(frozen=True)
class Plan(ABC, Generic[Load]):
    """Base class of `WaitPlan` and `NestedPlan`: thresholds of a policy for a workload.

    Attributes
    ----------
    workload : Load
        Types of prompts (WAIT) or segments (Nested WAIT).
    thresholds : tuple[int, ...]
        n_j, the most prompts of type or segment j that a batch advances at each stage.
    d0, d1 : float
        An iteration takes d0 + d1 * (tokens of the batch) seconds.
    """

    workload: Load
    thresholds: tuple[int, ...] = ranged(minimum=1)
    d0: float = ranged(above=0)
    d1: float = ranged(minimum=0)

    def __post_init__(self) -> None:
        check_ranges(self, "plan")
        if len(self.thresholds) != len(self.workload):
            reason = f"are not {len(self.workload)} numbers"
            raise InvalidValueError("plan", "thresholds", self.thresholds, reason)

    @property
    @abstractmethod
    def batch_memory(self) -> float:
        """M_pi, tokens of the largest batch.

        It has n_j prompts (the threshold) at every stage of each type or segment j.
        """

    @property
    def batch_duration(self) -> float:
        """DT(n) = d0 + d1 M_pi, seconds of the longest iteration ([A25] Equation (18)).

        M_pi is `batch_memory`, the tokens of the largest batch.
        """
        return self.d0 + self.d1 * self.batch_memory


@dataclass(frozen=True)
class WaitPlan(Plan[tuple[PromptType, ...]]):
    """Thresholds n_j of WAIT with their memory and drifts ([A25] Theorem 1).

    A batch advances up to n_j prompts of type j at each stage.
    """

    def __post_init__(self) -> None:
        token_load(self.workload)
        super().__post_init__()

    @property
    def batch_memory(self) -> int:
        """M_pi = sum_j n_j S_j, the most tokens that all prompts in service can hold.

        This is also the most that a batch can hold. Each stage has up to n_j prompts of type j
        (the threshold). S_j is `PromptType.footprint`, the tokens of a prompt summed over its
        stages.
        """
        return sum(
            n * kind.footprint for n, kind in zip(self.thresholds, self.workload, strict=True)
        )

    @cached_property
    def drifts(self) -> tuple[float, ...]:
        """n_j - lambda_j DT(n) for each type j: prompts taken in minus arrivals per iteration.

        An iteration begins the prefill of up to n_j prompts (the threshold). lambda_j prompts
        arrive per second, and the longest iteration takes DT(n) = `batch_duration` seconds.
        """
        return tuple(
            n - kind.arrival_rate * self.batch_duration
            for n, kind in zip(self.thresholds, self.workload, strict=True)
        )

    @property
    def keeps_up(self) -> bool:
        """Whether DT(n) <= n_j / lambda_j for every type j ([A25] Equation (11)).

        DT(n) is `batch_duration`, the time of the longest iteration, and lambda_j the arrival rate.
        So the threshold n_j is at least the arrivals during the longest iteration. After T seconds
        the throughput is then within O(T^-1/2) of that of the fluid equilibrium.
        """
        return self._smallest_relative_drift >= -ROUNDING

    @property
    def keeps_up_strictly(self) -> bool:
        """Whether DT(n) < n_j / lambda_j for every type j ([A25] Equation (11) with < for <=).

        DT(n) is `batch_duration`, the time of the longest iteration, and lambda_j the arrival rate.
        So the threshold n_j exceeds the arrivals during the longest iteration. After T seconds the
        throughput is then within O(1/T) of that of the fluid equilibrium, and the mean latency
        stays bounded.
        """
        return self._smallest_relative_drift > ROUNDING

    @property
    def _smallest_relative_drift(self) -> float:
        return min(drift / n for drift, n in zip(self.drifts, self.thresholds, strict=True))

    def as_parameter(self) -> Mapping[tuple[int, int], int]:
        """Return the thresholds as ``make_policy("wait", thresholds=...)`` takes them.

        Keys are (prefill length, decode length) of each type, values are thresholds.

        Raises
        ------
        InvalidValueError
            Two types have equal lengths, so that the policy cannot distinguish their prompts.
        """
        table = {
            (kind.prefill_length, kind.decode_length): n
            for kind, n in zip(self.workload, self.thresholds, strict=True)
        }
        if len(table) < len(self.workload):
            raise InvalidValueError("plan", "workload", self.workload, "has types of equal lengths")
        return table


def wait_thresholds(
    types: Sequence[PromptType], d0: float, d1: float, memory_limit: int | None = None
) -> WaitPlan:
    """Return the smallest thresholds n_j of WAIT that keep up with arrivals and fit into memory.

    Thresholds keep up if n_j >= lambda_j DT(n) for every type j ([A25] Theorem 1, Equation (11)).
    They fit if M_pi = sum_j n_j S_j <= C. Here lambda_j is the arrival rate, S_j the
    `PromptType.footprint`, and DT(n) = d0 + d1 M_pi the time of the longest iteration. [A25] does
    not say how to choose n_j. If n_j need not be whole numbers, n_j = c lambda_j keep up and fit
    exactly when c >= DT* and c W <= C, with the iteration time DT* of the `equilibrium` and
    W = sum_j lambda_j S_j. The result has the smallest whole numbers n_j with n_j > lambda_j DT(n)
    for every type. If these do not fit, n_j = lambda_j DT(n) is accepted too.

    If no thresholds keep up and fit, the result has the largest n_j = max(1, floor(c lambda_j))
    that fit, and `WaitPlan.keeps_up` is False. The reason is that M*, the memory of the
    equilibrium, is close to C or above C.

    Parameters
    ----------
    types, d0, d1 : Sequence[PromptType], float, float
        As in `equilibrium`.
    memory_limit : int or None, default None
        C, tokens; None for no limit.

    Raises
    ------
    InvalidValueError
        No memory limit and d1 W >= 1, or a limit below sum_j S_j, the memory for thresholds of 1.
    """
    d0, d1 = coefficients(d0, d1)
    kinds = tuple(types)
    load, limit = d1 * token_load(kinds), math.inf
    if memory_limit is not None:
        least = sum(kind.footprint for kind in kinds)
        limit = as_integer(memory_limit, None, "memory_limit", minimum=1)
        if limit < least:
            reason = f"is below {least} tokens, one prompt per stage"
            raise InvalidValueError(None, "memory_limit", limit, reason)
    elif load >= 1:
        raise InvalidValueError("workload", "load", load, "is not below 1: no thresholds keep up")
    if load < 1:
        for strictly in (True, False):
            plan = _first_that_keeps_up(kinds, d0, d1, limit, strictly)
            if plan is not None:
                return plan
    return WaitPlan(kinds, _largest_that_fit(kinds, limit), d0, d1)


def batch_cap_thresholds(
    types: Sequence[PromptType], batch_cap: int, *, as_printed: bool = False
) -> tuple[int, ...]:
    """Return thresholds of WAIT for a cap B on the number of prompts in a batch.

    They are n_j = B lambda_j / sum_i lambda_i (l'_i + 1), rounded down, at least 1, with the decode
    lengths l'_i. So n_j is proportional to lambda_j, as Equation (11) of [A25] requires, and the
    largest batch has sum_j n_j (l'_j + 1) <= B prompts, unless thresholds of 1 exceed B. Section
    6.1 of [A25] prints another rule (``as_printed``).

    Parameters
    ----------
    types : Sequence[PromptType]
        The workload.
    batch_cap : int
        B, the most prompts in a batch.
    as_printed : bool, default False
        Return n_j = B rho_j / (l'_j + 1) with rho_j = lambda_j / sum_i lambda_i, as [A25] prints
        it. These n_j are not proportional to lambda_j: types with long outputs get less than
        Equation (11) requires (docs/fluid.md).

    Raises
    ------
    InvalidValueError, InvalidTypeError
        No types, or a cap that is not a whole number >= 1.
    """
    token_load(types)
    cap = as_integer(batch_cap, None, "batch_cap", minimum=1)
    weights = [kind.arrival_rate * (1 if as_printed else kind.stages) for kind in types]
    total = math.fsum(weights)
    exact = [cap * kind.arrival_rate / total for kind in types]
    if as_printed:
        exact = [one / kind.stages for one, kind in zip(exact, types, strict=True)]
    return tuple(max(1, int(one + ROUNDING)) for one in exact)


def _first_that_keeps_up(
    kinds: tuple[PromptType, ...], d0: float, d1: float, limit: float, strictly: bool
) -> WaitPlan | None:
    """Return the smallest thresholds n_j >= lambda_j DT(n), or None if they do not fit.

    lambda_j DT(n) is the number of arrivals of type j during the longest iteration, whose time
    DT(n) grows with the thresholds n. All n_j begin at 1. Each step raises n_j to lambda_j DT(n)
    for the old thresholds, rounded up. So no step exceeds the smallest solution. ``strictly``
    requires n_j > lambda_j DT(n). Thresholds fit if their largest batch has at most ``limit``
    tokens.
    """
    rates, footprints = _columns(kinds)
    edge = ROUNDING if strictly else -ROUNDING
    counts = np.ones(len(kinds))
    while counts @ footprints <= limit:
        # ``needed`` has the least whole numbers n_j > lambda_j DT(n) if ``strictly``, else the
        # least n_j >= lambda_j DT(n). `ROUNDING` says when two numbers count as equal.
        least = rates * (d0 + d1 * (counts @ footprints)) / (1 - edge)
        needed = np.maximum(np.floor(least) + 1 if strictly else np.ceil(least), counts)
        if (needed == counts).all():
            return WaitPlan(kinds, tuple(int(n) for n in counts), d0, d1)
        counts = needed
    return None


def _largest_that_fit(kinds: tuple[PromptType, ...], limit: float) -> tuple[int, ...]:
    rates, footprints = _columns(kinds)
    highest = limit / float((rates * footprints).min())
    # The thresholds n_j = max(1, floor(c lambda_j)), with the arrival rates lambda_j, grow with c.
    # Bisect for the largest c with which they fit into memory.
    low, high = 0.0, highest
    for _ in range(200):
        middle = (low + high) / 2
        if np.maximum(1, np.floor(middle * rates)) @ footprints <= limit:
            low = middle
        else:
            high = middle
    at_step = np.maximum(1, np.floor(high * rates * (1 + ROUNDING)))
    counts = at_step if at_step @ footprints <= limit else np.maximum(1, np.floor(low * rates))
    return tuple(int(n) for n in counts)


def _columns(kinds: tuple[PromptType, ...]) -> tuple[FloatArray, FloatArray]:
    rates = np.array([kind.arrival_rate for kind in kinds])
    return rates, np.array([kind.footprint for kind in kinds], dtype=np.float64)
