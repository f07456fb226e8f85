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
"""Share of a threshold below which a difference counts as rounding: n_j = lambda_j DT exactly."""


@dataclass(frozen=True)
class Plan(ABC, Generic[Load]):
    """Base of the plans of WAIT and Nested WAIT: thresholds and the iteration time.

    Attributes
    ----------
    workload : Load
        The types or segments of the prompts.
    thresholds : tuple[int, ...]
        Prompts per stage, one number for each type or segment.
    d0, d1 : float
        Coefficients of the iteration time.
    """

    workload: Load
    thresholds: tuple[int, ...] = ranged(minimum=1)
    d0: float = ranged(above=0)
    d1: float = ranged(minimum=0)

    def __post_init__(self) -> None:
        check_ranges(self, "plan")
        if len(self.thresholds) != len(self.workload):
            reason = f"are not {len(self.workload)}"
            raise InvalidValueError("plan", "thresholds", self.thresholds, reason)

    @property
    @abstractmethod
    def batch_memory(self) -> float:
        """M_pi, tokens: neither batch nor residents ever hold more."""

    @property
    def batch_duration(self) -> float:
        """DT(n) = d0 + d1 M_pi, seconds: no iteration takes longer ([A25] Equation (18))."""
        return self.d0 + self.d1 * self.batch_memory


@dataclass(frozen=True)
class WaitPlan(Plan[tuple[PromptType, ...]]):
    """Thresholds of WAIT for types of prompts, with the conditions of [A25] Theorem 1."""

    def __post_init__(self) -> None:
        token_load(self.workload)
        super().__post_init__()

    @property
    def batch_memory(self) -> int:
        """M_pi = sum_j n_j S_j, tokens: neither batch nor residents ever hold more."""
        return sum(
            n * kind.footprint for n, kind in zip(self.thresholds, self.workload, strict=True)
        )

    @cached_property
    def drifts(self) -> tuple[float, ...]:
        """n_j - lambda_j DT(n), prompts per iteration: prompts served minus prompts that arrive."""
        return tuple(
            n - kind.arrival_rate * self.batch_duration
            for n, kind in zip(self.thresholds, self.workload, strict=True)
        )

    @property
    def keeps_up(self) -> bool:
        """[A25] Equation (11): DT(n) <= n_j / lambda_j for every type. Gap O(T^-1/2)."""
        return self._smallest_relative_drift >= -ROUNDING

    @property
    def keeps_up_strictly(self) -> bool:
        """(11) with strict inequalities. Gap O(1/T), latency O(1)."""
        return self._smallest_relative_drift > ROUNDING

    @property
    def _smallest_relative_drift(self) -> float:
        return min(drift / n for drift, n in zip(self.drifts, self.thresholds, strict=True))

    def as_parameter(self) -> Mapping[tuple[int, int], int]:
        """Return the argument of ``make_policy("wait", thresholds=...)``: (l, l') -> n.

        Raises
        ------
        InvalidValueError
            Two types with equal lengths, which the policy cannot tell apart.
        """
        table = {
            (kind.prefill_length, kind.decode_length): n
            for kind, n in zip(self.workload, self.thresholds, strict=True)
        }
        if len(table) < len(self.workload):
            raise InvalidValueError("plan", "workload", self.workload, "holds two of equal lengths")
        return table


def wait_thresholds(
    types: Sequence[PromptType], d0: float, d1: float, memory_limit: int | None = None
) -> WaitPlan:
    """Smallest thresholds n_j = ceil(c lambda_j) that keep up and fit ([A25] Theorem 1).

    [A25] Equation (11) gives conditions, no rule. Proportional thresholds meet them, rounding
    apart, exactly when c >= DT* and c W <= C. Here c grows from DT* until n_j > lambda_j DT(n)
    holds for every type with the rounded n_j; equality is enough if a strict plan does not fit.
    If no plan keeps up and fits, because M* is too close to C or above C, the largest
    n_j = max(1, floor(c lambda_j)) that fit are taken (c = C/W, rounded). `WaitPlan.keeps_up` is
    False then.

    Parameters
    ----------
    types, d0, d1 : Sequence[PromptType], float, float
        As in `equilibrium`.
    memory_limit : int or None, default None
        C, tokens; None for no limit.

    Raises
    ------
    InvalidValueError
        No memory limit and d1 W >= 1, or a limit below sum_j S_j, which thresholds of 1 need.
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
        raise InvalidValueError("workload", "load", load, "is not below 1")
    if load < 1:
        for strictly in (True, False):
            plan = _first_that_keeps_up(kinds, d0, d1, limit, strictly)
            if plan is not None:
                return plan
    return WaitPlan(kinds, _largest_that_fit(kinds, limit), d0, d1)


def batch_cap_thresholds(
    types: Sequence[PromptType], batch_cap: int, *, as_printed: bool = False
) -> tuple[int, ...]:
    """n_j = B lambda_j / sum_i lambda_i (l'_i + 1), rounded down, at least 1.

    The rule of [A25] Section 6.1 in the form that agrees with (11): proportional to lambda_j,
    with sum_j n_j (l'_j + 1) at most the cap B on the prompts of a batch (unless the 1s exceed it).

    Parameters
    ----------
    types : Sequence[PromptType]
        The workload.
    batch_cap : int
        B.
    as_printed : bool, default False
        Return n_j = B rho_j / (l'_j + 1) with rho_j = lambda_j / sum_i lambda_i, as [A25] prints
        it. That is not proportional to lambda_j, so (11) asks more of the long types than it grants
        them (docs/fluid.md).

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
    """Return the smallest thresholds that keep up, or None if they do not fit.

    From thresholds that no solution undercuts, each step takes the least that the arrivals of
    their iteration need. So no step overshoots the smallest solution.
    """
    rates, footprints = _columns(kinds)
    edge = ROUNDING if strictly else -ROUNDING
    counts = np.ones(len(kinds))
    while counts @ footprints <= limit:
        # The drift n - arrivals is compared with the share of n that counts as rounding.
        least = rates * (d0 + d1 * (counts @ footprints)) / (1 - edge)
        needed = np.maximum(np.floor(least) + 1 if strictly else np.ceil(least), counts)
        if (needed == counts).all():
            return WaitPlan(kinds, tuple(int(n) for n in counts), d0, d1)
        counts = needed
    return None


def _largest_that_fit(kinds: tuple[PromptType, ...], limit: float) -> tuple[int, ...]:
    rates, footprints = _columns(kinds)
    highest = limit / float((rates * footprints).min())
    # n_j grows with c: bisect on c, then on nothing smaller than the gap between two of its steps.
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
